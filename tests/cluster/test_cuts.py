"""Consistent cuts through the logs of all partitions (X9)."""

from __future__ import annotations

import random

import pytest

from cluster.owner.cuts import CUT_S, Position
from cluster.owner.partition import PartitionOwner
from node.message.bookmarks import number_of_bookmark
from tests.cluster.test_batches_that_come_again import NAMES, owner_of
from tests.inside import state_of
from tests.simulation.planted_queues import cuts_through_owners_that_go_on
from tests.site import Client, Site

pytestmark = pytest.mark.requirement("X9.1", "X9.2")

QUEUES = ("a", "b", "c", "d", "e", "f")


class Cut:
    """One cut that a site takes, some of whose owners are asked later than others."""

    def __init__(self, site: Site, number: int = 1) -> None:
        self.site, self.number = site, number
        self.positions: dict[int, Position] = {}
        self.held: set[int] = set()
        self.owners = [owner_of(site, queue) for queue in QUEUES]

    def begin(self, owner: PartitionOwner) -> None:
        def reached(position: Position) -> None:
            self.positions[position.partition] = position

        owner.begin_cut(self.number, reached)

    def end(self) -> None:
        for owner in self.owners:
            owner.end_cut(self.number, lambda partition=owner.partition: self.held.add(partition))

    @property
    def partitions(self) -> set[int]:
        return {owner.partition for owner in self.owners}


@pytest.fixture
def site() -> Site:
    site = Site(*NAMES)
    admins = [site.client(name) for name in NAMES]
    for number, queue in enumerate(QUEUES):
        admins[number % len(NAMES)].declare(queue)
    site.run(1.0)
    return site


class Chain:
    """A client that publishes a message once the one before it is confirmed, each to another queue."""

    def __init__(self, client: Client) -> None:
        self.client, self.count = client, 0
        self.tags = self._publish()

    def _publish(self) -> list[int]:
        self.count += 1
        return self.client.publish(QUEUES[self.count % len(QUEUES)], b"%d" % self.count)

    def go_on(self) -> None:
        if self.client.confirmed.issuperset(self.tags):
            self.tags = self._publish()


def in_front(site: Site, cut: Cut) -> list[bool]:
    """Of each message of a chain, in its order, whether the message is in front of the cut."""
    reader = site.client("n2")
    found: dict[int, bool] = {}
    for queue in QUEUES:
        definition = site.nodes["n1"].broker.catalog.state.queues["/", queue]
        reader.consume(queue, arguments={"x-tell": True})
        seen = len(reader.deliveries)
        site.run(0.5)
        for one in reader.deliveries[seen:]:
            number = number_of_bookmark(definition.id, one.headers["x-bookmark"])
            found[int(one.body)] = number <= cut.positions[definition.partition].message
    return [found[number] for number in sorted(found)]


def chained(site: Site, seed: int) -> list[bool]:
    """Take a cut while a client publishes a chain."""
    chance = random.Random(seed)
    chain, cut = Chain(site.client("n3")), Cut(site)
    asked = list(cut.owners)
    chance.shuffle(asked)

    def run(seconds: float) -> None:
        for _ in range(int(seconds / 0.001)):
            site.run(0.001)
            chain.go_on()

    run(0.1)
    for owner in asked:
        run(chance.choice((0.0, 0.002, 0.03)))
        cut.begin(owner)
    run(0.1)
    assert len(cut.partitions) == 3 and cut.positions.keys() == cut.partitions
    cut.end()
    run(0.1)
    assert cut.held == cut.partitions
    return in_front(site, cut)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_in_front_of_a_cut_has_its_causes_there(site: Site, seed: int) -> None:
    front = chained(site, seed)
    assert len(front) > 30 and front[0] and not front[-1]
    assert front == sorted(front, reverse=True)


@pytest.mark.interpreted
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_without_owners_that_hold_still_it_would_not(site: Site, seed: int) -> None:
    """The test above can fail."""
    with cuts_through_owners_that_go_on():
        front = chained(site, seed)
    assert front != sorted(front, reverse=True)


def test_owners_go_on_without_an_end(site: Site) -> None:
    cut, client = Cut(site), site.client("n3")
    for owner in cut.owners:
        cut.begin(owner)
    tags = client.publish("a", b"1")
    site.run(0.9 * CUT_S)
    assert not client.confirmed
    site.run(0.2 * CUT_S)
    assert client.confirms(tags) == [True]
    cut.end()
    site.run(0.5)
    assert not cut.held


def test_an_owner_that_was_deposed_confirms_nothing(site: Site) -> None:
    """Clients may have heard of entries behind the position from the successor."""
    cut = Cut(site)
    owner = cut.owners[0]
    node = next(node for node in site.nodes.values() if owner in node.broker.owners.values())
    cut.begin(owner)
    site.until(lambda: cut.positions)
    others = [other for other in NAMES if other != node.name]
    mend = site.network.cut([(node.name, other) for other in others])
    cut.end()
    site.run(2.0)
    mend()
    site.run(2.0)
    assert not cut.held


def test_an_owner_takes_part_in_one_cut_at_a_time(site: Site) -> None:
    one, other = Cut(site, 1), Cut(site, 2)
    owner = one.owners[0]
    one.begin(owner)
    other.begin(owner)
    other.end()
    one.end()
    site.run(0.5)
    assert (one.held, other.held) == ({owner.partition}, set())
    assert other.positions == {}


def test_entries_on_their_way_are_in_front(site: Site) -> None:
    """The position is reached once all is applied that the owner has proposed before."""
    cut, client = Cut(site), site.client("n3")
    owner = cut.owners[0]
    state = state_of(owner)
    before = state.last_proposed
    tags = client.publish(QUEUES[0], b"1")
    site.until(lambda: state.last_proposed > before)
    cut.begin(owner)
    assert not cut.positions
    assert client.confirms(tags) == [True]
    site.until(lambda: cut.positions)
    assert cut.positions[owner.partition].entry == state.last_proposed
    assert cut.positions[owner.partition].message == state.machine.next_sequence - 1
