"""Channels: requests and parking, exceptions, Close both ways, flow (A9, A10, A17)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import encode_method
from node.wire.amqp091.connection import Connection, ConnectionState
from node.wire.amqp091.lifecycle import CHANNEL_OCTETS
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.primitives import Method
from tests.wire.client import Client, accepted, opened, publish, run_of


class Refused(Exception):
    """A refusal as the engine raises it."""

    def __init__(self, code: int, *, ends_connection: bool = False):
        super().__init__("no")
        self.code = code
        self.ends_connection = ends_connection


REQUESTS: list[tuple[Method, Method]] = [
    (m.ExchangeDeclare("e"), m.ExchangeDeclareOk()),
    (m.ExchangeDelete("e"), m.ExchangeDeleteOk()),
    (m.ExchangeBind("d", "s"), m.ExchangeBindOk()),
    (m.ExchangeUnbind("d", "s"), m.ExchangeUnbindOk()),
    (m.QueueDeclare("q"), m.QueueDeclareOk("q", 1, 2)),
    (m.QueueBind("q", "e"), m.QueueBindOk()),
    (m.QueueUnbind("q", "e"), m.QueueUnbindOk()),
    (m.QueuePurge("q"), m.QueuePurgeOk(3)),
    (m.QueueDelete("q"), m.QueueDeleteOk(4)),
]


@pytest.mark.parametrize(("request_", "answer"), REQUESTS)
def test_requests_are_answered_by_the_shell(request_: Method, answer: Method) -> None:
    client = opened(1)
    assert client.send((1, request_)) == [e.Request(1, request_)]
    assert client.output() == []
    client.connection.reply(1, answer)
    assert client.methods() == [answer]


def test_nowait_means_no_answer() -> None:
    client = opened(1)
    client.send((1, m.QueueDeclare("q", nowait=True)), (1, m.QueuePurge("q")))
    client.connection.reply(1, m.QueueDeclareOk("q", 0, 0))
    client.connection.reply(1, m.QueuePurgeOk(0))
    assert client.methods() == [m.QueuePurgeOk(0)]


def test_an_empty_queue_name_is_the_last_declared_queue() -> None:
    client = opened(1, 2)
    client.send((1, m.QueueDeclare("")))
    client.connection.reply(1, m.QueueDeclareOk("amq.gen-1", 0, 0))
    for method, meant in [
        (m.QueueBind("", "e", ""), m.QueueBind("amq.gen-1", "e", "amq.gen-1")),
        (m.QueueBind("", "e", "key"), m.QueueBind("amq.gen-1", "e", "key")),
        (m.QueuePurge(""), m.QueuePurge("amq.gen-1")),
        (m.QueueDelete(""), m.QueueDelete("amq.gen-1")),
    ]:
        assert client.send((1, method)) == [e.Request(1, meant)]
        client.connection.reply(1, m.QueueBindOk())
    client.methods()
    client.send((2, m.QueuePurge("")))
    (close,) = client.methods()
    assert isinstance(close, m.ChannelClose) and (close.reply_code, close.class_id) == (404, 50)


# -- parking ------------------------------------------------------------------------------------


@pytest.mark.requirement("A22.1")
def test_frames_behind_a_request_wait_and_other_channels_go_on() -> None:
    client = opened(1, 2)
    effects = client.send(
        publish(1, b"before"), (1, m.QueueDeclare("q")), publish(1, b"after"), (1, m.QueuePurge("q")),
        publish(1, b"last"), publish(2, b"other"),
    )  # fmt: skip
    assert [type(effect) for effect in effects] == [e.PublishEffect, e.Request, e.PublishEffect]
    assert isinstance(effects[2], e.PublishEffect) and effects[2].channel == 2
    client.connection.reply(1, m.QueueDeclareOk("q", 0, 0))
    assert [type(effect) for effect in client.connection.take_effects()] == [e.PublishEffect, e.Request]
    client.send(publish(1, b"very last"))
    client.connection.reply(1, m.QueuePurgeOk(0))
    assert [type(effect) for effect in client.connection.take_effects()] == [e.PublishEffect, e.PublishEffect]


def test_parked_frames_are_bounded() -> None:
    client = opened(1, limits=ConnectionLimits(parked_bytes=10_000))
    client.send((1, m.QueueDeclare("q")))
    while not client.connection.paused:
        client.send(publish(1, b"x" * 1000))
    assert client.connection.life.parking.octets < 12_000
    client.connection.reply(1, m.QueueDeclareOk("q", 0, 0))
    assert not client.connection.paused and client.connection.life.parking.octets == 0


def test_many_pipelined_requests_cost_their_length() -> None:
    client = opened(1, limits=ConnectionLimits(turn_work=1 << 40))
    count = 20_000
    client.send(encode_method(1, m.QueueDeclare("q", nowait=True)) * count)
    for _ in range(count):
        client.connection.reply(1, m.QueueDeclareOk("q", 0, 0))
    assert len(client.connection.take_effects()) == count - 1
    assert client.connection.life.parking.octets == 0 and client.connection.life.parking.of(1) is None


def test_a_channel_closed_and_opened_behind_a_request() -> None:
    client = opened(1)
    client.send(
        (1, m.QueueDeclare("q")), (1, m.ChannelClose(200)), (1, m.ChannelOpen()), (1, m.QueuePurge("p"))
    )
    client.connection.reply(1, m.QueueDeclareOk("q", 0, 0))
    assert client.connection.take_effects() == [e.ChannelClosed(1, []), e.Request(1, m.QueuePurge("p"))]
    assert client.methods() == [m.QueueDeclareOk("q", 0, 0), m.ChannelCloseOk(), m.ChannelOpenOk()]


# -- exceptions ---------------------------------------------------------------------------------


@pytest.mark.requirement("A10.1", "A10.5")
def test_a_refused_request_closes_the_channel_only() -> None:
    client = opened(1, 2)
    client.send((1, m.QueueDeclare("q")), publish(1, b"discarded"))
    client.connection.fail(1, Refused(406))
    assert client.methods() == [m.ChannelClose(406, "PRECONDITION_FAILED - no", 50, 10)]
    assert [type(effect) for effect in client.connection.take_effects()] == [e.LogEffect, e.ChannelClosed]
    assert client.send((1, m.QueuePurge("q")), publish(1, b"discarded"), (1, m.TxSelect())) == []
    assert [type(effect) for effect in client.send((2, m.QueuePurge("q")))] == [e.Request]
    client.send((1, m.ChannelCloseOk()), (1, m.ChannelOpen()))
    assert client.methods() == [m.ChannelOpenOk()]


@pytest.mark.requirement("A10.2")
def test_a_refused_request_may_close_the_connection() -> None:
    client = opened(1)
    client.send((1, m.ExchangeDeclare("e", "nonsense")))
    client.connection.fail(1, Refused(503, ends_connection=True))
    assert client.methods() == [m.ConnectionClose(503, "COMMAND_INVALID - no", 40, 10)]
    assert [type(effect) for effect in client.connection.take_effects()] == [e.LogEffect, e.ConnectionClosed]


@pytest.mark.requirement("A10.7")
def test_both_close_a_channel_at_once() -> None:
    client = opened(1)
    client.send((1, m.BasicAck(1)))
    assert isinstance(client.methods()[0], m.ChannelClose)
    client.send((1, m.ChannelClose(200)))
    assert client.methods() == [m.ChannelCloseOk()]
    client.send((1, m.ChannelOpen()))
    assert client.methods() == [], "our Close is not answered yet: the number is not free"
    client.send((1, m.ChannelCloseOk()), (1, m.ChannelOpen()))
    assert client.methods() == [m.ChannelOpenOk()]


@pytest.mark.requirement("A10.3")
def test_the_client_closes_a_channel() -> None:
    client = opened(1)
    client.consume()
    client.deliver(7, run_of([b"a"] * 3), 5, False)
    client.output()
    assert client.send((1, m.BasicAck(1)), (1, m.ChannelClose(200))) == [
        accepted(1, 7, [(5, 5)]), e.ChannelClosed(1, [(7, [(6, 7)])], awaited=True),
    ]  # fmt: skip
    assert client.send((1, m.ChannelOpen())) == [] and client.methods() == []
    client.connection.reply(1, m.ChannelCloseOk())
    assert client.methods() == [m.ChannelCloseOk(), m.ChannelOpenOk()]
    client.send((1, m.ChannelClose(200)))
    assert client.methods() == [m.ChannelCloseOk()]
    client.send((1, m.QueueDeclare("q")))
    (close,) = client.methods()
    assert isinstance(close, m.ConnectionClose) and close.reply_code == 504


ANSWERS: list[Callable[[Connection], None]] = [
    lambda connection: connection.reply(1, m.QueueDeclareOk("q", 0, 0)),
    lambda connection: connection.fail(1, Refused(404)),
    lambda connection: connection.consume_ok(1, "t", 9),
    lambda connection: connection.get_empty(1),
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_closed_channel_waits_for_the_answer_that_is_still_to_come(
    answer: Callable[[Connection], None],
) -> None:
    """Else the answer could be taken for one to a request of the next channel with that number."""
    client = opened(1)
    client.send((1, m.BasicConsume("q", "t")))
    client.connection.fail_publish(1, Refused(404))
    client.send((1, m.ChannelCloseOk()), (1, m.ChannelOpen()), (1, m.QueuePurge("q")))
    assert [type(method) for method in client.methods()] == [m.ChannelClose]
    answer(client.connection)
    effects = client.connection.take_effects()
    assert effects == [e.ChannelClosed(1, []), e.Request(1, m.QueuePurge("q"))]
    assert client.methods() == [m.ChannelOpenOk()]


def test_answers_for_unknown_channels_change_nothing() -> None:
    client = opened(1)
    for answer in ANSWERS:
        answer(client.connection)
    client = opened()
    for answer in ANSWERS:
        answer(client.connection)
    client.connection.confirm(1, 1, 1)
    client.connection.fail_publish(1, Refused(404))
    client.connection.return_unroutable(1, run_of([b"x"]), 312, "NO_ROUTE")
    client.connection.deliver_get(1, run_of([b"x"]), 1, False, 0)
    client.connection.cancel_consumer(1)
    assert client.output() == [] and client.connection.take_effects() == []


def test_the_connection_ends_while_a_closed_channel_waits() -> None:
    client = opened(1)
    client.consume()
    client.deliver(7, run_of([b"a"] * 3), 5, False)
    client.send((1, m.QueueDeclare("q")))
    client.connection.fail_publish(1, Refused(404))
    client.connection.take_effects()
    assert client.connection.disconnected() == [e.ConnectionClosed([(7, [(5, 7)])])]


def test_an_exception_is_told_behind_what_the_end_of_the_consumers_does() -> None:
    """Frames that come meanwhile are dropped, but for the client's answer."""
    client = opened(1)
    client.consume()
    effects = client.send((1, m.BasicAck(9)), (1, m.QueueDeclare("q")))
    assert e.ChannelClosed(1, [], awaited=True) in effects
    close = client.failed()
    assert isinstance(close, m.ChannelClose)
    assert close.reply_code == 406
    assert client.send((1, m.ChannelCloseOk()), (1, m.ChannelOpen())) == []
    assert client.methods() == [m.ChannelOpenOk()]


def test_a_publish_that_is_refused_ends_the_channel_behind_the_request_that_waits() -> None:
    client = opened(1)
    client.consume()
    client.send((1, m.QueueDeclare("q")))
    client.connection.fail_publish(1, Refused(404))
    assert [type(one) for one in client.connection.take_effects()] == [e.LogEffect]
    assert client.output() == []
    client.connection.reply(1, m.QueueDeclareOk("q", 0, 0))
    assert client.connection.take_effects() == [e.ChannelClosed(1, [], awaited=True)]
    assert isinstance(client.failed(), m.ChannelClose)


@pytest.mark.requirement("A10.7")
def test_both_close_a_channel_that_has_consumers() -> None:
    client = opened(1)
    client.consume()
    octets = publish(1, b"x", exchange="none") + encode_method(1, m.ChannelClose(200))
    assert e.AnswerEffect(1, m.ChannelCloseOk()) in client.connection.receive(octets, client.now)
    client.connection.fail_publish(1, Refused(404))
    client.connection.reply(1, m.ChannelCloseOk())
    assert e.ChannelClosed(1, [], awaited=True) in client.connection.take_effects()
    assert client.output() == []
    client.connection.reply(1, m.ChannelCloseOk())
    assert [type(one) for one in client.methods()] == [m.ChannelClose, m.ChannelCloseOk]
    client.send((1, m.ChannelCloseOk()), (1, m.ChannelOpen()))
    assert client.methods() == [m.ChannelOpenOk()]


@pytest.mark.parametrize("whole", [False, True])
def test_the_connection_ends_while_a_channel_waits_for_the_end_of_its_consumers(whole: bool) -> None:
    client = opened(1)
    client.consume()
    client.deliver(7, run_of([b"a"] * 3), 5, False)
    client.output()
    (closed,) = client.send((1, m.ChannelClose(200)))
    assert closed == e.ChannelClosed(1, [(7, [(5, 7)])], awaited=True)
    client.connection.fail_publish(1, Refused(404))
    if whole:
        assert client.send((0, m.ConnectionClose(200))) == [e.ConnectionClosed([])]
    else:
        assert client.connection.disconnected() == [e.ConnectionClosed([])]
    client.connection.reply(1, m.ChannelCloseOk())
    assert client.methods() == ([m.ConnectionCloseOk()] if whole else [])


# -- numbers and flow ---------------------------------------------------------------------------


@pytest.mark.requirement("A9.1")
def test_all_channel_numbers_work() -> None:
    client = Client(ConnectionLimits(channel_max=0))
    client.negotiate(tune_ok=m.ConnectionTuneOk(65_535, 0, 0))
    client.open_channel(1, 255, 256, 65_535)
    assert [
        effect.channel for effect in client.send(publish(65_535, b"x")) if isinstance(effect, e.PublishEffect)
    ] == [65_535]


@pytest.mark.requirement("A9.2")
def test_one_channel_may_be_all_there_is() -> None:
    client = Client()
    client.negotiate(tune_ok=m.ConnectionTuneOk(1, 0, 0))
    client.open_channel(1)
    client.send((2, m.ChannelOpen()))
    (close,) = client.methods()
    assert isinstance(close, m.ConnectionClose) and close.reply_code == 530


@pytest.mark.requirement("A9.1")
def test_all_channels_may_be_open_at_once() -> None:
    """Where the connection is granted the memory that so many take."""
    client = Client(ConnectionLimits(channel_max=0, memory_bytes=65_535 * (CHANNEL_OCTETS + 200)))
    client.negotiate(tune_ok=m.ConnectionTuneOk(65_535, 0, 0))
    client.send(b"".join(encode_method(number, m.ChannelOpen()) for number in range(1, 65_536)))
    opened_: list[int] = []
    while client.connection.has_output:
        opened_ += [channel for _, channel, method in client.output() if method == m.ChannelOpenOk()]
    assert sorted(opened_) == list(range(1, 65_536))
    assert client.connection.life.state is ConnectionState.OPEN


@pytest.mark.requirement("A9.4")
def test_the_client_stops_and_resumes_deliveries() -> None:
    client = opened(1)
    client.consume()
    client.send((1, m.ChannelFlow(False)))
    assert client.methods() == [m.ChannelFlowOk(False)]
    assert client.effects[-1] == e.Credit(7, 0)
    client.deliver(7, run_of([b"a", b"b"]), 5, False)
    assert client.output() == [], "what was on its way is held"
    client.send((1, m.ChannelFlow(True)))
    methods = client.methods()
    assert [type(method) for method in methods] == [m.ChannelFlowOk, m.BasicDeliver, m.BasicDeliver]
    assert client.effects[-1] == e.Credit(7, 2002)


def test_access_tickets_are_granted() -> None:
    client = opened(1)
    client.send((1, m.AccessRequest("/data")))
    assert client.methods() == [m.AccessRequestOk(1)]
