"""An owner decides about a front end's batch once, however long the front end is out of reach.

The owner proposes the batch. One follower's disk stands still. The other follower, whose front end has sent
the batch, is cut off for longer than owners wait for front ends. So the entry is neither committed nor lost
when the front end comes back and sends the batch again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster.broker.lost_nodes import FRONT_END_GRACE_S
from cluster.owner.partition import PartitionOwner
from node.wire.amqp091 import methods as m
from tests.inside import machine_of, state_of
from tests.site import Client, Site

NAMES = ("n1", "n2", "n3")
STANDING_STILL_S = 6.0


def owner_of(site: Site, queue: str) -> PartitionOwner:
    """The owner of a queue, once the queue has one."""

    def found() -> Iterator[PartitionOwner]:
        for node in site.nodes.values():
            definition = node.broker.catalog.state.queues.get(("/", queue)) if node.up else None
            owner = node.broker.owners.get(definition.partition) if definition is not None else None
            if owner is not None and owner.active:
                yield owner

    site.until(lambda: any(found()))
    return next(found())


def cut_off(site: Site, one: str, other: str) -> Callable[[], None]:
    """Cut the connections between two nodes, which notice it, until the result is called."""
    pairs = [(one, other), (other, one)]
    mend = site.network.cut(pairs)
    for pair in pairs:
        site.network.break_connection(*pair)
    return mend


class Cornered:
    """The owner on node `near` cannot commit: `far` is cut off, and the disk of `slow` stands still."""

    def __init__(self) -> None:
        self.site = Site(*NAMES)
        self._mend_way_there: Callable[[], None] = lambda: None
        self.admin = self.site.client("n1")

    def own(self, queue: str) -> PartitionOwner:
        """The owner of the queue, which cannot commit."""
        owner = self.owner = owner_of(self.site, queue)
        nodes = self.site.nodes.values()
        self.near = next(node for node in nodes if owner in node.broker.owners.values())
        self.slow, self.far = (node for node in nodes if node is not self.near)
        self.site.run(1.0)
        return owner

    def proposed(self) -> bool:
        """Whether the owner has a proposal that is not committed."""
        group = self.near.broker.host.groups[self.owner.partition]
        return group.raft.last_index > machine_of(self.owner).applied_index

    def cut_off(self, act: Callable[[], object]) -> None:
        """Have the far front end do something that reaches the owner, and cut the front end off."""
        self.stall(act)
        self.stay_away()
        self.come_back()

    def stall(self, act: Callable[[], object]) -> None:
        """Have the far front end do something that reaches the owner, which cannot commit it."""
        self.slow.disk.sync_seconds = STANDING_STILL_S
        self.site.run(0.01)
        self._mend_way_there = self.site.network.cut([(self.near.name, self.far.name)])
        act()
        self.site.until(self.proposed)

    def stay_away(self) -> None:
        """Keep the far front end out of reach until the owner gives it up."""
        self._mend_way_back = cut_off(self.site, self.near.name, self.far.name)
        self.site.run(FRONT_END_GRACE_S + 0.4)
        assert self.owner.active
        assert state_of(self.owner).front_ends.current(self.far.front_end) is None

    def come_back(self) -> None:
        """Reconnect the front end while the disk still stands still: the owner gets its batches before any
        commit.
        """
        self._mend_way_back()
        self.site.run(0.06)
        self._mend_way_there()
        self.site.run(3.0)
        self.slow.disk.sync_seconds = 0.0
        self.site.run(STANDING_STILL_S + 6.0)

    def client(self, **options: Any) -> Client:
        """A client of the far node."""
        return self.site.client(self.far.name, **options)


@pytest.fixture
def cornered() -> Cornered:
    return Cornered()


@pytest.mark.requirement("A19.3")
def test_a_transaction_that_comes_again_is_whole(cornered: Cornered) -> None:
    cornered.admin.declare("limited", max_length=3, overflow="reject-publish")
    cornered.site.client("n3").declare("other", queue_type="classic")
    cornered.own("limited")
    client = cornered.client(transactional=True)
    client.publish("limited", b"x", b"y", b"z")
    client.publish("other", b"o")
    cornered.cut_off(lambda: client.send(m.TxCommit()))
    client.answer(m.TxCommitOk)
    assert (cornered.admin.bodies("limited"), cornered.admin.bodies("other")) == ([b"x", b"y", b"z"], [b"o"])


def test_a_queue_expects_what_comes_again_once(cornered: Cornered) -> None:
    cornered.admin.declare("limited", max_length=3, overflow="reject-publish")
    owner = cornered.own("limited")
    client = cornered.client()
    cornered.cut_off(lambda: client.publish("limited", b"x", b"y"))
    assert cornered.admin.bodies("limited") == [b"x", b"y"]
    assert state_of(owner).upcoming == {}
    assert cornered.admin.confirms(cornered.admin.publish("limited", b"1", b"2", b"3", b"4")) == [
        True
    ] * 3 + [False]


@pytest.mark.requirement("A24.8", "A24.9")
def test_a_dead_letter_that_is_rejected_again_is_moved_once(cornered: Cornered) -> None:
    cornered.admin.declare("grave", queue_type="classic")
    cornered.admin.declare("source", dead_letter_exchange="", dead_letter_routing_key="grave")
    cornered.own("source")
    cornered.admin.confirms(cornered.admin.publish("source", b"a"))
    client = cornered.client()
    client.consume("source")
    cornered.site.until(lambda: client.deliveries)
    cornered.cut_off(lambda: client.reject(client.deliveries[0], requeue=False))
    assert cornered.admin.bodies("grave") == [b"a"]
    assert cornered.admin.bodies("source") == []


@pytest.mark.requirement("A24.8", "A24.9")
def test_a_dead_letter_that_two_consumers_reject_is_moved_once(cornered: Cornered) -> None:
    """One consumer has lost its lease, and rejects before the other one's rejection is committed."""
    cornered.admin.declare("grave", queue_type="classic")
    cornered.admin.declare("source", dead_letter_exchange="", dead_letter_routing_key="grave")
    cornered.own("source")
    cornered.admin.confirms(cornered.admin.publish("source", b"a"))
    client = cornered.client()
    client.consume("source")
    cornered.site.until(lambda: client.deliveries)
    other = cornered.site.client(cornered.near.name)
    other.consume("source")
    cornered.stay_away()
    cornered.site.until(lambda: other.deliveries)
    cornered.slow.disk.sync_seconds = STANDING_STILL_S
    client.reject(client.deliveries[0], requeue=False)
    other.reject(other.deliveries[0], requeue=False)
    cornered.come_back()
    assert cornered.admin.bodies("grave") == [b"a"]
    assert cornered.admin.bodies("source") == []


def test_what_is_removed_for_a_consumer_that_comes_back_uses_its_credit(cornered: Cornered) -> None:
    cornered.admin.declare("events", semantics="at-most-once")
    cornered.own("events")
    cornered.admin.confirms(cornered.admin.publish("events", b"a", b"b", b"c"))
    client = cornered.client()
    client.consume("events", prefetch=1)
    cornered.site.until(lambda: client.deliveries)
    cornered.cut_off(lambda: client.ack(client.deliveries[0]))
    assert [one.body for one in client.deliveries] == [b"a", b"b"]
    client.ack(client.deliveries[1])
    cornered.site.until(lambda: len(client.deliveries) == 3)


def test_a_queue_is_emptied_once_by_one_purge(cornered: Cornered) -> None:
    """The client gets the count of the first purge."""
    cornered.admin.declare("q")
    owner = cornered.own("q")
    cornered.admin.confirms(cornered.admin.publish("q", b"a", b"b"))
    queue = cornered.far.broker.catalog.state.queues["/", "q"].id
    told: list[Any] = []
    asked = [queue, state_of(owner).next_sequence - 1]

    def purge() -> None:
        link = cornered.far.broker.links.to(owner.partition)
        link.request("purge", asked, lambda value, _: told.append(value))

    other = cornered.site.client(cornered.near.name)
    cornered.stall(lambda: cornered.far.input(purge))
    later = other.publish("q", b"c")
    cornered.stay_away()
    cornered.come_back()
    assert told == [2]
    assert other.confirms(later) == [True]
    assert cornered.admin.bodies("q") == [b"c"]


@pytest.mark.requirement("D2.4")
def test_a_queue_does_not_expect_what_it_takes_no_second_time() -> None:
    """A transient message that may have reached a former owner is not sent to an at-most-once queue again."""
    site = Site(*NAMES)
    admin, client = site.client("n2"), site.client("n3")
    site.client("n1").declare("events", semantics="at-most-once", max_length=2, overflow="reject-publish")
    site.run(1.0)
    owner = owner_of(site, "events")
    site.network.cut([("n1", "n3")])
    client.publish("events", b"a", delivery_mode=1)
    site.until(lambda: owner.queues and len(next(iter(owner.queues.values())).delivery.ready) == 1)
    site.nodes["n1"].stop(power=True)
    site.run(5.0)
    assert admin.bodies("events") == []
    assert admin.confirms(admin.publish("events", b"1", b"2", b"3")) == [True, True, False]
    assert admin.bodies("events") == [b"1", b"2"]
