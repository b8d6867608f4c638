"""Journals of several nodes as logs of messages: a log is a partition, and has what was published there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from pipeline.journal.damage import FAIL
from pipeline.journal.kinds import OpKind
from pipeline.journal.layout import Record
from pipeline.journal.operations import Operation, Publish, batches_in, operations_in
from pipeline.journal.raft import NORMAL
from pipeline.journal.rows import MessageRow
from pipeline.journal.segments import Segment
from pipeline.journal.states import Key
from pipeline.journal.tables import messages_of_entry
from pipeline.message.batches import BATCH_OCTETS, BATCH_ROWS
from pipeline.octets.cursor import MalformedError
from pipeline.octets.ranges import Numbers
from pipeline.sources.committed import (
    Committed,
    CommittedEntry,
    Journals,
    committed_in,
    content_error,
    records_of,
)
from pipeline.sources.message_log import MessageLog, Piece, Rows, Run, in_turn

PIECE_ENTRIES: Final = 256
"""The entries of a piece at most."""

_NO_NAMES: Final[Mapping[int, str]] = {}

Withheld = tuple[int, int, int]
"""A queue, and the first and the last of its messages that a transaction withholds."""


class Survey(NamedTuple):
    """A stretch of entries: messages by entry, and shares of transactions that it prepares or concludes."""

    rows: dict[int, int]
    prepared: dict[Key, tuple[int, list[Withheld]]]
    concluded: dict[Key, bool]


class JournalMessages:
    """The messages in the committed entries of journals. A position is a log index. Messages of transactions
    are read where these are committed, and none behind a transaction that is not decided.

    Methods raise OptionError, EntryGoneError, DamageError, OSError.
    """

    def __init__(
        self,
        journals: Journals,
        on_damage: str = FAIL,
        run: Run[Any, Any] = in_turn,
        names: Mapping[int, str] = _NO_NAMES,
    ) -> None:
        """`names` of queues by number go before those that the catalog tells."""
        self._journals, self._on_damage = [list(one) for one in journals], on_damage
        self._run: Run[Any, Any] = run
        self._names = dict(names)
        self._known: Committed | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tasks read pieces alone, and are told where these are."""
        return {
            "_journals": self._journals,
            "_on_damage": self._on_damage,
            "_run": None,
            "_known": None,
            "_names": {},
        }

    @property
    def _committed(self) -> Committed:
        if self._known is None:
            self._known = committed_in(self._journals, self._on_damage, self._run, self._names)
        return self._known

    def logs(self) -> list[MessageLog]:
        """See `MessageSource`."""
        return [
            MessageLog(f"partition {number}", f"partition {number}") for number in self._committed.entries
        ]

    def pieces(self, log: MessageLog, after: int | None, rows: int) -> Iterator[Piece]:
        """See `MessageSource`. A piece has one entry at least."""
        number = int(log.key.removeprefix("partition "))
        entries = self._committed.entries[number]
        chunks = [entries[at : at + PIECE_ENTRIES] for at in range(0, len(entries), PIECE_ENTRIES)]
        survey = _joined(self._run(partial(survey_of, self._journals), chunks))
        end, aborted = _visible(survey, self._committed.known[number])
        first = max(after or 0, entries[0].log_index if entries else 0)
        wanted = [one for one in entries if first <= one.log_index < end]
        for part in _parts(wanted, survey.rows, rows):
            last, found = part[-1].log_index + 1, sum(survey.rows[one.log_index] for one in part)
            yield Piece(log, first, last, found, (part, aborted, self._committed.names))
            first = last

    def read(self, piece: Piece, columns: Sequence[str]) -> Iterator[Rows]:
        """See `MessageSource`. Queues that no snapshot of the catalog names have their numbers."""
        records, gone, names = self.records(piece)
        rows = _rows(records, frozenset(columns))
        visible = (one for one in rows if not _within(gone.get(one.queue), one.sequence))
        while batch := _taken(visible):
            found: Rows = {name: [getattr(one, name) for one in batch] for name in columns}
            if "queue" in found:
                found["queue"] = [names.get(number, str(number)) for number in found["queue"]]
            yield found

    def records(
        self, piece: Piece
    ) -> tuple[Iterator[tuple[Segment, Record]], dict[int, Numbers], dict[int, str]]:
        """The records of a piece, the messages in them that never came, by queue, and the names of queues."""
        entries, aborted, names = piece.place
        gone = {queue: Numbers(ranges) for queue, ranges in aborted.items()}
        return records_of(self._journals, entries), gone, names


def _taken(rows: Iterator[MessageRow]) -> list[MessageRow]:
    """The next rows; fewer where bodies are large."""
    batch, octets = list[MessageRow](), 0
    for row in islice(rows, BATCH_ROWS):
        batch.append(row)
        octets += len(row.raw or row.body or b"")
        if octets >= BATCH_OCTETS:
            break
    return batch


def _within(numbers: Numbers | None, number: int) -> bool:
    return numbers is not None and bool(numbers.within(number, number))


def _rows(records: Iterable[tuple[Segment, Record]], wanted: frozenset[str]) -> Iterator[MessageRow]:
    for segment, record in records:
        if record.entry_kind == NORMAL:
            try:
                yield from messages_of_entry(segment, record, wanted)
            except MalformedError as error:
                raise content_error(segment, record, error) from error


def _parts(
    entries: Sequence[CommittedEntry], sizes: dict[int, int], rows: int
) -> Iterator[list[CommittedEntry]]:
    part, found = list[CommittedEntry](), 0
    for entry in entries:
        if part and (found + sizes[entry.log_index] > rows or len(part) == PIECE_ENTRIES):
            yield part
            part, found = [], 0
        part.append(entry)
        found += sizes[entry.log_index]
    if part:
        yield part


# -- transactions -----------------------------------------------------------------------------------


def survey_of(journals: Journals, entries: Sequence[CommittedEntry]) -> Survey:
    """Look through a stretch of entries. Raises EntryGoneError, DamageError, OSError."""
    found = Survey({}, {}, {})
    for entry, (segment, record) in zip(entries, records_of(journals, entries), strict=True):
        found.rows[entry.log_index] = 0
        if record.entry_kind == NORMAL:
            try:
                _look(found, entry.log_index, record.data)
            except MalformedError as error:
                raise content_error(segment, record, error) from error
    return found


def _look(found: Survey, index: int, data: bytes) -> None:
    for batch in batches_in(data):
        for operation in operations_in(data, batch.start, batch.end):
            if isinstance(operation, Publish):
                found.rows[index] += operation.messages * len(operation.queues)
            elif isinstance(operation, Operation) and operation.kind in (OpKind.PREPARED, OpKind.CONCLUDE):
                key = operation.fields["front_end"], operation.fields["number"]
                if operation.kind == OpKind.PREPARED:
                    found.prepared[key] = index, operation.fields["published"]
                else:
                    found.concluded[key] = operation.fields["committed"]


def _joined(surveys: Iterable[Survey]) -> Survey:
    found = Survey({}, {}, {})
    for one in surveys:
        found.rows.update(one.rows)
        found.prepared.update(one.prepared)
        found.concluded.update(one.concluded)
    return found


def _visible(survey: Survey, known: int) -> tuple[int, dict[int, list[tuple[int, int]]]]:
    """Where the entries end that can be read, and the messages by queue that never came.

    A transaction without a conclusion in front of a gap has one there: entries go after their effect.
    """
    gap = max((index for index in survey.rows if index - 1 not in survey.rows), default=0)
    end, aborted = known + 1, dict[int, list[tuple[int, int]]]()
    for key, (index, withheld) in survey.prepared.items():
        if key not in survey.concluded:
            end = min(end, index) if index >= gap else end
        elif not survey.concluded[key]:
            for queue, first, last in withheld:
                aborted.setdefault(queue, []).append((first, last))
    return end, aborted
