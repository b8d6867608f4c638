"""The newest message of each key of a queue, in little memory for each key."""

from __future__ import annotations

from typing import Final

LOW_BITS: Final = 60
"""An integer of so many bits takes 32 octets of memory, and one of 64 bits 48."""

_LOW: Final = (1 << LOW_BITS) - 1

_TABLES: Final = 1 << 64 - LOW_BITS

NONE_NEWEST: Final = -1
"""Stands for the number of the newest message of a key without any."""


class NewestByKey:
    """Numbers of messages by key, which is a digest of 64 bits. The highest bits of the key choose one of
    several tables, so that the table has a smaller integer.
    """

    __slots__ = ("_tables",)

    def __init__(self) -> None:
        self._tables: list[dict[int, int]] = [{} for _ in range(_TABLES)]

    def __len__(self) -> int:
        """The number of keys."""
        return sum(map(len, self._tables))

    def get(self, key: int) -> int:
        """The newest message of a key; NONE_NEWEST without one."""
        return self._tables[key >> LOW_BITS].get(key & _LOW, NONE_NEWEST)

    def set(self, key: int, number: int) -> None:
        """Let a message be the newest of a key."""
        self._tables[key >> LOW_BITS][key & _LOW] = number

    def remove(self, key: int) -> None:
        """Forget a key, which has a newest message."""
        del self._tables[key >> LOW_BITS][key & _LOW]
