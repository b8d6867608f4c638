"""The steps that the journal's tests share."""

from __future__ import annotations

from replication.journal import Journal
from replication.raft.types import Entry, EntryKind, Membership, Snapshot

MEMBERS = Membership(frozenset(("a", "b", "c")))


def entry(index: int, term: int = 1, data: bytes = b"data") -> Entry:
    return Entry(index, term, EntryKind.NORMAL, data)


def entries(first: int, last: int, term: int = 1, size: int = 10) -> list[Entry]:
    """Entries first to last; each begins with its own index and term."""
    return [
        entry(index, term, (b"%d/%d|" % (index, term)).ljust(size, b".")) for index in range(first, last + 1)
    ]


def snapshot(index: int, term: int = 1, data: bytes = b"state") -> Snapshot:
    return Snapshot(index, term, MEMBERS, data)


def commit(journal: Journal) -> list[tuple[int, int, int]]:
    """Write all that is staged, then recycle all that is free; returns what became durable."""
    durable = []
    while (batch := journal.take_batch()) is not None:
        batch.write()
        durable += journal.complete(batch)
    return durable
