"""Cuts the logs of partitions: a snapshot takes the place of entries that no replica needs any more."""

from __future__ import annotations

from typing import Final

from replication.group import PendingSnapshot, RaftGroup
from replication.raft import Role, Snapshot


class Compaction:
    """Takes snapshots of groups. A snapshot is due when it lets go of `snapshot_bytes` octets or more.

    It also has to let go of as many octets as the last snapshot has: of the octets that a node writes,
    snapshots are a half at most, however large the state is.

    That is so when the log has grown by as much behind the last snapshot. It is also so when as many octets
    of the live entries of the last snapshot are dead: a queue that is emptied, or purged, writes hardly
    anything.
    """

    PATIENCE_S: Final = 10.0
    """How long a follower that answers but lags may delay the cutting of the leader's log."""

    LOOK_INTERVAL_S: Final = 5.0
    """Seconds between two looks for dead entries in a partition, if it has applied entries meanwhile."""

    LOOK_S_PER_ENTRY: Final = 0.0005
    """Seconds between two looks, by entry of the log, where that is longer: a look takes a hundredth of
    it."""

    def __init__(self, snapshot_bytes: int, election_timeout_s: float) -> None:
        self._snapshot_bytes = snapshot_bytes
        self._election_timeout_s = election_timeout_s

    def tick(self, group: RaftGroup, now: float, *, streaming: bool) -> None:
        """Take a snapshot that is due, and cut the log once no follower that is near needs its tail.

        `streaming`: a snapshot of the partition is on its way to a follower, with entries of the log.
        """
        pending = group.pending
        if pending is None:
            if group.log.bytes_since_snapshot >= self._wanted(group) or self._is_dead(group, now):
                self._take(group, now)
        elif not streaming and self._may_cut(group, pending, now):
            group.log.compact(pending.snapshot, pending.live)
            group.pending = None

    def _wanted(self, group: RaftGroup) -> int:
        """The octets that the next snapshot has to let go of."""
        last = group.log.snapshot()
        return self._snapshot_bytes if last is None else max(self._snapshot_bytes, len(last.data))

    def _is_dead(self, group: RaftGroup, now: float) -> bool:
        """Whether enough of the live entries of the last snapshot are dead by now."""
        applied = group.raft.applied_index
        if now < group.look_at or applied == group.looked_at:
            return False
        group.looked_at = applied
        group.look_at = now + max(self.LOOK_INTERVAL_S, len(group.log.table) * self.LOOK_S_PER_ENTRY)
        wanted = self._wanted(group)
        if group.log.kept_bytes() < wanted:
            return False
        return group.log.kept_bytes(besides=group.machine.live()) >= wanted

    def _take(self, group: RaftGroup, now: float) -> None:
        raft = group.raft
        index = raft.applied_index
        if index < group.log.first_index() or raft.snapshot_pending:
            # Nothing is new, or a leader's snapshot is on its way to the machine.
            return
        snapshot = Snapshot(index, group.log.term(index), raft.membership_at(index), group.machine.snapshot())
        group.pending = PendingSnapshot(snapshot, group.machine.live(), now + self.PATIENCE_S)

    def _may_cut(self, group: RaftGroup, pending: PendingSnapshot, now: float) -> bool:
        if group.raft.role is not Role.LEADER or now >= pending.cut_after:
            return True
        return all(
            progress.match >= pending.snapshot.index
            for progress in group.raft.progress.values()
            if progress.contact > now - self._election_timeout_s
        )
