"""When logs are cut: what is dead leaves the disk, however little is written meanwhile."""

from __future__ import annotations

from itertools import pairwise

from replication.compaction import Compaction
from tests.replication.hosts import JOURNAL, PARTITION, Cluster, HostedNode

SNAPSHOT_BYTES = 20_000
SIZE = 1000
TWO_LOOKS_S = 2 * Compaction.LOOK_INTERVAL_S


def cluster_with(entries: int) -> Cluster:
    """All of the entries are needed, and most of them behind a snapshot."""
    cluster = Cluster(SNAPSHOT_BYTES)
    cluster.run(10.0, until=lambda: any(node.host.leads(PARTITION, cluster.now) for node in cluster.up()))
    for _ in range(entries):
        write(cluster, b"." * SIZE)
    cluster.run(TWO_LOOKS_S)
    return cluster


def write(cluster: Cluster, data: bytes) -> None:
    cluster.leader().host.propose(PARTITION, data, cluster.now)
    cluster.run(0.02)


def settle(cluster: Cluster, share: int) -> None:
    """One entry settles `share` of 100 messages, from the oldest on."""
    for node in cluster.up():
        needed = sorted(node.machine.needed)
        node.machine.needed -= set(needed[: len(needed) * share // 100])
    write(cluster, b"settled")


def looks_at(node: HostedNode) -> list[int]:
    """Grows whenever the node's machine is asked what is alive in it."""
    looks: list[int] = []
    live = node.machine.live

    def noted() -> list[tuple[int, int]]:
        looks.append(len(looks))
        return live()

    node.machine.live = noted  # type: ignore[method-assign]
    return looks


def test_what_is_settled_leaves_every_disk_although_hardly_anything_is_written() -> None:
    """Seed 40638: all queues were empty, and the disk gave back a segment of their messages now and then."""
    cluster = cluster_with(300)
    for node in cluster.up():
        assert node.group.log.kept_bytes() > 250 * SIZE
        assert node.journal.disk_bytes() > 250 * SIZE
    settle(cluster, 100)
    cluster.run(TWO_LOOKS_S)
    for node in cluster.up():
        assert node.group.log.kept_bytes() < SIZE
        assert node.journal.live_bytes() < SNAPSHOT_BYTES
        assert node.journal.disk_bytes() <= 2 * JOURNAL.segment_bytes


def test_what_is_needed_stays_where_half_is_settled() -> None:
    cluster = cluster_with(100)
    settle(cluster, 50)
    cluster.run(TWO_LOOKS_S)
    for node in cluster.up():
        kept = node.group.log.kept_bytes()
        assert sum(last - first + 1 for first, last in node.group.log.live()) <= 52
        assert 40 * SIZE < kept < 60 * SIZE
        assert {node.group.log.entry(index).index for index in node.machine.needed} == node.machine.needed


def test_no_snapshot_is_taken_for_less_than_it_is_to_let_go_of() -> None:
    cluster = cluster_with(100)
    before = [node.group.log.first_index() for node in cluster.up()]
    settle(cluster, 10)
    cluster.run(TWO_LOOKS_S)
    assert [node.group.log.first_index() for node in cluster.up()] == before


def test_a_large_state_is_written_again_when_the_log_has_grown_by_as_much() -> None:
    """Otherwise nodes with millions of waiting messages would write little but snapshots."""
    cluster = Cluster(SNAPSHOT_BYTES)
    large = 5 * SNAPSHOT_BYTES
    for node in cluster.up():
        node.machine.least_snapshot_octets = large
    cluster.run(10.0, until=lambda: any(node.host.leads(PARTITION, cluster.now) for node in cluster.up()))
    log = cluster.leader().group.log
    cuts: list[int] = []
    for entry in range(13 * SNAPSHOT_BYTES // SIZE):
        before = log.first_index()
        write(cluster, b"." * SIZE)
        if log.first_index() != before:
            cuts.append(entry * SIZE)
    assert len(cuts) == 3
    assert cuts[0] < 2 * SNAPSHOT_BYTES
    assert all(later - earlier > 0.9 * large for earlier, later in pairwise(cuts))


def test_a_partition_is_looked_at_when_something_was_applied_and_not_all_the_time() -> None:
    cluster = cluster_with(100)
    looks = looks_at(cluster.leader())
    cluster.run(TWO_LOOKS_S)
    assert not looks
    for _ in range(100):
        write(cluster, b"1")
    assert len(looks) <= 1


def test_a_partition_that_holds_little_is_not_looked_at() -> None:
    cluster = cluster_with(10)
    looks = looks_at(cluster.leader())
    settle(cluster, 100)
    cluster.run(TWO_LOOKS_S)
    assert not looks
