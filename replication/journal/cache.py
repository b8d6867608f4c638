"""The data of recently staged or read entries, bounded in octets over all partitions."""

from __future__ import annotations

from collections import OrderedDict

ENTRY_COST = 200
"""Octets that one entry takes beside its data."""


class EntryCache:
    """First in, first out: most entries are read once, soon after they were written.

    Keys are `EntryTable.key`, which are never given twice, so nothing in here is ever stale. Values
    are plain bytes, which the garbage collector does not look at.
    """

    __slots__ = ("_data", "_limit", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._data: OrderedDict[int, bytes] = OrderedDict()

    @property
    def size(self) -> int:
        """Octets held."""
        return self._size

    def get(self, key: int) -> bytes | None:
        return self._data.get(key)

    def put(self, key: int, data: bytes) -> None:
        """Add an entry's data, and let go of the oldest until the bound holds."""
        if key in self._data or len(data) + ENTRY_COST > self._limit:
            return
        self._data[key] = data
        self._size += len(data) + ENTRY_COST
        while self._size > self._limit:
            _, oldest = self._data.popitem(last=False)
            self._size -= len(oldest) + ENTRY_COST
