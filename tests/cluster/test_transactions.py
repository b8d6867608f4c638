"""A commit takes effect wholly or not at all, in all its queues and partitions (A19)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.owner.partition import PartitionOwner
from node.wire.amqp091 import methods as m
from tests.cluster.kinds import KINDS
from tests.inside import machine_of, state_of
from tests.site import ChannelClosedError, Site

FULL: dict[str, Any] = {"max_length": 1, "overflow": "reject-publish"}


class Bank:
    """A client with a transactional channel, another one that observes, and a queue of each kind."""

    def __init__(self) -> None:
        self.site = Site("n1", "n2", "n3")
        self.client = self.site.client("n1", transactional=True)
        self.other = self.site.client("n1")
        self.queues = {
            kind: str(self.client.declare("" if kind == "exclusive" else kind, **options).queue)
            for kind, options in KINDS.items()
        }

    def declare(self, name: str, kind: str = "replicated", **arguments: Any) -> str:
        return str(self.client.declare(name, **KINDS[kind], **arguments).queue)

    @property
    def owners(self) -> list[PartitionOwner]:
        """The owners of all partitions."""
        found = [one for node in self.site.nodes.values() for one in node.broker.owners.values()]
        return [one for one in found if one.active]

    def partitions(self) -> int:
        """The number of partitions with messages."""
        return sum(any(state.alive for state in machine_of(one).queues.values()) for one in self.owners)

    def at_rest(self) -> bool:
        """Whether no partition has state of a transaction."""
        self.site.run(0.1)
        tables = [machine_of(owner).transactions for owner in self.owners]
        kept = any(table.prepared or table.decided or table.abandoned for table in tables)
        return not kept and not any(state_of(owner).upcoming for owner in self.owners)

    def refused(self) -> ChannelClosedError:
        with pytest.raises(ChannelClosedError) as caught:
            self.client.commit()
        self.client.open_channel()
        return caught.value


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.mark.requirement("A19.3")
def test_publishes_to_queues_of_every_kind_are_seen_together(bank: Bank) -> None:
    for mode in (1, 2):
        for queue in bank.queues.values():
            bank.client.publish(queue, b"a", b"b", delivery_mode=mode)
        bank.site.run(0.1)
        assert [bank.client.depth(queue) for queue in bank.queues.values()] == [0, 0, 0, 0]
        bank.client.commit()
        # Transient messages of the coordinator's share are in memory only, as without a transaction.
        assert bank.partitions() == 1 + mode
        assert [bank.client.bodies(queue) for queue in bank.queues.values()] == [[b"a", b"b"]] * 4
    bank.client.commit()
    assert bank.at_rest()


@pytest.mark.requirement("A19.3")
def test_one_message_for_several_partitions_reaches_all_queues(bank: Bank) -> None:
    names = [queue for kind, queue in bank.queues.items() if kind != "exclusive"]
    for queue in names:
        bank.client.bind(queue, "amq.topic", "x.#")
    bank.client.publish("x.y", b"a", exchange="amq.topic")
    bank.client.commit()
    assert [bank.other.bodies(queue) for queue in names] == [[b"a"]] * 3


@pytest.mark.requirement("A19.1", "A19.3")
@pytest.mark.parametrize("outcome", ["ack", "reject", "requeue"])
@pytest.mark.parametrize("mode", [1, 2])
def test_what_was_delivered_is_settled_with_what_is_published_elsewhere(
    bank: Bank, outcome: str, mode: int
) -> None:
    source = bank.declare("source", "classic", dead_letter_exchange="", dead_letter_routing_key="grave")
    bank.declare("grave")
    bank.other.confirms(bank.other.publish(source, b"a", b"b", delivery_mode=mode))
    bank.client.consume(source)
    bank.site.until(lambda: len(bank.client.deliveries) == 2)
    first = bank.client.deliveries[0]
    if outcome == "ack":
        bank.client.ack(first)
    else:
        bank.client.nack(first, requeue=outcome == "requeue")
    bank.client.publish("replicated", b"c")
    bank.site.run(0.1)
    assert (bank.other.depth("replicated"), bank.other.depth("grave")) == (0, 0)
    bank.client.commit()
    bank.client.close()
    bank.site.run(0.1)
    left = [(one.body, one.method.redelivered) for one in bank.other.drain(source)]
    assert left == ([(b"a", True), (b"b", True)] if outcome == "requeue" else [(b"b", True)])
    assert bank.other.bodies("grave") == ([b"a"] if outcome == "reject" else [])
    assert bank.other.bodies("replicated") == [b"c"]


@pytest.mark.requirement("A19.2", "A19.3", "A19.4")
@pytest.mark.parametrize("end", ["rollback", "channel", "connection"])
def test_without_a_commit_nothing_happens(bank: Bank, end: str) -> None:
    bank.other.confirms(bank.other.publish("classic", b"a"))
    found = bank.client.get("classic", no_ack=False)
    assert found is not None
    bank.client.ack(found)
    for queue in bank.queues.values():
        bank.client.publish(queue, b"x")
    if end == "rollback":
        bank.client.call(m.TxRollback(), m.TxRollbackOk)
        assert bank.other.depth("classic") == 0
    elif end == "channel":
        bank.client.call(m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)
    else:
        bank.client.close()
    bank.site.run(0.1)
    found = bank.other.get("classic")
    assert (found is None) == (end == "rollback")
    assert [bank.other.depth(kind) for kind in ("replicated", "classic", "transient")] == [0, 0, 0]
    assert bank.at_rest()


@pytest.mark.requirement("A19.2", "A19.3")
@pytest.mark.parametrize("kind", ["replicated", "classic"])
@pytest.mark.parametrize("alone", [False, True])
def test_a_full_queue_refuses_the_whole_commit(bank: Bank, kind: str, alone: bool) -> None:
    """The queue may be in the coordinator's or in a participant's partition."""
    full = bank.declare("full", kind, **FULL)
    bank.other.confirms(bank.other.publish(kind, b"a", b"b"))
    found = bank.client.get(kind, no_ack=False)
    assert found is not None
    bank.client.ack(found)
    bank.client.publish(full, b"x")
    bank.client.publish(full, b"y")
    for queue in [] if alone else bank.queues.values():
        bank.client.publish(queue, b"z")
    error = bank.refused()
    assert (error.code, str(error)) == (406, "406 PRECONDITION_FAILED - partial tx completion")
    bank.site.run(0.1)
    assert [bank.client.depth(queue) for queue in (*bank.queues.values(), full)].count(0) == 4
    assert [(one.body, one.method.redelivered) for one in bank.other.drain(kind)] == [
        (b"a", True),
        (b"b", False),
    ]
    assert bank.at_rest()
    bank.client.publish(full, b"x")
    bank.client.publish("transient", b"z")
    bank.client.commit()
    assert (bank.other.bodies(full), bank.other.bodies("transient")) == ([b"x"], [b"z"])


def test_a_limit_that_drops_counts_at_the_commit(bank: Bank) -> None:
    short = bank.declare("short", "classic", max_length=2)
    bank.client.publish(short, b"a", b"b", b"c")
    bank.client.publish("replicated", b"x")
    bank.client.commit()
    assert bank.other.bodies(short) == [b"b", b"c"]


@pytest.mark.parametrize("kind", ["replicated", "classic"])
def test_ids_of_messages_are_remembered_by_the_commit(bank: Bank, kind: str) -> None:
    once = bank.declare("once", kind, deduplication_window=60_000)
    full = bank.declare("full", "transient", max_length=0, overflow="reject-publish")
    bank.client.publish(once, b"a", message_id="1")
    bank.client.publish(full, b"b")
    assert bank.refused().code == 406
    for body, name in ((b"c", "1"), (b"d", "1"), (b"e", "2")):
        bank.client.publish(once, body, message_id=name)
    bank.client.publish("transient", b"x")
    bank.client.commit()
    bank.client.publish(once, b"f", message_id="2")
    bank.client.publish("transient", b"y")
    bank.client.commit()
    assert bank.other.bodies(once) == [b"c", b"e"]
    assert bank.other.bodies("transient") == [b"x", b"y"]


def test_priorities_delays_and_lifetimes_hold_of_what_a_transaction_publishes(bank: Bank) -> None:
    queue = bank.declare("all", "classic", max_priority=5, message_ttl=500, max_length_bytes=1000)
    bank.client.publish(queue, b"low", priority=1)
    bank.client.publish(queue, b"high", priority=5)
    bank.client.publish(queue, b"late", headers={"x-delay": 300})
    bank.client.publish("replicated", b"x")
    bank.client.commit()
    assert bank.other.bodies(queue) == [b"high", b"low"]
    bank.site.run(0.4)
    assert bank.other.depth(queue) == 1
    bank.site.run(1.0)
    assert bank.other.depth(queue) == 0
    assert bank.at_rest()


def test_a_queue_that_is_gone_when_the_commit_comes_gets_nothing(bank: Bank) -> None:
    """As in RabbitMQ: a mandatory message is returned to its publisher."""
    bank.client.publish("classic", b"a")
    bank.client.publish("replicated", b"b")
    bank.other.delete("classic")
    bank.client.commit()
    assert bank.other.bodies("replicated") == [b"b"]
    assert bank.at_rest()


def test_what_waits_for_an_outcome_that_died_with_memory_is_let_go() -> None:
    """The coordinator is frozen when it gets the question, and its process never sends anything again."""
    site = Site("n1", "n2", "n3", "n4")
    for node, queue in (("n2", "a"), ("n3", "b")):
        site.client(node).declare(queue, durable=False)
    client = site.client("n4", transactional=True)
    state = site.nodes["n3"].broker.catalog.state
    coordinator, participant = (state.queues["/", queue].partition for queue in ("a", "b"))
    assert coordinator < participant
    site.nodes["n2"].pause()
    for queue in ("a", "b"):
        client.publish(queue, b"m")
    client.send(m.TxCommit())
    prepared = machine_of(site.nodes["n3"].broker.owners[participant]).transactions.prepared
    site.until(lambda: prepared)
    site.nodes["n4"].stop(power=False)
    site.run(1.5)
    site.nodes["n2"].stop(power=False)
    site.run(0.5)
    site.nodes["n2"].start()
    site.until(lambda: coordinator not in state.partitions)
    site.until(lambda: not prepared)
    assert site.client("n3").depth("b") == 0
