"""On a channel no answer overtakes that of an earlier request, nor does a channel exception (§4.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from node.refusal import NotFoundError
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import encode_method
from node.wire.amqp091.primitives import Method
from tests.session.answering import AnsweringBroker, Connected
from tests.wire.client import publish

ABSENT = "absent"


class LateBroker(AnsweringBroker):
    """Answers some of its requests later, and refuses what is published to ABSENT."""

    def __init__(self, late: list[bool]) -> None:
        super().__init__()
        self.waiting: list[Callable[[], None]] = []
        self._late = late

    def route(self, scope: Any, exchange: str, key: str, headers: Any = None, copies: Any = ()) -> Any:
        if exchange == ABSENT:
            raise NotFoundError(f"no exchange '{ABSENT}'")
        return super().route(scope, exchange, key, headers, copies)

    def _later(self, answer: Callable[..., None]) -> Callable[..., None]:
        """The answer, or something that keeps it for later."""
        late = bool(self._late) and self._late.pop()

        def wait(*arguments: Any) -> None:
            self.waiting.append(lambda: answer(*arguments))

        return wait if late else answer

    def declare_exchange(self, vhost: str, exchange: Any, answer: Any) -> None:
        if exchange.name == ABSENT:
            self._later(answer)(NotFoundError("refused"))
        else:
            super().declare_exchange(vhost, exchange, self._later(answer))

    def purge(self, queue: Any, answer: Any) -> None:
        super().purge(queue, self._later(answer))

    def get(self, queue: Any, no_ack: bool, answer: Any, filter: bytes = b"") -> None:
        super().get(queue, no_ack, self._later(answer))

    def consume(self, subscriber: Any, queue: Any, options: Any, answer: Any) -> None:
        super().consume(subscriber, queue, options, self._later(answer))


def published(exchange: str) -> bytes:
    return publish(1, b"x", exchange=exchange)


STEPS: dict[str, tuple[Callable[[int], bytes | Method], tuple[type[Method], ...]]] = {
    "published": (lambda n: published("e"), ()),
    "exchange.declare": (lambda n: m.ExchangeDeclare("e"), (m.ExchangeDeclareOk,)),
    "exchange.delete": (lambda n: m.ExchangeDelete("e"), (m.ExchangeDeleteOk,)),
    "exchange.bind": (lambda n: m.ExchangeBind("e", "f"), (m.ExchangeBindOk,)),
    "exchange.unbind": (lambda n: m.ExchangeUnbind("e", "f"), (m.ExchangeUnbindOk,)),
    "queue.declare": (lambda n: m.QueueDeclare("q"), (m.QueueDeclareOk,)),
    "queue.bind": (lambda n: m.QueueBind("q", "e"), (m.QueueBindOk,)),
    "queue.unbind": (lambda n: m.QueueUnbind("q", "e"), (m.QueueUnbindOk,)),
    "queue.purge": (lambda n: m.QueuePurge("q"), (m.QueuePurgeOk,)),
    "queue.delete": (lambda n: m.QueueDelete("q"), (m.QueueDeleteOk,)),
    "basic.consume": (lambda n: m.BasicConsume("q", f"t{n}"), (m.BasicConsumeOk,)),
    "basic.get": (lambda n: m.BasicGet("q"), (m.BasicGetOk, m.BasicGetEmpty)),
    "basic.cancel": (lambda n: m.BasicCancel("t0"), (m.BasicCancelOk,)),
    "basic.qos": (lambda n: m.BasicQos(0, n), (m.BasicQosOk,)),
    "basic.recover": (lambda n: m.BasicRecover(True), (m.BasicRecoverOk,)),
    "channel.flow": (lambda n: m.ChannelFlow(True), (m.ChannelFlowOk,)),
    "access.request": (lambda n: m.AccessRequest("/data"), (m.AccessRequestOk,)),
    "confirm.select": (lambda n: m.ConfirmSelect(), (m.ConfirmSelectOk,)),
}

TRANSACTED = {
    "tx.select": (lambda n: m.TxSelect(), (m.TxSelectOk,)),
    "tx.commit": (lambda n: m.TxCommit(), (m.TxCommitOk,)),
    "tx.rollback": (lambda n: m.TxRollback(), (m.TxRollbackOk,)),
}

# Requests that make the server close the channel, each with its reply code.
ENDS: dict[str, tuple[bytes | Method, int]] = {
    "refused publish": (published(ABSENT), 404),
    "refused request": (m.ExchangeDeclare(ABSENT), 404),
    "unknown tag": (m.BasicAck(99), 406),
    "commit without transaction": (m.TxCommit(), 406),
}


def octets(step: bytes | Method) -> bytes:
    return step if isinstance(step, bytes) else encode_method(1, step)


def answers(late: list[bool], data: bytes) -> list[Method]:
    """All that the client is answered on its channel, confirms and deliveries apart."""
    broker = LateBroker(late)
    client = Connected(broker)
    client.output()
    client.send(data)
    found = client.output()
    while broker.waiting:
        broker.waiting.pop(0)()
        found += client.output()
    methods = [payload for _, _, payload in found if isinstance(payload, Method)]
    return [one for one in methods if not isinstance(one, m.BasicAck | m.BasicDeliver)]


@given(
    before=st.lists(st.sampled_from(sorted(STEPS)), max_size=8), end=st.sampled_from(sorted(ENDS)),
    late=st.lists(st.booleans(), max_size=12), after=st.lists(st.sampled_from(sorted(STEPS)), max_size=4),
)  # fmt: skip
@settings(max_examples=400)
@example(before=["confirm.select"], end="refused publish", late=[], after=["basic.qos"])
def test_requests_are_answered_in_order_until_one_ends_the_channel(
    before: list[str], end: str, late: list[bool], after: list[str]
) -> None:
    asked = [octets(STEPS[name][0](number)) for number, name in enumerate(before)]
    ending, code = ENDS[end]
    if end == "commit without transaction" and "confirm.select" in before:
        ending, code = m.TxSelect(), 406
    behind = [octets(STEPS[name][0](50 + number)) for number, name in enumerate(after)]
    found = answers(late, b"".join([*asked, octets(ending), *behind]))
    expected = [STEPS[name][1] for name in before if STEPS[name][1]]
    assert len(found) == len(expected) + 1, "whatever follows the end of the channel has no answer"
    assert all(isinstance(one, kinds) for one, kinds in zip(found, expected, strict=False))
    close = found[-1]
    assert isinstance(close, m.ChannelClose) and close.reply_code == code


@pytest.mark.parametrize("second", [*STEPS, *TRANSACTED])
@pytest.mark.parametrize("first", [*STEPS, "refused publish"])
def test_every_pair_of_methods(first: str, second: str) -> None:
    steps = STEPS | TRANSACTED
    ask, kinds = steps[second]
    transacted = second in TRANSACTED
    if transacted and first == "confirm.select":
        return
    beginning = encode_method(1, m.TxSelect()) if transacted else b""
    if first == "refused publish":
        found = answers([], beginning + published(ABSENT) + octets(ask(2)))
        assert [type(one) for one in found[transacted:]] == [m.ChannelClose]
        return
    found = answers([], beginning + octets(STEPS[first][0](1)) + octets(ask(2)))[transacted:]
    expected = [kinds for kinds in (STEPS[first][1], kinds) if kinds]
    assert len(found) == len(expected)
    assert all(isinstance(one, kind) for one, kind in zip(found, expected, strict=True))


def test_a_channel_is_closed_behind_what_it_has_published() -> None:
    """The publish is refused: both close at once, and each close is answered."""
    found = answers([], published(ABSENT) + encode_method(1, m.ChannelClose(200)))
    assert [type(one) for one in found] == [m.ChannelClose, m.ChannelCloseOk]
    found = answers([], published("e") + encode_method(1, m.ChannelClose(200)))
    assert found == [m.ChannelCloseOk()]


def test_the_first_of_two_exceptions_counts() -> None:
    (close,) = answers([], published(ABSENT) + encode_method(1, m.BasicAck(99)))
    assert isinstance(close, m.ChannelClose) and close.reply_code == 404


@pytest.mark.parametrize(
    ("declare", "delete"),
    [(m.QueueDeclare, m.QueueDelete), (m.ExchangeDeclare, m.ExchangeDelete)],
    ids=["queue", "exchange"],
)
def test_line_ends_are_taken_out_of_declared_names(declare: Any, delete: Any) -> None:
    broker = NamingBroker([])
    client = Connected(broker)
    for kind in (declare, delete):
        client.send(encode_method(1, kind("a\r\nb\n")))
    assert broker.names and set(broker.names) == {"ab"}


class NamingBroker(LateBroker):
    """Remembers the names that it is asked about."""

    def __init__(self, late: list[bool]) -> None:
        super().__init__(late)
        self.names: list[str] = []

    def check_queue(self, scope: Any, right: Any, name: str) -> None:
        self.names.append(name)

    check_exchange = check_queue

    def queue(self, vhost: str, name: str, holder: int) -> Any:
        self.names.append(name)
        return super().queue(vhost, name, holder)

    def declare_exchange(self, vhost: str, exchange: Any, answer: Any) -> None:
        self.names.append(exchange.name)
        answer(None)
