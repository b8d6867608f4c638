"""One partition's replica on a node: its Raft core, its log, and the machine that applies it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from replication.journal import DamagedEntryError, PartitionLog
from replication.raft import Entry, Raft, Role, Snapshot


class Machine(Protocol):
    """A replicated state machine, as the host sees it."""

    def apply(self, entries: Sequence[Entry], now: float) -> None:
        """Apply committed entries in log order; called once for each index."""

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the whole state by the state in a snapshot."""

    def snapshot(self) -> bytes:
        """The state after the last applied entry, without the contents that live entries hold."""

    def live(self) -> list[tuple[int, int]]:
        """The log indexes, as closed ranges, of applied entries that still hold something needed."""

    def role_changed(self, leading: bool, term: int, leader: str | None, now: float) -> None:
        """Called when this replica's role, term or known leader changed."""

    def read_ready(self, context: bytes) -> None:
        """A read index asked for with `context` was confirmed and is applied here."""

    def lost(self, error: DamagedEntryError) -> bytes | None:
        """No replica can read an applied entry any more, and this replica leads.

        Returns an entry to propose, after which no replica needs the lost one; None if there is no such
        entry.
        """


@dataclass(slots=True)
class RaftGroup:
    """One partition's replica on this node."""

    partition: int
    raft: Raft
    log: PartitionLog
    machine: Machine
    seen: tuple[Role, int, str | None] | None = None
    pending: PendingSnapshot | None = None
    proposed: deque[tuple[int, float]] = field(default_factory=deque)
    """Entries that were proposed here and are not applied yet, with the times of their proposals."""
    waiting_reads: deque[tuple[int, bytes]] = field(default_factory=deque)
    looked_at: int = 0
    """The last applied index at the last look for dead entries in the log."""
    look_at: float = 0.0
    """The time of the next look."""


@dataclass(frozen=True, slots=True)
class PendingSnapshot:
    """A snapshot taken of the machine that still waits for lagging followers before it cuts the log."""

    snapshot: Snapshot
    live: list[tuple[int, int]]
    cut_after: float
