"""The log of a transient partition: entries in memory, committed as soon as they are appended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final


class TransientLog:
    """The octets of entries that still have live messages (see `cluster.owner.contents.EntrySource`)."""

    COLLECT_EVERY: Final = 256
    """Entries that are appended, at least, between two collections of dead entries."""

    def __init__(self) -> None:
        self.last_index = 0
        self._entries: dict[int, bytes] = {}
        self._until_collection = self.COLLECT_EVERY

    def append(self, data: bytes) -> int:
        """Append an entry. Returns its index; the caller applies the entry in this turn."""
        self.last_index += 1
        self._entries[self.last_index] = data
        self._until_collection -= 1
        return self.last_index

    def data(self, index: int) -> bytes:
        return self._entries[index]

    def read_past(self, index: int) -> list[tuple[int, bytes]]:
        """As `EntrySource.read_past`. Partitions in memory have no streams."""
        return [(index, self._entries[index])]

    def octets_from(self, index: int) -> int:
        return sum(len(data) for at, data in self._entries.items() if at >= index)

    def last_within(self, octets: int) -> int:
        """Everything: partitions in memory have no streams."""
        return 0

    def octets_of(self, index: int) -> int:
        """As `EntrySource.octets_of`."""
        return len(self._entries[index])

    @property
    def collection_due(self) -> bool:
        """Whether to call `collect` now: it goes through all entries, so it runs once in many entries."""
        return self._until_collection <= 0

    def collect(self, live: Iterable[tuple[int, int]], applied: int) -> None:
        """Drop every entry up to index `applied` that is in none of the closed index ranges `live`."""
        entries = self._entries
        kept: dict[int, bytes] = {}
        for low, high in (*live, (applied + 1, self.last_index)):
            if high - low + 1 > len(entries):
                kept.update((index, data) for index, data in entries.items() if low <= index <= high)
            else:
                kept.update((index, entries[index]) for index in range(low, high + 1) if index in entries)
        self._entries = kept
        self._until_collection = max(self.COLLECT_EVERY, len(kept) // 4)

    def __len__(self) -> int:
        return len(self._entries)
