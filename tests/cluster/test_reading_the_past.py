"""A reader of a stream's past is fast, and takes little from others."""

from __future__ import annotations

import pytest

from cluster.owner.browsing import BrowsingQuestion, next_page, waits_for_turn
from cluster.owner.pages import TURN_MESSAGES, TURN_OCTETS
from node.queue.entry_format import read_run
from tests.cluster.kept_links import site
from tests.cluster.stream_readers import Readers
from tests.cluster.test_leases import isolate
from tests.cluster.test_streams import STREAM, declared, publish, reading
from tests.inside import state_of
from tests.site import Site

__all__ = ["site"]

SIZE = 4096


def filled(site: Site, count: int) -> Readers:
    """A stream of more octets than the cache of the journal has, an entry for every few of them."""
    client = declared(site)
    for number in range(0, count, 4):
        publish(client, *(f"{at:05}".ljust(SIZE) for at in range(number, number + 4)))
    return Readers(site)


@pytest.mark.requirement("D17.1")
@pytest.mark.parametrize("filter", ["", "JMSPriority >= 0"])
def test_entries_that_a_reader_reads_from_disk_take_no_place_in_a_cache(site: Site, filter: str) -> None:
    readers = filled(site, 80)
    node = site.nodes[readers.owner]
    state, log = state_of(node.broker.owners[readers.definition.partition]), node.journal._reader
    table = node.journal.log(readers.definition.partition).table
    places = {table.key(row) for row in range(len(table))}
    before = places & node.journal._cache._data.keys()
    assert len(before) < len(places), "some of the stream is on disk alone"
    misses, decoded = log._counters.cache_misses, list(state.entries._decoded)
    options = {"x-filter": filter} if filter else {}
    reader = reading(site, readers.owner, "first", **options)
    site.until(lambda: len(reader.deliveries) == 80)
    assert log._counters.cache_misses > misses
    assert places & node.journal._cache._data.keys() <= before
    assert list(state.entries._decoded) == decoded


@pytest.mark.requirement("D17.1")
def test_a_page_with_messages_waits_for_no_majority(site: Site) -> None:
    """Messages leave a stream by retention alone: a successor would show the same."""
    readers = filled(site, 40)
    reader = reading(site, readers.owner, "first", prefetch=4)
    site.until(lambda: len(reader.deliveries) == 4)
    mend = isolate(site, readers.owner)
    for shown in range(4, 40, 4):
        reader.ack(reader.deliveries[-1], multiple=True)
        site.run(0.01)
        assert len(reader.deliveries) == shown + 4
    mend()


@pytest.mark.requirement("D17.1")
def test_the_readers_of_a_turn_share_what_pages_may_have(site: Site) -> None:
    publish(declared(site), *map(str, range(TURN_MESSAGES // 2 + 10)))
    readers = Readers(site)
    owner = site.nodes[readers.owner].broker.owners[readers.definition.partition]
    state, queue = state_of(owner), owner.queues[readers.definition.id]

    def counted(consumer: int) -> int:
        question = BrowsingQuestion(1, 1, 1, readers.definition.id, consumer, 0, 0, 0, 10_000, True)
        assert not waits_for_turn(state, queue, question)
        rows = next_page(state, queue, question)
        assert sum(len(data) for *_, data in rows) < TURN_OCTETS
        return sum(read_run(data, 0).count for *_, data in rows)

    state.pages.begin(-1)
    assert counted(1) == TURN_MESSAGES // 2 + 10
    assert counted(2) == TURN_MESSAGES // 2 - 10
    third = BrowsingQuestion(1, 1, 1, readers.definition.id, 3, 0, 0, 0, 10_000, True)
    state.pages.begin(-1)
    assert waits_for_turn(state, queue, third)
    state.pages.begin(-2)
    assert not waits_for_turn(state, queue, third)


@pytest.mark.requirement("D17.1")
def test_readers_that_ask_for_more_than_a_turn_has_get_all(site: Site) -> None:
    bodies = [f"{number:05}".ljust(TURN_OCTETS // 16) for number in range(40)]
    client = declared(site)
    for at in range(0, 40, 4):
        publish(client, *bodies[at : at + 4])
    readers = [reading(site, name, "first", prefetch=0) for name in ("n1", "n1", "n2")]
    for reader in readers:
        site.until(lambda reader=reader: len(reader.deliveries) == 40)
        assert [one.body.decode() for one in reader.deliveries] == bodies
    assert client.depth(STREAM) == 40
