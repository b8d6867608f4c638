"""Streams of snapshots: what is on its way, what is acknowledged, what is left of those that end early."""

from __future__ import annotations

import random
import struct

from replication.forms import SNAPSHOT_TAG
from replication.journal import Journal, PartitionLog
from replication.raft import Entry, EntryKind, Snapshot, SnapshotRequest
from replication.snapshots import (
    ACKNOWLEDGED,
    CHUNK,
    CHUNK_BYTES,
    FINAL,
    SNAPSHOT_WINDOW_BYTES,
    STALL_S,
    Part,
    SnapshotSender,
)
from tests.replication.hosts import JOURNAL, MEMBERS, PARTITION, Cluster, HostedNode
from tests.simulation.disk import SimulatedDisk

SIZE = 100_000
ENVELOPE = struct.pack(">cI", SNAPSHOT_TAG, PARTITION)


def entry(index: int, size: int = SIZE, term: int = 1) -> Entry:
    return Entry(index, term, EntryKind.NORMAL, (b"%d " % index).ljust(size, b"."))


def leader_log(count: int, size: int = SIZE) -> PartitionLog:
    """A log whose snapshot at `count` refers to every second entry, and to the last one."""
    log = Journal.open(SimulatedDisk(random.Random(1)), JOURNAL).log(PARTITION)
    log.append([entry(index, size) for index in range(1, count + 1)])
    live = sorted({*range(1, count + 1, 2), count})
    data = b" ".join(b"%d" % index for index in live)
    log.compact(Snapshot(count, 1, MEMBERS, data), [(index, index) for index in live])
    return log


def sender_of(log: PartitionLog, attempt: int = 1, term: int = 2, leader: str = "a") -> SnapshotSender:
    snapshot = log.snapshot()
    assert snapshot is not None
    return SnapshotSender(SnapshotRequest(leader, "b", term, snapshot), attempt, log, 0.0)


def all_parts(sender: SnapshotSender) -> list[Part]:
    """Everything that the stream consists of."""
    parts: list[Part] = []
    while not sender.delivered:
        parts += sender.parts()
        sender.acknowledged(Part(ACKNOWLEDGED, sender.stream, parts[-1].number), 0.0)
    return parts


def hand(node: HostedNode, parts: list[Part], peer: str = "a", now: float = 0.0) -> None:
    for part in parts:
        node.host.receive(peer, [ENVELOPE, *map(bytes, part.encode())], now)
        node.host.turn(now)


def acknowledged(node: HostedNode) -> list[int]:
    """Numbers of the parts that were acknowledged since the last call."""
    found = [Part.decode(parts[1:]) for _, parts in node.sent if parts[0] == ENVELOPE]
    node.sent.clear()
    return [part.number for part in found]


def live(log: PartitionLog) -> dict[int, bytes]:
    return {index: log.entry(index).data for low, high in log.live() for index in range(low, high + 1)}


class TestSender:
    def test_the_window_bounds_what_is_on_its_way(self) -> None:
        sender = sender_of(leader_log(200))
        parts = sender.parts()
        sizes = [sum(map(len, part.body)) for part in parts]
        assert all(CHUNK_BYTES <= size < CHUNK_BYTES + SIZE for size in sizes)
        assert SNAPSHOT_WINDOW_BYTES <= sum(sizes) < SNAPSHOT_WINDOW_BYTES + CHUNK_BYTES + SIZE
        assert sender.parts() == []
        sender.acknowledged(Part(ACKNOWLEDGED, sender.stream, 0), 0.0)
        assert [part.number for part in sender.parts()] == [len(parts)]

    def test_an_entry_larger_than_the_window_goes_alone(self) -> None:
        parts = sender_of(leader_log(3, size=SNAPSHOT_WINDOW_BYTES + 1)).parts()
        assert [len(part.entries) for part in parts] == [1]

    def test_every_live_entry_comes_once_and_the_snapshot_last(self) -> None:
        log = leader_log(100)
        parts = all_parts(sender_of(log))
        assert [part.kind for part in parts] == [CHUNK] * (len(parts) - 1) + [FINAL]
        assert [part.number for part in parts] == list(range(len(parts)))
        streamed = {
            head[0]: data for part in parts[:-1] for head, data in zip(part.entries, part.body, strict=True)
        }
        assert streamed == live(log)

    def test_an_acknowledgement_stands_for_all_before_it(self) -> None:
        sender = sender_of(leader_log(20))
        parts = sender.parts()
        assert parts[-1].kind == FINAL
        assert not sender.delivered
        sender.acknowledged(Part(ACKNOWLEDGED, sender.stream, len(parts) - 1), 0.0)
        assert sender.delivered

    def test_what_another_stream_acknowledged_does_not_count(self) -> None:
        sender = sender_of(leader_log(20), attempt=2)
        last = sender.parts()[-1].number
        sender.acknowledged(Part(ACKNOWLEDGED, (2, 20, 1), last), 0.0)
        assert not sender.delivered

    def test_a_silent_peer_is_given_up(self) -> None:
        sender = sender_of(leader_log(200))
        sender.parts()
        sender.acknowledged(Part(ACKNOWLEDGED, sender.stream, 0), 1.0)
        assert not sender.stalled(1.0 + STALL_S)
        assert sender.stalled(1.1 + STALL_S)

    def test_parts_survive_the_wire(self) -> None:
        part = sender_of(leader_log(20)).parts()[0]
        assert Part.decode([bytes(piece) for piece in part.encode()]) == part


class TestReceiver:
    def test_nothing_is_acknowledged_before_it_is_durable(self) -> None:
        node = HostedNode("b")
        node.sync()
        parts = all_parts(sender_of(leader_log(200)))
        hand(node, parts[:1])
        hand(node, parts[1:3])
        assert acknowledged(node) == []
        node.host.durable(node.writer.finish(), 0.0)
        assert acknowledged(node) == [0]
        node.sync()
        assert acknowledged(node) == [1, 2]

    def test_what_waits_for_the_disk_fits_the_window(self) -> None:
        node = HostedNode("b")
        sender = sender_of(leader_log(200))
        hand(node, sender.parts())
        held = sum(map(len, node.journal._stage.unwritten.values()))
        assert held < SNAPSHOT_WINDOW_BYTES + CHUNK_BYTES + SIZE
        node.sync()
        assert not node.journal._stage.unwritten

    def test_the_snapshot_comes_to_life_with_its_entries(self) -> None:
        node, log = HostedNode("b"), leader_log(100)
        parts = all_parts(sender_of(log))
        hand(node, parts[:-1])
        node.sync()
        assert (node.group.log.snapshot(), node.machine.restored) == (None, [])
        hand(node, parts[-1:])
        node.sync()
        assert acknowledged(node) == list(range(len(parts)))
        again = node.restarted()
        for each in (node, again):
            assert each.group.log.snapshot() == log.snapshot()
            assert live(each.group.log) == live(log)
            assert each.machine.restored == [log.snapshot()]

    def test_a_snapshot_that_is_not_needed_leaves_nothing(self) -> None:
        """The leader missed the last acknowledgement of an earlier attempt."""
        node, log = HostedNode("b"), leader_log(20)
        hand(node, all_parts(sender_of(log)))
        node.sync()
        used = node.journal.live_bytes()
        hand(node, all_parts(sender_of(log, attempt=2)))
        node.sync()
        assert len(node.machine.restored) == 1
        assert node.journal.live_bytes() == used
        assert not node.group.log.received

    def test_a_lost_part_ends_the_stream(self) -> None:
        node = HostedNode("b")
        parts = all_parts(sender_of(leader_log(100)))
        hand(node, [parts[0], *parts[2:]])
        node.sync()
        assert acknowledged(node) == [0]
        assert node.machine.restored == []

    def test_parts_of_two_attempts_are_never_mixed(self) -> None:
        node, log = HostedNode("b"), leader_log(100)
        first, second = all_parts(sender_of(log)), all_parts(sender_of(log, attempt=2))
        hand(node, [*first[:2], *second[2:]])
        assert node.machine.restored == []
        hand(node, second)
        assert live(node.group.log) == live(log)

    def test_a_newer_leaders_stream_ends_the_older_ones(self) -> None:
        node, log = HostedNode("b"), leader_log(100)
        older, newer = all_parts(sender_of(log)), all_parts(sender_of(log, term=3, leader="c"))
        hand(node, older[:2])
        hand(node, newer[:1], "c")
        hand(node, older[2:])
        assert node.machine.restored == []
        hand(node, newer[1:], "c")
        node.sync()
        assert live(node.group.log) == live(log)
        hand(node, older)
        assert not node.group.log.received

    def test_a_stream_that_stalls_gives_its_disk_space_back(self) -> None:
        node = HostedNode("b")
        hand(node, all_parts(sender_of(leader_log(100)))[:-1])
        node.sync()
        assert node.disk.used() > 4_000_000
        node.host.tick(STALL_S)
        node.sync(STALL_S)
        assert node.disk.used() > 4_000_000
        node.host.tick(STALL_S + 0.1)
        node.sync(STALL_S + 0.1)
        assert node.disk.used() <= 2 * JOURNAL.segment_bytes + 2 * SIZE

    def test_a_restart_ends_a_stream_and_the_next_one_begins_anew(self) -> None:
        node, log = HostedNode("b"), leader_log(100)
        parts = all_parts(sender_of(log))
        hand(node, parts[:-1])
        node.sync()
        node = node.restarted()
        node.sync()
        assert node.disk.used() <= 2 * JOURNAL.segment_bytes + 2 * SIZE
        hand(node, parts[-1:])
        assert node.machine.restored == []
        hand(node, all_parts(sender_of(log, attempt=2)))
        node.sync()
        assert live(node.restarted().group.log) == live(log)

    def test_a_partition_that_closes_takes_its_stream_with_it(self) -> None:
        node = HostedNode("b")
        hand(node, all_parts(sender_of(leader_log(100)))[:-1])
        node.host.close(PARTITION)
        node.host.tick(STALL_S + 0.1)
        node.sync()
        assert node.disk.used() <= 2 * JOURNAL.segment_bytes + 2 * SIZE


class TestCluster:
    """A real leader that has cut its log, and a node that comes back without its disk."""

    def test_a_lost_disk_is_rebuilt(self) -> None:
        cluster, victim = self._cluster_without_one()
        node = cluster.replace(victim)
        cluster.run(2.0)
        leader = cluster.leader()
        assert len(node.machine.restored) == 1
        assert live(node.group.log) == live(leader.group.log) != {}
        assert node.group.raft.commit_index == leader.group.raft.commit_index
        assert not leader.host._senders
        assert not node.host._receivers

    def test_a_follower_lost_in_the_middle_gets_another_stream(self) -> None:
        cluster, victim = self._cluster_without_one()
        node, leader = cluster.replace(victim), cluster.leader()
        cluster.run(2.0, until=lambda: len(node.group.log.received) > 10)
        assert node.group.log.received
        cluster.stop(victim)
        assert not leader.host._senders
        node = cluster.replace(victim)
        cluster.run(2.0)
        assert live(node.group.log) == live(leader.group.log)

    def test_a_leader_that_steps_down_sends_no_more(self) -> None:
        cluster, victim = self._cluster_without_one()
        leader = cluster.leader()
        cluster.nodes[victim] = HostedNode(victim)
        request = SnapshotRequest(leader.name, victim, leader.group.raft.term, self._snapshot(leader))
        leader.host._start_stream(leader.group, request, cluster.now)
        assert leader.host._senders
        cluster.stop(next(node.name for node in cluster.up() if node is not leader))
        cluster.run(4.0)
        assert not leader.host.leads(PARTITION, cluster.now)
        assert not leader.host._senders

    def test_a_request_that_waited_until_the_log_was_cut_again_is_not_carried_out(self) -> None:
        cluster, victim = self._cluster_without_one()
        leader = cluster.leader()
        old = Snapshot(1, 1, MEMBERS, b"")
        request = SnapshotRequest(leader.name, victim, leader.group.raft.term, old)
        leader.host._start_stream(leader.group, request, cluster.now)
        assert not leader.host._senders

    def _cluster_without_one(self) -> tuple[Cluster, str]:
        cluster = Cluster(snapshot_bytes=1_000_000)
        cluster.run(2.0)
        leader = cluster.leader()
        victim = next(name for name in "abc" if name != leader.name)
        cluster.stop(victim)
        for number in range(60):
            leader.host.propose(PARTITION, entry(number).data, cluster.now)
            cluster.run(0.02)
        cluster.run(2.0)
        assert leader.group.log.first_index() > 10
        return cluster, victim

    def _snapshot(self, node: HostedNode) -> Snapshot:
        snapshot = node.group.log.snapshot()
        assert snapshot is not None
        return snapshot
