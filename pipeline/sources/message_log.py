"""Logs of messages, which jobs read: cut into pieces, each of which one task reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

Run = Callable[[Callable[[_Task], _Result], Sequence[_Task]], Iterable[_Result]]
"""Runs a function over tasks, here or elsewhere: as `map` does."""


class MessageLog(NamedTuple):
    """Messages in one order. `key` names the log among all of a source, and is another one where the log is
    made anew; `name` is that of the queue, for people.
    """

    key: str
    name: str


class Piece(NamedTuple):
    """A part of a log, from the position `first` on and in front of `end`. Positions ascend, and are below
    2^63. `rows` are the messages, as far as they are known before the piece is read. `place` has what
    the source needs to read it.
    """

    log: MessageLog
    first: int
    end: int
    rows: int
    place: tuple[Any, ...]


Rows = dict[str, list[Any]]
"""Messages as columns of values."""


class MessageSource(Protocol):
    """Has logs. A source goes to executors, and has no password."""

    def logs(self) -> Sequence[MessageLog]:
        """The logs that are to be read."""

    def pieces(self, log: MessageLog, after: int | None, rows: int) -> Iterator[Piece]:
        """The pieces of a log from the position `after` on, or from its begin: each of about `rows` messages
        at most. The end is fixed by the first piece.
        """

    def read(self, piece: Piece, columns: Sequence[str]) -> Iterator[Rows]:
        """The messages of a piece, in their order."""


def in_turn(work: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> Iterable[_Result]:
    """Run tasks in this process, one by one."""
    return map(work, tasks)


def batches_of(pieces: Iterable[Piece], rows: int) -> Iterator[list[Piece]]:
    """Pieces in batches of so many messages: a batch gets no further piece from then on."""
    batch: list[Piece] = []
    found = 0
    for piece in pieces:
        batch.append(piece)
        found += piece.rows
        if found >= rows:
            yield batch
            batch, found = [], 0
    if batch:
        yield batch
