"""A transaction of AMQP 1.0 on a cluster: everything is committed, or nothing is (part 4)."""

from __future__ import annotations

import pytest

from node.delivery.settlements import Outcome, Settlement
from node.message.run import Run
from node.refusal import NotFoundError, PreconditionFailedError, Refusal
from node.session.core import SessionCore
from node.session.ports import Got, Identity
from tests.cluster.kinds import KINDS
from tests.cluster.recorders import RecordedSubscriber
from tests.site import Client, Site
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import message

CHANNEL = -1


class Transactor(RecordedSubscriber):
    """A session that publishes and settles in a transaction."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client = client
        self.core = SessionCore(client.site.front_end(client.node.name), self, lambda channel: ())
        self.core.enter(Identity("guest"), "/")
        self.refusals: list[Refusal] = []
        self.settled: list[Settlement] = []

    def hold(self, channel: int) -> None:
        raise AssertionError("no test fills a link")

    def return_unroutable(self, channel: int, run: Run) -> None:
        raise AssertionError("a whole commit returns no message")

    def batch_refused(self, channel: int, tag: int, refusal: Refusal) -> None:
        raise AssertionError("no test sends a batch")

    def publish_refused(self, channel: int, refusal: Refusal) -> None:
        self.refusals.append(refusal)

    def publish(self, queue: str, body: bytes, exchange: str = "") -> None:
        """Hold a message for the commit."""
        self.core.hold_publish(CHANNEL, run_of(message(body=body), key=queue, exchange=exchange), True)

    def accept(self, queue: str) -> None:
        """Take a message, which the commit accepts."""
        port, answers = self.client.site.front_end(self.client.node.name), list[Got | None]()
        found = port.queue("/", queue, self.client.holder)
        port.get(found, False, lambda got, _: answers.append(got))
        self.client.site.until(lambda: answers)
        got = answers[0]
        assert got is not None
        ranges = [(got.sequence, got.sequence)]
        self.settled.append(Settlement(got.lease, ranges, Outcome.ACCEPTED))

    def commit(self) -> Refusal | None:
        answers: list[Refusal | None] = []
        self.core.commit(CHANNEL, self.settled, answers.append, whole=True)
        self.client.site.until(lambda: answers)
        return answers[0]


@pytest.fixture
def client() -> Client:
    return Site("n1", "n2", "n3").client("n1")


@pytest.fixture
def transactor(client: Client) -> Transactor:
    return Transactor(client)


def queues(client: Client) -> list[str]:
    """A queue of each kind."""
    return [
        str(client.declare("" if kind == "exclusive" else kind, **options).queue)
        for kind, options in KINDS.items()
    ]


def left(client: Client, queue: str) -> list[tuple[bytes, bool]]:
    return [(one.body, one.method.redelivered) for one in client.drain(queue)]


@pytest.mark.requirement("B10.3", "B10.7")
def test_a_whole_commit_reaches_queues_of_every_kind(client: Client, transactor: Transactor) -> None:
    names = queues(client)
    client.confirms(client.publish(names[0], b"taken"))
    transactor.accept(names[0])
    for name in names:
        transactor.publish(name, b"a")
    client.site.run(0.1)
    assert [client.depth(name) for name in names] == [0, 0, 0, 0], "held until the commit"
    assert transactor.commit() is None
    assert [client.bodies(name) for name in names] == [[b"a"]] * 4
    assert not transactor.refusals


@pytest.mark.requirement("B10.3")
@pytest.mark.parametrize("lacks", ["a queue", "an exchange", "room"])
def test_a_transaction_that_lacks_something_does_nothing(
    client: Client, transactor: Transactor, lacks: str
) -> None:
    names = queues(client)
    client.confirms(client.publish(names[0], b"taken"))
    client.declare("last", max_length=1, overflow="reject-publish")
    if lacks == "room":
        client.confirms(client.publish("last", b"in the way"))
    transactor.accept(names[0])
    for name in names:
        transactor.publish(name, b"a")
    transactor.publish("last", b"b", exchange="missing" if lacks == "an exchange" else "")
    if lacks == "a queue":
        client.delete("last")
    refusal = transactor.commit()
    if lacks == "a queue":
        assert isinstance(refusal, PreconditionFailedError)
    elif lacks == "an exchange":
        assert isinstance(refusal, NotFoundError) and transactor.refusals == [refusal]
    else:
        assert refusal is not None
    client.site.run(0.1)
    assert left(client, names[0]) == [(b"taken", True)], "back in its queue, as a failed delivery"
    assert [client.bodies(name) for name in names[1:]] == [[], [], []]
    transactor.settled.clear()
    assert transactor.commit() is None, "the transaction is over"


@pytest.mark.requirement("B10.4", "B10.7")
def test_a_rollback_publishes_nothing(client: Client, transactor: Transactor) -> None:
    names = queues(client)
    for name in names:
        transactor.publish(name, b"a")
    transactor.core.roll_back(CHANNEL)
    assert transactor.commit() is None
    assert [client.bodies(name) for name in names] == [[]] * 4
