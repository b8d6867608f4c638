"""The memory that a client takes up is bounded, and is freed with its connection (decision 0018)."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable

import pytest

from node.delivery.credit import Credits, Windows
from node.delivery.octets import SIZE_OCTETS
from node.delivery.shares import Output
from node.delivery.unsettled import RUN_OCTETS, UnsettledDeliveries
from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import PROTOCOL_HEADER, encode_frame, encode_method
from node.wire.amqp091.effects import FRAMING
from node.wire.amqp091.intake import Intake, ParkedFrames
from node.wire.amqp091.lifecycle import CHANNEL_OCTETS, ConnectionState
from node.wire.amqp091.limits import ConnectionLimits
from tests.wire.client import Client, header, opened, publish, run_of

START_OK = encode_method(0, m.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest"))


def test_a_client_that_has_not_logged_in_is_granted_little() -> None:
    """While its password is checked it may send ahead, but not without end."""
    client = Client(ConnectionLimits(stranger_bytes=5000))
    client.send(PROTOCOL_HEADER, START_OK)
    heartbeat = encode_frame(m.FRAME_HEARTBEAT, 0, b"")
    client.send(heartbeat * (5000 // len(heartbeat)))
    assert client.connection.life.state is ConnectionState.NEGOTIATING
    client.send(heartbeat)
    assert client.connection.life.state is ConnectionState.PAUSED
    assert isinstance(client.effects[-1], e.NegotiationFailed)
    assert client.connection.life.intake.size == 0


def test_small_pieces_take_no_more_than_their_octets() -> None:
    """Each octet by itself as an object would take fifty."""
    intake, parked = Intake(), ParkedFrames()
    frame = encode_frame(m.FRAME_BODY, 1, b"x")
    for _ in range(20_000):
        intake.add(b"ab")
        parked.add(frame)
    client = opened(1)
    client.send((1, m.BasicPublish("", "q")), encode_frame(m.FRAME_HEADER, 1, header(1 << 20)))
    client.send(frame * 20_000)
    content = client.connection.life.channels[1].content
    assert content is not None
    for kept, octets in (
        (sum(map(sys.getsizeof, intake._pieces._pieces)), 40_000),
        (sum(map(sys.getsizeof, parked._pieces._pieces)), 20_000 * len(frame)),
        (sys.getsizeof(content._frames), 20_000 * len(frame)),
    ):
        assert octets <= kept < octets * 1.25 + 200
    assert content.size == client.connection.life.parts.unfinished_bytes == 20_000 * len(frame) + 8 + 14


def test_who_reads_no_answers_is_asked_no_more_and_goes_on_once_they_are_read() -> None:
    limits = ConnectionLimits(unread_bytes=10_000)
    client = opened(1, limits=limits)
    asked = 20_000
    client.send(encode_method(1, m.BasicQos(0, 1)) * asked)
    assert client.connection.paused
    assert client.connection.life.outbox.octets < 10_100
    answered = 0
    while client.connection.has_output:
        answered += len(client.output())
    assert answered == asked
    assert not client.connection.paused


def test_unroutable_messages_that_the_client_does_not_read_are_not_piled_up() -> None:
    client = opened(1, limits=ConnectionLimits(unread_bytes=50_000))
    returned = 0
    for _ in range(100):
        if client.connection.paused:
            break
        for effect in client.send(publish(1, b"x" * 5000, mandatory=True)):
            assert isinstance(effect, e.PublishEffect)
            client.connection.return_unroutable(1, effect.run, 312, "NO_ROUTE")
            returned += 1
    assert 10 <= returned <= 12


def test_parked_requests_wait_for_the_answers_before_them_to_be_read() -> None:
    """Each basic.get is answered with a message: a pipeline of them must not fill the memory."""
    client = opened(1, limits=ConnectionLimits(unread_bytes=50_000))
    client.send(encode_method(1, m.BasicGet("q", no_ack=True)) * 500)
    got = 0
    pending = [effect for effect in client.effects if isinstance(effect, e.Request)]
    highest = 0
    while pending:
        pending.pop()
        client.connection.deliver_get(1, run_of([b"x" * 10_000]), got + 1, False, 0, 5)
        got += 1
        highest = max(highest, client.connection.life.outbox.octets)
        pending += [one for one in client.connection.take_effects() if isinstance(one, e.Request)]
        if not pending:
            client.output()
            pending += [one for one in client.connection.take_effects() if isinstance(one, e.Request)]
    assert got == 500
    assert highest < 70_000


def test_consumers_get_no_credit_while_too_much_waits_for_the_client() -> None:
    limits = ConnectionLimits(pending_bytes=100_000, first_window=16)
    client = opened(1, limits=limits)
    credits = {}
    for consumer in range(1, 6):
        (credit,) = client.consume(consumer=consumer, tag=f"t{consumer}", no_ack=True)
        assert isinstance(credit, e.Credit) and credit.limit == 16
        credits[consumer] = credit.limit
    client.deliver(1, run_of([b"x" * 30_000] * 4), 1, False)
    told = client.connection.take_effects()
    revoked = {one.consumer: one.limit for one in told if isinstance(one, e.Credit)}
    assert revoked == {1: 4, 2: 0, 3: 0, 4: 0, 5: 0}
    client.connection.take_output()
    granted = {one.consumer for one in client.connection.take_effects() if isinstance(one, e.Credit)}
    assert granted == set(range(1, 6))


@pytest.mark.parametrize("header_sent", [False, True])
def test_during_an_alarm_no_message_grows(header_sent: bool) -> None:
    """One that was begun before waits, and is taken when the alarm is over."""
    client = opened(1)
    begun = [encode_method(1, m.BasicPublish("", "q"))]
    rest = [encode_frame(m.FRAME_HEADER, 1, header(300_000))]
    if header_sent:
        begun += [*rest, encode_frame(m.FRAME_BODY, 1, b"x" * 100_000)]
        rest = []
    if header_sent:
        client.send(*begun)
        client.connection.alarm("memory")
    else:
        client.connection.alarm("memory")
        client.send(*begun)
    client.send(*rest)
    client.send(encode_frame(m.FRAME_BODY, 1, b"x" * 100_000))
    grown = client.connection.life.parts.unfinished_bytes
    for _ in range(2 - header_sent):
        client.send(encode_frame(m.FRAME_BODY, 1, b"x" * 100_000))
    assert client.connection.life.parts.unfinished_bytes == grown
    assert client.connection.blocked
    client.effects.clear()
    client.connection.alarm(None)
    client.effects += client.connection.take_effects()
    assert client.only(e.PublishEffect).run.count == 1


def test_channels_and_their_numbers_count() -> None:
    client = opened(limits=ConnectionLimits(message_size=1, memory_bytes=1))
    budget = client.connection.life.limits.budget
    number = 0
    while client.connection.life.state is ConnectionState.OPEN and number < 2047:
        number += 1
        client.send((number, m.ChannelOpen()))
        client.output()
    assert client.connection.life.state is ConnectionState.CLOSING
    assert number == budget // CHANNEL_OCTETS + 1
    assert client.connection.life.held == 0


def test_nothing_of_a_connection_is_left_for_the_collector() -> None:
    """Which runs seldom: a node's hot path makes no cycles, and neither may what its clients leave."""
    gc.collect()
    gc.disable()
    try:
        client = opened(1, 2)
        client.consume()
        client.send((2, m.TxSelect()), publish(2, b"x" * 1000))
        client.send((1, m.BasicPublish("", "q")), encode_frame(m.FRAME_HEADER, 1, header(10)))
        client.deliver(7, run_of([b"x"]), 1, False)
        client.connection.alarm("memory")
        client.connection.disconnected()
        del client
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = sorted({type(one).__name__ for one in gc.garbage} - {"dict", "list", "tuple", "cell"})
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not [name for name in left if name in sys.modules[__name__].__dict__ or name[0].isupper()], left


# -- records of deliveries ------------------------------------------------------------------------

EACH = 100
BATCHES = 50


def with_unsettled(client: Client, apart: int = 1, consumer: int = 7) -> None:
    """Deliveries in batches, between which other consumers of the queue have had messages."""
    for batch in range(BATCHES):
        first = 1 + batch * (EACH + apart)
        client.deliver(consumer, run_of([b"x"] * EACH), first, False)
        client.output()


def records(client: Client) -> int:
    return client.connection.life.credits.record_octets


def settle(client: Client) -> None:
    client.send((1, m.BasicAck(0, True)))


def cancel(client: Client) -> None:
    """The unsettled deliveries stay on the channel."""
    before = records(client)
    client.send((1, m.BasicCancel("t")))
    client.connection.reply(1, m.BasicCancelOk("t"))
    assert records(client) == before


def cancel_and_settle(client: Client) -> None:
    cancel(client)
    settle(client)


ENDS: dict[str, Callable[[Client], object]] = {
    "settle": settle,
    "requeue": lambda client: client.send((1, m.BasicNack(BATCHES * EACH, True))),
    "one by one": lambda client: client.send(*((1, m.BasicAck(tag + 1)) for tag in range(BATCHES * EACH))),
    "cancel and settle": cancel_and_settle,
    "channel.close": lambda client: client.send((1, m.ChannelClose(200))),
    "an exception": lambda client: client.send((1, m.BasicAck(1 << 40))),
    "connection.close": lambda client: client.send((0, m.ConnectionClose(200))),
    "connection loss": lambda client: client.connection.disconnected(),
}


@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize("how", ENDS)
def test_records_of_unsettled_deliveries_are_held_until_they_are_settled(how: str, windows: bool) -> None:
    client = opened(1)
    if windows:
        client.send((1, m.BasicQos(1 << 30, 0)))
    client.consume()
    client.output()
    before = client.connection.life.held
    with_unsettled(client)
    held = BATCHES * RUN_OCTETS + (BATCHES * EACH * SIZE_OCTETS if windows else 0)
    assert client.connection.life.held - before == records(client) == held
    ENDS[how](client)
    assert records(client) == 0


def test_deliveries_in_the_order_of_their_queue_are_one_record() -> None:
    client = opened(1)
    client.consume()
    with_unsettled(client, apart=0)
    assert records(client) == RUN_OCTETS


def test_deliveries_that_are_settled_out_of_order_count_one_by_one() -> None:
    client = opened(1)
    client.consume()
    with_unsettled(client, apart=0)
    client.send(*((1, m.BasicAck(tag)) for tag in range(2, BATCHES * EACH, 2)))
    assert records(client) == BATCHES * EACH // 2 * RUN_OCTETS


@pytest.mark.requirement("A5.18")
def test_a_client_with_more_records_than_its_budget_is_let_go() -> None:
    """Each delivery is a record where the client settles every second one."""
    client = opened(1, limits=ConnectionLimits(message_size=1, memory_bytes=1))
    client.consume()
    budget = client.connection.life.limits.budget
    number = 0
    while client.connection.life.state is ConnectionState.OPEN:
        number += 2 * EACH
        client.deliver(7, run_of([b"x"] * 2 * EACH), number, False)
        client.output()
        tags = range(number - 2 * EACH + 1, number, 2)
        client.send(*((1, m.BasicAck(tag)) for tag in tags))
        assert number // 2 * RUN_OCTETS < budget + 2 * EACH * RUN_OCTETS
    (close,) = [one for one in client.methods() if isinstance(one, m.ConnectionClose)]
    assert close.reply_code == 506
    assert client.connection.life.held <= client.connection.life.outbox.octets


def test_a_client_that_sends_nothing_is_let_go_too() -> None:
    client = opened(1, limits=ConnectionLimits(message_size=1, memory_bytes=1))
    client.consume()
    budget = client.connection.life.limits.budget
    wanted = budget // RUN_OCTETS
    for number in range(2, 2 * wanted + 400, 2):
        client.deliver(7, run_of([b"x"]), number, False)
        if number % 200 == 0:
            client.output()
    assert client.connection.life.state is ConnectionState.CLOSING
    assert records(client) == 0


def test_a_record_takes_no_more_than_is_counted() -> None:
    count = 20_000
    credits = Credits(Windows(2000, 16, 1 << 22, 1 << 24), Output(FRAMING))
    runs, singles = UnsettledDeliveries(credits), UnsettledDeliveries(credits)
    tracemalloc.start()
    for tag in range(1, count + 1):
        runs.append(tag, 7, range(1000 * tag, 1000 * tag + 1), None)
    taken = tracemalloc.get_traced_memory()[0]
    assert taken <= credits.record_octets < 2 * taken
    before = credits.record_octets
    for tag in range(1, count + 1, EACH):
        singles.append(tag, 7, [1000 * tag + 2 * number for number in range(EACH)], None)
    grown = tracemalloc.get_traced_memory()[0] - taken
    tracemalloc.stop()
    assert grown <= credits.record_octets - before < 2.5 * grown
