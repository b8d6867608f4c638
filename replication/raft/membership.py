"""Which membership is in force.

A membership is in force from the moment its entry is in the log, committed or not (thesis §4.1), and
the one before it returns if the entry is overwritten.
"""

from __future__ import annotations

from replication.raft.errors import CompactedError
from replication.raft.types import Entry, EntryKind, LogStorage, Membership

_SCAN_BYTES = 1 << 20


class MembershipHistory:
    """The memberships in the log, the oldest being the snapshot's or the one the group began with.

    Attributes other than the methods' are what the hot path needs of the membership in force:
    `voters` and `outgoing` (sorted), `peers` (all other members), `is_voter` (this node is one),
    `is_joint`, and `index`, that of its entry.
    """

    __slots__ = (
        "_history",
        "_node",
        "current",
        "index",
        "is_joint",
        "is_voter",
        "outgoing",
        "peers",
        "voters",
    )

    def __init__(self, node: str, storage: LogStorage, initial: Membership) -> None:
        self._node = node
        snapshot = storage.snapshot()
        base = (snapshot.index, snapshot.membership) if snapshot is not None else (0, initial)
        self._history = [base]
        low, end = storage.first_index(), storage.last_index() + 1
        while low < end:
            entries = storage.entries(low, end, _SCAN_BYTES)
            self._history += [
                (e.index, Membership.decode(e.data)) for e in entries if e.kind == EntryKind.MEMBERSHIP
            ]
            low = entries[-1].index + 1
        self._refresh()

    def _refresh(self) -> None:
        self.index, membership = self._history[-1]
        self.current = membership
        self.voters = tuple(sorted(membership.voters))
        self.outgoing = tuple(sorted(membership.outgoing))
        self.peers = tuple(sorted(membership.members - {self._node}))
        self.is_voter = self._node in membership.voters or self._node in membership.outgoing
        self.is_joint = bool(membership.outgoing)

    def add(self, entry: Entry) -> None:
        """A MEMBERSHIP entry was appended to the log."""
        self._history.append((entry.index, Membership.decode(entry.data)))
        self._refresh()

    def truncate(self, index: int) -> None:
        """The log lost its entries from `index` on."""
        if self.index >= index:
            self._history = [known for known in self._history if known[0] < index]
            self._refresh()

    def reset(self, index: int, membership: Membership) -> None:
        """A snapshot took the place of the whole log."""
        self._history = [(index, membership)]
        self._refresh()

    def at(self, index: int) -> Membership:
        """The membership in force at entry `index`, as a snapshot there must state it.

        Raises CompactedError if a newer snapshot took its place.
        """
        for known, membership in reversed(self._history):
            if known <= index:
                return membership
        raise CompactedError(index, self._history[0][0])
