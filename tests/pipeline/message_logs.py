"""A source of messages in memory, for the tests of jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.message.runs import bookmark_of
from pipeline.sources.message_log import MessageLog, Piece, Rows

KEYS = ("a.b.c", "a.x.c", "a", "")


class Numbered:
    """Logs by name with so many messages: a message's number is its body, and its position."""

    def __init__(self, **counts: int) -> None:
        self.counts = counts

    def logs(self) -> list[MessageLog]:
        return [MessageLog(f"key of {name}", name) for name in self.counts]

    def pieces(self, log: MessageLog, after: int | None, rows: int) -> Iterator[Piece]:
        for first in range(after or 0, end := self.counts[log.name], rows):
            yield Piece(log, first, min(first + rows, end), min(rows, end - first), ())

    def read(self, piece: Piece, columns: Sequence[str]) -> Iterator[Rows]:
        numbers = range(piece.first, piece.end)
        values: dict[str, list[Any]] = {
            "bookmark": [bookmark_of(1, number) for number in numbers],
            "queue": [piece.log.name] * len(numbers),
            "time": [None if number % 7 == 0 else number * 1000 for number in numbers],
            "routing_key": [KEYS[number % len(KEYS)] for number in numbers],
            "raw": [b"%d" % number for number in numbers],
        }
        yield {name: values[name] for name in columns}
