"""The owners that wait for loans of one part of a queue, and what they are told. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

NO_LOAN: Final = (0, 0)
"""The answer to a question that is taken back: number and messages, as of a loan."""


class Borrower(NamedTuple):
    """The owner of `partition` has room for `wanted` messages in its part `queue`."""

    request: int
    partition: int
    queue: int
    wanted: int
