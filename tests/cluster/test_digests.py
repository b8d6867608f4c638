"""The digests of entries are a chain, equal on all replicas of a partition (X8)."""

from __future__ import annotations

import pytest

from cluster.config.formats import BLAKE3_DIGESTS
from node.queue.chronicle import blake3_digest, next_digest
from node.queue.operations import Aspect
from tests.cluster.kept_links import site
from tests.cluster.lives import chain, digests, owner_of, replica
from tests.cluster.test_explaining import fill, got, keeping
from tests.cluster.test_settling_by_bookmark import QUEUE
from tests.inside import machine_of
from tests.site import Site

__all__ = ["site"]

pytestmark = pytest.mark.requirement("X8.7")


def equal(site: Site, name: str = "n1", replicas: int = 3) -> str:
    """The one digest that all replicas compute from their logs, and have in their states."""
    site.until(lambda: len({machine_of(replica(site, one, QUEUE)).applied_index for one in up(site)}) == 1)
    found = digests(site, name, QUEUE)
    assert len(found) == replicas
    [(digest, differs)] = set(found.values())
    assert differs is None
    states = {machine_of(replica(site, one, QUEUE)).chronicle.digest.hex() for one in up(site)}
    assert states == {digest}
    return str(digest)


def up(site: Site) -> list[str]:
    return [name for name, node in site.nodes.items() if node.up]


def test_all_replicas_have_equal_digests_which_each_entry_changes(site: Site) -> None:
    client, _ = keeping(site, b"a", b"b")
    seen = {equal(site)}
    for _ in range(3):
        client.nack(got(client), requeue=True)
        site.run(0.2)
        seen.add(equal(site, "n3"))
    assert len(seen) == 4


def test_a_life_has_the_digests_of_its_entries(site: Site) -> None:
    """Each covers the digest before it, and the whole entry."""
    client, [number] = keeping(site, b"a")
    client.ack(got(client))
    fill(client, 20)
    site.run(0.3)
    [life] = chain(site, "n2", QUEUE, number)
    assert {one.entry for one in life.events} == life.digests.keys()
    machine = machine_of(replica(site, "n3", QUEUE))
    computed = recomputed(site, "n3", machine.chronicle.blake3_from)
    assert computed[machine.applied_index] == machine.chronicle.digest
    assert life.digests == {index: computed[index].hex() for index in life.digests}


def recomputed(site: Site, name: str, blake3_from: int) -> dict[int, bytes]:
    """The digest after each entry of the chain, from the octets in a node's log."""
    log = site.nodes[name].broker.host.groups[_partition(site)].log
    machine = machine_of(replica(site, name, QUEUE))
    at, digest = machine.chronicle.marks()[0]
    found = {}
    for index in range(at + 1, machine.applied_index + 1):
        entry = log.entry(index)
        if entry.data:
            after = blake3_digest if 0 < blake3_from <= index else next_digest
            found[index] = digest = after(digest, index, entry.data)
    return found


def test_a_chain_goes_on_with_blake3_once_all_members_read_its_digests(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that starts again takes over from its snapshot where that was."""
    formats = type(site.nodes["n1"].broker.formats)
    with monkeypatch.context() as earlier:
        earlier.setattr(formats, "everywhere", property(lambda _: BLAKE3_DIGESTS - 1))
        client, _ = keeping(site, b"a", b"b" * 40_000)
        client.ack(got(client))
        site.run(0.3)
        before = equal(site)
        machine = machine_of(replica(site, "n1", QUEUE))
        assert machine.chronicle.blake3_from == 0
        assert recomputed(site, "n1", 0)[machine.applied_index].hex() == before
        last = machine.applied_index
    client.confirms(client.publish(QUEUE, b"c" * 40_000, delivery_mode=2))
    site.run(0.3)
    site.nodes["n2"].broker.partitions.replicas[_partition(site)].snapshot()
    site.nodes["n2"].stop(power=True)
    site.nodes["n2"].start()
    site.until(lambda: site.nodes["n2"].ready)
    client.confirms(client.publish(QUEUE, b"d", delivery_mode=2))
    site.run(1.0)
    [since] = {machine_of(replica(site, name, QUEUE)).chronicle.blake3_from for name in site.nodes}
    assert since == last + 1
    assert recomputed(site, "n1", since)[machine.applied_index].hex() == equal(site)


@pytest.mark.parametrize("place", [0, -1])
def test_one_changed_octet_in_one_copy_is_found(site: Site, place: int) -> None:
    """The journal takes the changed copy for good: its checksum is right."""
    client, _ = keeping(site, b"a", b"b")
    client.ack(got(client))
    fill(client, 300)
    site.run(0.3)
    before = equal(site)
    partition = replica(site, "n2", QUEUE).partition
    log = site.nodes["n2"].broker.host.groups[partition].log
    machine = machine_of(replica(site, "n2", QUEUE))
    index = (machine.chronicle.whole_from, machine.applied_index)[place]
    row = log.table.find(index)
    while not log.read([row])[0].data:
        row += 1
    data = bytearray(log.read([row])[0].data)
    data[-1] ^= 1
    log.copy_forward(row, bytes(data))
    site.run(0.1)
    found = digests(site, "n1", QUEUE)
    digest, differs = found.pop("n2")
    assert digest != before and differs is not None
    assert set(found.values()) == {(before, None)}


def test_a_batch_for_a_queue_that_takes_every_message_is_logged_as_it_came(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner decides about its messages, and encodes none of them again."""
    client, _ = keeping(site, b"a")
    monkeypatch.setattr("cluster.owner.intake.encode_publish", None)
    assert all(client.confirms(client.publish(QUEUE, b"b", b"c", delivery_mode=2)))
    stream = replica(site, "n1", QUEUE).queues[_numbered(site, f"{QUEUE}.history")]
    assert len(stream.delivery.annotations.logged(Aspect.ARRIVAL)) == 3
    monkeypatch.undo()
    equal(site)


def _numbered(site: Site, name: str) -> int:
    return site.nodes["n1"].broker.catalog.state.queues["/", name].id


def test_the_chain_goes_on_over_owners_and_restarts(site: Site) -> None:
    client, _ = keeping(site, b"a", b"b", b"c")
    client.ack(got(client))
    site.run(0.3)
    partition = replica(site, "n1", QUEUE).partition
    begun = machine_of(replica(site, "n1", QUEUE)).chronicle.marks()[0]
    first = owner_of(site, partition)
    assert first is not None
    site.nodes[first].stop(power=True)
    site.until(lambda: owner_of(site, partition) not in (None, first))
    name = up(site)[0]
    site.run(4.0)
    other = site.client(name)
    other.ack(got(other))
    site.run(0.3)
    equal(site, name, replicas=2)
    site.nodes[first].start()
    site.until(lambda: site.nodes[first].ready)
    site.run(1.0)
    assert equal(site, name)
    assert {machine_of(replica(site, one, QUEUE)).chronicle.marks()[0] for one in up(site)} == {begun}


def test_a_replica_that_is_installed_from_a_snapshot_has_the_chain(site: Site) -> None:
    client, _ = keeping(site, b"a")
    client.ack(got(client))
    absent = next(one for one in site.nodes if one not in ("n1", owner_of(site, _partition(site))))
    site.nodes[absent].stop(power=True)
    fill(client, 400)
    site.run(12.0)
    here = site.nodes["n1"].broker.host.groups[_partition(site)].log
    assert here.first_index() > 100
    site.nodes[absent].start()
    site.until(lambda: site.nodes[absent].ready)
    site.run(3.0)
    equal(site)
    there = site.nodes[absent].broker.host.groups[_partition(site)].log
    assert there.installation, "the replica has got a snapshot"


def _partition(site: Site) -> int:
    return replica(site, "n1", QUEUE).partition


def test_entries_stay_whole_as_long_as_a_replica_may_get_a_snapshot_that_needs_them(site: Site) -> None:
    """The state has passed them by then."""
    client, _ = keeping(site, b"a")
    client.ack(got(client))
    site.run(0.3)
    shown = site.nodes["n1"].broker.partitions.replicas[_partition(site)]
    machine = machine_of(replica(site, "n1", QUEUE))
    first, index = machine.chronicle.whole_from, machine.applied_index
    shown.snapshot()
    client.delete(QUEUE)
    site.run(0.3)
    assert not machine.chronicle.covers(first)
    assert shown.needs_whole(first, index + 1), "an entry of the group may follow the last applied one"
    assert not shown.needs_whole(first - 1, index + 1)
    shown.snapshot()
    assert shown.needs_whole(first, index)
    assert not shown.needs_whole(first, machine.applied_index)
