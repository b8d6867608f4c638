"""The owners that wait for loans of one part of a queue, and what they are told. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

NO_LOAN: Final = (0, 0)
"""The answer to a question that is taken back: number and messages, as of a loan."""

NOTHING_MORE: Final = 0
"""In the place of the room: the owner takes its question back."""

UNFILTERED: Final = b""
"""The owner asks for any messages."""

FilterAt = tuple[int, bytes]
"""A partition, or the front end that stands for it, and the octets of a filter."""


class Borrower(NamedTuple):
    """The owner of `partition` has room for `wanted` messages in its part `queue`."""

    request: int
    partition: int
    queue: int
    wanted: int
