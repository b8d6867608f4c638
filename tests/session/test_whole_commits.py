"""The promise of `SessionCore.commit(..., whole=True)`: all of a transaction, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from node.delivery.settlements import Outcome, Settlement
from node.message.run import Run
from node.refusal import NotFoundError, PreconditionFailedError, Refusal
from node.session.core import SessionCore
from node.session.ports import Identity
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import TransactionCondition as Condition
from tests.cluster.recorders import RecordedSubscriber
from tests.session.attached import Client, NodeBroker
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import credit, receiver, sender
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import message
from tests.wire.amqp10.transacting import control, coordinator, within

CHANNEL = -1


class Publisher(RecordedSubscriber):
    """A session with a core, whose broker answers when the test wants it to."""

    def __init__(self, broker: NodeBroker) -> None:
        super().__init__()
        port: Any = broker
        self.core = SessionCore(port, self, lambda channel: ())
        self.core.enter(Identity("guest"), "/")
        self.answers: list[Refusal | None] = []
        self.refusals: list[Refusal] = []
        self.returned: list[Run] = []

    def hold(self, channel: int) -> None:
        raise AssertionError("no test fills a link")

    def return_unroutable(self, channel: int, run: Run) -> None:
        self.returned.append(run)

    def batch_refused(self, channel: int, tag: int, refusal: Refusal) -> None:
        raise AssertionError("no test sends a batch")

    def publish_refused(self, channel: int, refusal: Refusal) -> None:
        self.refusals.append(refusal)

    def commit(self, settled: Sequence[Settlement] = (), *, whole: bool = True) -> None:
        self.core.commit(CHANNEL, settled, self.answers.append, whole=whole)


@pytest.fixture
def broker() -> NodeBroker:
    return NodeBroker()


@pytest.fixture
def publisher(broker: NodeBroker) -> Publisher:
    return Publisher(broker)


def leased(broker: NodeBroker, count: int) -> list[Settlement]:
    """The settlement of deliveries that consumer 7 has."""
    numbers = broker.lease(7, count)
    return [Settlement(7, [(numbers[0], numbers[-1])], Outcome.ACCEPTED)]


@pytest.mark.requirement("B10.3")
def test_a_whole_commit_hands_over_every_run_and_settlement(broker: NodeBroker, publisher: Publisher) -> None:
    runs = [run_of(message(body=body), key="q") for body in (b"a", b"b")]
    for run in runs:
        publisher.core.hold_publish(CHANNEL, run, True)
    assert not broker.published and not broker.commits
    settled = leased(broker, 3)
    broker.delayed.add("commit")
    publisher.commit(settled)
    assert broker.commits == [(runs, settled)] and publisher.answers == []
    broker.answer()
    assert publisher.answers == [None] and not broker.leased and broker.returned == []
    publisher.commit()
    assert broker.commits[1:] == [([], [])], "the transaction is over"


@pytest.mark.requirement("B10.3")
@pytest.mark.sentence("1.0/4.4.4.1-4")
def test_a_message_that_no_queue_takes_any_more_refuses_a_whole_commit(
    broker: NodeBroker, publisher: Publisher
) -> None:
    publisher.core.hold_publish(CHANNEL, run_of(message()), True)
    settled = leased(broker, 3)
    broker.lost = True
    publisher.commit(settled)
    (refusal,) = publisher.answers
    assert isinstance(refusal, PreconditionFailedError)
    assert broker.commits == [] and broker.published == [] and publisher.returned == []
    assert broker.returned == [(7, settled[0].ranges, True)] and not broker.leased


@pytest.mark.requirement("B10.3")
@pytest.mark.parametrize("first", ["refused", "held"])
def test_a_refused_publish_refuses_a_whole_commit(
    broker: NodeBroker, publisher: Publisher, first: str
) -> None:
    broker.missing.add("gone")
    runs = [run_of(message(), exchange="gone"), run_of(message())]
    for run in runs if first == "refused" else reversed(runs):
        publisher.core.hold_publish(CHANNEL, run, True)
    (refusal,) = publisher.refusals
    assert isinstance(refusal, NotFoundError)
    settled = leased(broker, 2)
    publisher.commit(settled)
    assert publisher.answers == [refusal] and broker.commits == []
    assert broker.returned == [(7, settled[0].ranges, True)]
    publisher.core.hold_publish(CHANNEL, runs[1], True)
    publisher.commit()
    assert publisher.answers[1:] == [None] and broker.commits == [([runs[1]], [])], "the next one is whole"


@pytest.mark.requirement("B10.4")
def test_a_rollback_forgets_the_runs_and_the_refusals(broker: NodeBroker, publisher: Publisher) -> None:
    broker.missing.add("gone")
    publisher.core.hold_publish(CHANNEL, run_of(message()), True)
    publisher.core.hold_publish(CHANNEL, run_of(message(), exchange="gone"), True)
    publisher.core.roll_back(CHANNEL)
    publisher.commit()
    assert publisher.answers == [None] and broker.commits == [([], [])]


@pytest.mark.requirement("A19.3")
def test_a_commit_that_is_not_whole_returns_what_no_queue_takes(
    broker: NodeBroker, publisher: Publisher
) -> None:
    """As class tx of AMQP 0-9-1 has it: the rest is published and settled."""
    publisher.core.hold_publish(CHANNEL, run_of(message()), True)
    settled = leased(broker, 1)
    broker.lost = True
    publisher.commit(settled, whole=False)
    assert publisher.answers == [None] and broker.commits == [([], settled)]
    assert [run.count for run in publisher.returned] == [1] and broker.returned == []


# -- over a connection ------------------------------------------------------------------------------


def working(broker: NodeBroker) -> tuple[Client, bytes, int]:
    """A client with a transaction, and three deliveries of a consumer. Its next delivery-id is 1."""
    client = Client(broker)
    client.send(sender(0), receiver(1), coordinator(2), sender(3, "/exchanges/gone/k"), credit(9, handle=1))
    (told,) = client.send(transfer(0, control(d.Declare()), 2))
    ((consumer, _),) = broker.consumed.items()
    numbers = broker.lease(consumer, 3)
    broker.consumers[consumer].deliver(consumer, run_of(*[message()] * 3), numbers, False, consumer)
    client.reads()
    return client, told.state.txn_id, consumer


def retired(txn_id: bytes) -> d.Disposition:
    return d.Disposition(d.Role.RECEIVER, 0, 1, True, within(txn_id, d.Accepted()))


@pytest.mark.requirement("B10.3")
@pytest.mark.sentence("1.0/4.4.4.1-2")
@pytest.mark.parametrize("pipelined", [False, True])
def test_a_discharge_commits_in_one_step(broker: NodeBroker, pipelined: bool) -> None:
    client, txn_id, consumer = working(broker)
    broker.delayed.add("commit")
    frames = [
        transfer(1, state=within(txn_id)), retired(txn_id),
        transfer(2, control(d.Discharge(txn_id, False)), 2),
    ]  # fmt: skip
    told = client.send(*frames) if pipelined else [one for frame in frames for one in client.send(frame)]
    assert [(one.first, one.state) for one in told] == [(1, within(txn_id, d.Accepted()))]
    ((runs, settled),) = broker.commits
    assert [run.count for run in runs] == [1] and not broker.published
    assert settled == [Settlement(consumer, [(1, 2)], Outcome.ACCEPTED)]
    broker.answer()
    (told_last,) = client.reads()
    assert (told_last.first, told_last.state) == (2, d.Accepted())
    assert broker.leased == {(consumer, 3)}


@pytest.mark.requirement("B10.3")
@pytest.mark.sentence("1.0/4.4.4.1-1")
@pytest.mark.parametrize("pipelined", [False, True])
def test_nothing_is_committed_where_a_publish_is_refused(broker: NodeBroker, pipelined: bool) -> None:
    client, txn_id, consumer = working(broker)
    broker.missing.add("gone")
    frames = [
        transfer(1, state=within(txn_id)), transfer(2, handle=3, state=within(txn_id)), retired(txn_id),
        transfer(3, control(d.Discharge(txn_id, False)), 2),
    ]  # fmt: skip
    told = client.send(*frames) if pipelined else [one for frame in frames for one in client.send(frame)]
    states = {one.first: one.state for one in told}
    assert states[1] == within(txn_id, d.Accepted())
    assert isinstance(states[2].outcome, d.Rejected)
    assert isinstance(states[3], d.Rejected) and states[3].error is not None
    assert states[3].error.condition == Condition.TRANSACTION_ROLLBACK
    assert broker.commits == [] and broker.published == []
    assert broker.leased == {(consumer, 3)}, "the peer has settled the others: they are back in their queue"
    assert client.session.held < 64 * 1024


@pytest.mark.requirement("B10.8")
def test_a_lost_connection_commits_nothing(broker: NodeBroker) -> None:
    client, txn_id, _ = working(broker)
    client.send(transfer(1, state=within(txn_id)), retired(txn_id))
    client.session.lost()
    assert broker.commits == [] and broker.published == []
    assert not broker.leased and not broker.consumers
    assert broker.deleted == []
