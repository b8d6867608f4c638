"""Queues with x-file-backed-metadata have the same messages on every replica, with next to nothing in memory
(D14).
"""

from __future__ import annotations

from typing import Any

import pytest

from node.queue.queue import QueueState
from tests.cluster.kept_links import QUEUE, site
from tests.cluster.test_policies import drop, put
from tests.inside import machine_of
from tests.simulation.cold import IN_MEMORY
from tests.site import ChannelClosedError, Client, Site

__all__ = ["site"]

COUNT = 40
LEVELS = 5


def states(site: Site) -> dict[str, QueueState]:
    """The queue's state on each replica, by node."""
    definition = site.nodes["n1"].broker.catalog.state.queues["/", QUEUE]
    return {
        name: machine_of(node.broker.owners[definition.partition]).queues[definition.id]
        for name, node in site.nodes.items()
        if node.up
    }


def blocks(site: Site) -> list[int]:
    """How many blocks each replica has outside of memory, where its node has a place for them."""
    found = [state.space for name, state in states(site).items() if name != IN_MEMORY]
    return [0 if space is None else len(space) for space in found]


def fill(client: Client, **arguments: Any) -> None:
    client.declare(QUEUE, **arguments)
    for number in range(COUNT):
        properties = {"priority": number % LEVELS, "expiration": str(1_000_000 + number), "delivery_mode": 2}
        client.confirms(client.publish(QUEUE, b"%d" % number, **properties))


def by_priority() -> list[bytes]:
    return [b"%d" % n for n in sorted(range(COUNT), key=lambda number: (-(number % LEVELS), number))]


@pytest.mark.requirement("D14.1")
def test_every_replica_keeps_ranges_and_annotations_outside_of_memory(site: Site) -> None:
    fill(site.client("n1"), max_priority=LEVELS, file_backed_metadata=True)
    site.until(lambda: all(count > COUNT for count in blocks(site)))
    site.until(lambda: len({state.encode(9) for state in states(site).values()}) == 1)
    assert site.client("n2").bodies(QUEUE) == by_priority()
    site.until(lambda: blocks(site) == [0, 0])


@pytest.mark.requirement("D14.1")
def test_a_new_owner_and_a_node_that_starts_again_go_on(site: Site) -> None:
    fill(site.client("n1"), max_priority=LEVELS, file_backed_metadata=True)
    for name in ("n1", "n2"):
        site.nodes[name].stop(power=True)
        site.run(3.0)
        site.nodes[name].start()
        site.run(3.0)
    site.until(lambda: all(count > COUNT for count in blocks(site)))
    assert site.client("n3").bodies(QUEUE) == by_priority()


@pytest.mark.requirement("D14.1")
def test_queues_without_the_argument_stay_in_memory(site: Site) -> None:
    fill(site.client("n1"), max_priority=LEVELS)
    assert blocks(site) == [0, 0]
    assert {state.space for state in states(site).values()} == {None}


@pytest.mark.requirement("D14.1")
def test_a_policy_takes_a_queue_out_of_memory_and_back(site: Site) -> None:
    client = site.client("n1")
    fill(client, max_priority=LEVELS)
    put(client, file_backed_metadata=True)
    site.until(lambda: all(count > COUNT for count in blocks(site)))
    drop(client)
    site.until(lambda: blocks(site) == [0, 0])
    assert client.bodies(QUEUE) == by_priority()


@pytest.mark.requirement("D14.1")
def test_a_follower_whose_catalog_comes_later_as_a_whole_takes_queues_out_of_memory(site: Site) -> None:
    fill(site.client("n1"), max_priority=LEVELS, file_backed_metadata=True)
    partition = site.nodes["n1"].broker.catalog.state.queues["/", QUEUE].partition
    for name in states(site).keys() - {IN_MEMORY}:
        broker = site.nodes[name].broker
        if not broker.owners[partition].active:
            # As where the entries of the partition came before those of the catalog.
            states(site)[name].page(None)
            broker.owners[partition].paging.close()
            assert 0 in blocks(site)
            broker.partitions.replaced()
    assert all(count > COUNT for count in blocks(site))


@pytest.mark.requirement("D14.1")
def test_on_a_full_disk_ranges_and_annotations_stay_in_memory(site: Site) -> None:
    for node in site.nodes.values():
        node.disk.capacity = node.disk.used() + (1 << 20)
    client = site.client("n1")
    fill(client, max_priority=LEVELS, file_backed_metadata=True)
    assert blocks(site) == [0, 0]
    for node in site.nodes.values():
        node.disk.capacity = None
    for number in range(4 * COUNT):
        tags = client.publish(QUEUE, b"%d" % (COUNT + number), priority=number % 2, delivery_mode=2)
        client.confirms(tags)
    site.until(lambda: all(count > COUNT for count in blocks(site)))
    assert client.bodies(QUEUE)[:8] == by_priority()[:8]


@pytest.mark.requirement("D14.1")
def test_a_deleted_queue_has_nothing_outside_of_memory(site: Site) -> None:
    client = site.client("n1")
    fill(client, max_priority=LEVELS, file_backed_metadata=True)
    spaces = [state.space for state in states(site).values()]
    client.delete(QUEUE)
    site.run(0.5)
    assert [len(space) for space in spaces if space is not None] == [0, 0]


@pytest.mark.requirement("D14.1")
@pytest.mark.parametrize("wrong", ["enabled", 1])
def test_a_value_that_is_no_boolean_is_refused(site: Site, wrong: Any) -> None:
    with pytest.raises(ChannelClosedError, match="x-file-backed-metadata") as refused:
        site.client("n1").declare(QUEUE, file_backed_metadata=wrong)
    assert refused.value.code == 406
