"""Hosts on simulated disks whose syncs and messages happen when a test says so."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence

from replication.group import RaftGroup
from replication.host import Host
from replication.journal import DamagedEntryError, Journal, JournalConfig, WriteBatch
from replication.raft import Entry, Membership, RaftConfig, Snapshot
from tests.simulation.disk import SimulatedDisk

PARTITION = 7
MEMBERS = Membership(frozenset(("a", "b", "c")))
JOURNAL = JournalConfig(segment_bytes=1 << 16, spare_segments=0, cache_bytes=1 << 16)


class RecordingMachine:
    """Keeps every entry's contents until told that they are not needed any more."""

    def __init__(self) -> None:
        self.applied: list[int] = []
        self.restored: list[Snapshot] = []
        self.needed: set[int] = set()
        self.lost_entries: list[int] = []
        self.least_snapshot_octets = 0

    def apply(self, entries: Sequence[Entry], now: float) -> None:
        self.applied += [entry.index for entry in entries]
        self.needed |= {entry.index for entry in entries}

    def restore(self, snapshot: Snapshot) -> None:
        self.restored.append(snapshot)
        self.needed = set(map(int, snapshot.data.split()))

    def snapshot(self) -> bytes:
        state = b" ".join(b"%d" % index for index in sorted(self.needed))
        return state.ljust(self.least_snapshot_octets)

    def live(self) -> list[tuple[int, int]]:
        return [(index, index) for index in sorted(self.needed)]

    def role_changed(self, leading: bool, term: int, leader: str | None, now: float) -> None:
        """Nothing depends on it."""

    def read_ready(self, context: bytes) -> None:
        """Ignored."""

    def lost(self, error: DamagedEntryError) -> bytes:
        self.lost_entries.append(error.index)
        return b"needless"


class ManualWriter:
    """The host's records are durable once `finish` is called."""

    def __init__(self, journal: Journal) -> None:
        self.batch: WriteBatch | None = None
        self._journal = journal

    @property
    def busy(self) -> bool:
        return self.batch is not None

    def kick(self) -> None:
        if self.batch is None:
            self.batch = self._journal.take_batch()

    def finish(self) -> list[tuple[int, int, int]]:
        assert self.batch is not None
        batch, self.batch = self.batch, None
        batch.write()
        return self._journal.complete(batch)


class HostedNode:
    """One node with one partition. `sent` is what it sent, oldest first, as (to, parts).

    membership: the group's membership when it was made; with an empty one the replica joins an existing
    group.
    """

    def __init__(
        self,
        name: str,
        disk: SimulatedDisk | None = None,
        snapshot_bytes: int = 1 << 30,
        membership: Membership = MEMBERS,
        withheld: bool = False,
    ) -> None:
        self.name = name
        self.disk = disk if disk is not None else SimulatedDisk(random.Random(name))
        self.sent: deque[tuple[str, list[bytes]]] = deque()
        self.journal = Journal.open(self.disk, JOURNAL)
        self.writer = ManualWriter(self.journal)
        self.machine = RecordingMachine()
        self.host = Host(
            RaftConfig(name), self.journal, self._send, random.Random(name).random, snapshot_bytes
        )
        self.host.attach_writer(self.writer)
        self.membership = membership
        if withheld:
            self.host.withhold_votes()
        self.group: RaftGroup = self.host.open(PARTITION, membership, self.machine, 0.0)

    def _send(self, peer: str, parts: Sequence[bytes | memoryview]) -> None:
        self.sent.append((peer, [bytes(part) for part in parts]))

    def sync(self, now: float = 0.0) -> None:
        """Run turns and let the disk finish until nothing is staged any more."""
        self.host.turn(now)
        while self.writer.busy:
            self.host.durable(self.writer.finish(), now)
            self.host.turn(now)

    def restarted(self) -> HostedNode:
        """The node after a kill, which loses nothing that was written."""
        self.disk.kill_process()
        return HostedNode(self.name, self.disk, membership=self.membership)


class Cluster:
    """Three nodes whose messages all arrive, in order."""

    def __init__(self, snapshot_bytes: int) -> None:
        self.snapshot_bytes = snapshot_bytes
        self.now = 0.0
        self.nodes = {name: HostedNode(name, None, snapshot_bytes) for name in "abc"}
        self.down: set[str] = set()

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass in steps of 20 ms, with every message and sync done in each, or less of it."""
        end = self.now + seconds
        while self.now < end and not until():
            self.now += 0.02
            for node in self.up():
                node.host.tick(self.now)
                node.sync(self.now)
            while any(node.sent for node in self.up()) and not until():
                for node in self.up():
                    self._deliver(node)

    def up(self) -> list[HostedNode]:
        return [node for name, node in self.nodes.items() if name not in self.down]

    def leader(self) -> HostedNode:
        return next(node for node in self.up() if node.host.leads(PARTITION, self.now))

    def stop(self, name: str) -> None:
        self.down.add(name)
        for node in self.up():
            node.host.peer_lost(name, self.now)

    def replace(self, name: str) -> HostedNode:
        """Start a node again on an empty disk."""
        self.nodes[name] = HostedNode(name, None, self.snapshot_bytes)
        self.down.discard(name)
        for node in self.up():
            node.host.peer_up(name, self.now)
        return self.nodes[name]

    def _deliver(self, node: HostedNode) -> None:
        """Let the oldest message of a node arrive."""
        if node.sent:
            to, parts = node.sent.popleft()
            if to not in self.down:
                self.nodes[to].host.receive(node.name, parts, self.now)
                self.nodes[to].sync(self.now)
