"""Cuts the messages of a stream, or of a take, out of the log of any replica, as blocks (docs/log-api.md), in
steps of a bounded size. Pure.

A position is a number: the messages of a stream in front of a position are those with lower numbers. A range
is everything between two positions. All messages in front of the *stable end* are there for good, and no
message comes between them any more: messages that a transaction withholds are behind it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from cluster.owner.walking import EntriesGoneError
from node.message.run import Run
from node.queue.block_format import MESSAGES_BLOCK, encode_block, encode_block_run, encode_stored_run
from node.queue.entry_format import Buffer, read_batches, read_run
from node.queue.entry_scan import publishes_in
from node.queue.filtering import Looking
from node.queue.operations import Aspect
from node.queue.partition import PartitionMachine
from node.queue.queue import QueueState
from node.queue.subscriptions import Subscriptions
from node.ranges.range_map import Span
from node.ranges.range_set import Range, RangeSet
from replication.journal import PartitionLog
from replication.raft import Entry

READ_OCTETS: Final = 128 * 1024
"""Octets of entries that a step reads, unless one entry has more."""

READ_ENTRIES: Final = 256
"""Entries that a step reads at most."""

BLOCK_OCTETS: Final = 256 * 1024
"""A block of so many octets gets no further message."""

STEPS_AT_ONCE: Final = 2000
"""Steps in which a selector looks at messages before the work may be interrupted: a millisecond or so."""

LOOKED_AT: Final = 32
"""Publishes that are looked at before the work may be interrupted."""


class PositionGoneError(Exception):
    """Retention has passed a position. `oldest` is the number of the oldest message, None without any. At
    most `lost` messages behind the position are gone; as many as that where it is `exact`.
    """

    def __init__(self, oldest: int | None, lost: int, exact: bool) -> None:
        super().__init__(f"the oldest message is {oldest}")
        self.oldest, self.lost, self.exact = oldest, lost, exact


class TakeOverError(Exception):
    """A take is committed, or has ended."""


class NotAppliedError(Exception):
    """The replica has not applied everything in front of the range's end yet."""


def stable_end(machine: PartitionMachine, state: QueueState) -> int:
    """The position in front of which no message comes any more."""
    withheld = state.withheld.front()
    return machine.next_sequence if withheld is None else withheld[0]


class NamedTake(NamedTuple):
    """The number of a take of a queue's reader."""

    reader: bytes
    number: int


def taken_messages(machine: PartitionMachine, queue: int, take: NamedTake, first: int, end: int) -> RangeSet:
    """The messages of a take from one position to another. Raises NotAppliedError where the replica does not
    know the take, and TakeOverError.
    """
    state = machine.queues.get(queue)
    if state is None or state.takes is None:
        raise NotAppliedError
    reader = state.takes.readers.get(take.reader)
    if take.number > (state.takes.released_upto if reader is None else reader.last):
        raise NotAppliedError
    held = None if reader is None else reader.held.get(take.number)
    if held is None:
        raise TakeOverError
    return RangeSet(state.alive.intersections(held.messages.intersection(first, end - 1)))


def check_there(
    machine: PartitionMachine, state: QueueState, position: int, count: int | None = None
) -> None:
    """Raises PositionGoneError where retention has passed messages behind the position, of which
    `count_before` was `count`.

    The mark of a stream, which no reader leases messages of, is the last number that retention has passed.
    """
    oldest = state.alive.first
    if position <= state.mark and position < (machine.next_sequence if oldest is None else oldest):
        known = state.subscriptions or Subscriptions()
        most = known.most_lost(max(0, position - 1), state.mark)
        lost = 0 if count is None else known.passed - count
        exact = 0 < lost <= most
        raise PositionGoneError(oldest, lost if exact else most, exact)


def count_before(state: QueueState, position: int) -> int:
    """The messages of a stream in front of a position that is not gone, with those that retention has
    removed. The number stays what it is, wherever retention comes to, and over failovers.
    """
    passed = 0 if state.subscriptions is None else state.subscriptions.passed
    return passed + (state.alive.count_in(0, position - 1) if position else 0)


class Wanted(NamedTuple):
    """The rows of the entries that one step reads, and which messages of a queue are wanted of them: (first,
    last, time) in milliseconds since the epoch. `next` is the position to go on at.
    """

    queue: int
    rows: list[int]
    spans: list[Span]
    next: int


class LogStep(NamedTuple):
    """Entries that were read, and the rest as in `Wanted`."""

    queue: int
    entries: list[Entry]
    spans: list[Span]
    next: int


def wanted_of_stream(
    machine: PartitionMachine, log: PartitionLog, queue: int, first: int, end: int
) -> Wanted:
    """The first entries with messages of a stream in the range. Raises PositionGoneError, NotAppliedError and
    EntriesGoneError.
    """
    state = machine.queues.get(queue)
    if state is None or end > stable_end(machine, state):
        raise NotAppliedError
    if first >= end:
        return Wanted(queue, [], [], end)
    check_there(machine, state, first)
    return _wanted(machine, log, queue, state.alive, first, end)


def wanted_of_take(
    machine: PartitionMachine, log: PartitionLog, queue: int, take: NamedTake, first: int, end: int
) -> Wanted:
    """As `wanted_of_stream`, of the messages of a take. Raises NotAppliedError, TakeOverError and
    EntriesGoneError.
    """
    messages = taken_messages(machine, queue, take, first, end)
    return _wanted(machine, log, queue, messages, first, end) if messages else Wanted(queue, [], [], end)


def read_wanted(log: PartitionLog, wanted: Wanted) -> LogStep:
    """Read the entries, past the cache of the journal. Raises DamagedEntryError."""
    return LogStep(wanted.queue, log.read(wanted.rows, keep=False), wanted.spans, wanted.next)


def read_step(machine: PartitionMachine, log: PartitionLog, queue: int, first: int, end: int) -> LogStep:
    """The first entries with messages of a stream in the range: as many as one step reads.

    Raises PositionGoneError, NotAppliedError, EntriesGoneError and DamagedEntryError.
    """
    return read_wanted(log, wanted_of_stream(machine, log, queue, first, end))


def read_taken(
    machine: PartitionMachine, log: PartitionLog, queue: int, take: NamedTake, first: int, end: int
) -> LogStep:
    """As `read_step`, of the messages of a take. Raises NotAppliedError, TakeOverError, EntriesGoneError and
    DamagedEntryError.
    """
    return read_wanted(log, wanted_of_take(machine, log, queue, take, first, end))


def _wanted(
    machine: PartitionMachine, log: PartitionLog, queue: int, messages: RangeSet, first: int, end: int
) -> Wanted:
    rows, behind = _rows_with(machine, log, messages, first, end)
    parts = messages.intersection(first, behind - 1)
    arrivals = machine.queues[queue].annotations.get(Aspect.ARRIVAL)
    spans: list[Span] = []
    for part in parts:
        spans += [(*part, 0)] if arrivals is None else arrivals.cover(*part)
    # The next message that is there now: retention may pass all in front of it before the next step.
    following = messages.range_from(behind)
    go_on = end if following is None else min(end, max(behind, following[0]))
    return Wanted(queue, rows, spans, go_on)


def _rows_with(
    machine: PartitionMachine, log: PartitionLog, messages: RangeSet, first: int, end: int
) -> tuple[list[int], int]:
    """The rows of the entries to read in one step, and the position behind them."""
    rows: list[int] = []
    table, octets, at = log.table, 0, first
    while len(rows) < READ_ENTRIES:
        part = messages.range_from(at)
        if part is None or max(part[0], at) >= end:
            return rows, end
        at = max(part[0], at)
        index = machine.locate(at)
        row = table.find(index)
        if row < 0:
            raise EntriesGoneError(f"entry {index} is gone")
        octets += table.lengths[row]
        if rows and octets > READ_OCTETS:
            break
        rows.append(row)
        at = machine.first_behind(index)
    return rows, min(at, end)


def cut_blocks(step: LogStep, looking: Looking | None = None) -> Iterator[bytes | None]:
    """The blocks of a step. None: no block is ready, and the work may be interrupted.

    looking: only messages that its selector takes come into blocks. A step without such messages has an empty
    block, which tells how far the reading has come.
    """
    making, looked_at, at, spans = BlockMaking(step.queue), 0, 0, step.spans
    for entry in step.entries:
        data = memoryview(entry.data)
        for batch in read_batches(data):
            for start, count, offset, behind in publishes_in(data, batch):
                looked_at += 1
                if looked_at % LOOKED_AT == 0:
                    yield None
                while at < len(spans) and spans[at][1] < start:
                    at += 1
                if at == len(spans) or spans[at][0] >= start + count:
                    continue
                first, last, time_ms = spans[at]
                whole = first <= start and start + count <= last + 1
                if whole and looking is None and behind - offset <= BLOCK_OCTETS:
                    if making.full(behind - offset):
                        yield making.block(start)
                    parts = encode_stored_run(start, time_ms, data, offset, behind)
                    making.add(start, count, behind - offset, parts)
                    continue
                pieces = _pieces(data, offset, start, count, spans, at)
                for first, time_ms, run in pieces if looking is None else matching_pieces(pieces, looking):
                    if not run.count:
                        yield None
                        continue
                    if making.full(len(run.raw)):
                        yield making.block(first)
                    making.add(first, run.count, len(run.raw), encode_block_run(first, time_ms, run))
    if making.messages or looking is not None:
        yield making.block(step.next)


def matching_pieces(
    pieces: Iterable[tuple[int, int, Run]], looking: Looking
) -> Iterator[tuple[int, int, Run]]:
    """The parts of pieces that a selector takes. After about `STEPS_AT_ONCE` each comes an empty run, where
    the work may be interrupted.
    """
    for first, time_ms, piece in pieces:
        at = 0
        while at < piece.count:
            rest = piece.slice(at, min(piece.count - at, max(1, STEPS_AT_ONCE // looking.message_steps)))
            some = rest.slice(0, looking.within(rest, STEPS_AT_ONCE))
            for low, high in looking.look(first + at, some)[0]:
                yield low, time_ms, some.slice(low - first - at, high - low + 1)
            at += some.count
            yield first + at, time_ms, piece.slice(0, 0)


def _pieces(
    data: Buffer, offset: int, start: int, count: int, spans: list[Span], at: int
) -> Iterator[tuple[int, int, Run]]:
    """The wanted parts of the publish at `offset`, none larger than a block unless it is one message: each
    with its first number and its time.
    """
    whole = read_run(data, offset)
    lengths = whole.each_length()
    while at < len(spans) and spans[at][0] < start + count:
        low, high, time_ms = spans[at]
        low, high = max(low, start), min(high, start + count - 1)
        for first, last in within_blocks(lengths, low - start, high - start):
            yield start + first, time_ms, whole.slice(first, last - first + 1)
        at += 1


def within_blocks(lengths: array[int], first: int, last: int) -> Iterator[Range]:
    """Divides messages, whose lengths these are, so that the parts fit into blocks."""
    octets, begin = 0, first
    for index in range(first, last + 1):
        octets += lengths[index]
        if octets > BLOCK_OCTETS and index > begin:
            yield begin, index - 1
            octets, begin = lengths[index], index
    yield begin, last


class BlockMaking:
    """A block that is being made."""

    def __init__(self, queue: int) -> None:
        self._queue = queue
        self._parts: list[Buffer] = []
        self._first = self._octets = self.messages = 0

    def full(self, octets: int) -> bool:
        """Whether so many octets of messages need another block."""
        return bool(self._parts) and self._octets + octets > BLOCK_OCTETS

    def add(self, first: int, count: int, octets: int, parts: list[Buffer]) -> None:
        """Add a run of `count` messages, the first of which has the number `first`."""
        self._first = self._first or first
        self._parts += parts
        self._octets += octets
        self.messages += count

    def block(self, next: int) -> bytes:
        """The block, of all that was added; begins another one."""
        made = encode_block(
            self._queue, self._first, next, self._parts, kind=MESSAGES_BLOCK, messages=self.messages
        )
        self._parts = []
        self._first = self._octets = self.messages = 0
        return made
