"""A journal on a simulated disk, next to the simplest model of what it must hold.

The journal's records take effect in the order in which they were staged. After a crash it must
therefore be in the state that it had after some record: not before the last batch that was durable,
and in no state that it never had. The model keeps every state since then.
"""

from __future__ import annotations

import contextlib
import random
import zlib
from dataclasses import dataclass, field

from replication.journal import Journal, JournalConfig, WriteBatch
from replication.journal.records import (
    CRC,
    RECORD_BODY,
    RECORD_BYTES,
    RECORD_MARK,
    RECORD_VERSION,
    RecordKind,
    seed_of,
)
from replication.raft.types import Entry, EntryKind, HardState, Membership, Snapshot
from tests.simulation.disk import PowerLost, SimulatedDisk

MEMBERS = Membership(frozenset(("a", "b", "c")))
NEEDED_END = b"|"


def rewrite(partition: int, entry: Entry) -> bytes | None:
    """Leave out what stands behind the bar."""
    needed, bar, rest = entry.data.partition(NEEDED_END)
    return needed + bar if rest else None


def forged_record(segment: int, batch_start: int, partition: int = 0, kind: int = RecordKind.ENTRY) -> bytes:
    """A record as a client can forge it by the format, with 4 octets of payload."""
    body = RECORD_BODY.pack(RECORD_MARK, segment, RECORD_VERSION, kind, 0, 4, batch_start, 1, partition, 1, 1)
    body += bytes(4)
    return CRC.pack(zlib.crc32(body, seed_of(segment))) + body


def needed(data: bytes) -> bytes:
    return data.partition(NEEDED_END)[0]


@dataclass
class ModelPartition:
    """The state that the journal must have of one partition. `entries` are those in the log and those that
    are live.
    """

    term: int = 0
    vote: str | None = None
    commit: int = 0
    snapshot: Snapshot | None = None
    entries: dict[int, Entry] = field(default_factory=dict)

    @property
    def start(self) -> int:
        return self.snapshot.index if self.snapshot is not None else 0

    @property
    def last(self) -> int:
        return max(self.entries, default=0) if max(self.entries, default=0) > self.start else self.start

    def last_term(self) -> int:
        if self.last > self.start:
            return self.entries[self.last].term
        return self.snapshot.term if self.snapshot is not None else 0

    def state(self) -> object:
        """Comparable, without the commit index, and without what collection may have left out."""
        entries = tuple(
            (index, entry.term, entry.kind, entry.data if index > self.start else needed(entry.data))
            for index, entry in sorted(self.entries.items())
        )
        return self.term, self.vote, self.snapshot, entries

    def copy(self) -> ModelPartition:
        return ModelPartition(self.term, self.vote, self.commit, self.snapshot, dict(self.entries))


EMPTY = ModelPartition().state()


class ModelledJournal:
    """Applies every operation to both, and compares them."""

    def __init__(self, seed: int, config: JournalConfig) -> None:
        self.chance = random.Random(seed)
        self.disk = SimulatedDisk(self.chance)
        self.config = config
        self.model: dict[int, ModelPartition] = {}
        self.received: dict[int, dict[int, Entry]] = {}
        """Entries that a leader streamed and whose snapshot has not been installed yet: no part of any state,
        and lost in a crash.
        """
        self.history: list[dict[int, ModelPartition]] = [{}]
        self.durable = 0
        self.in_flight: tuple[WriteBatch, int] | None = None
        self.journal = Journal.open(self.disk, config, rewrite)
        self.counter = 0

    # -- operations -----------------------------------------------------------------------------

    def append(self, partition: int, back: int, sizes: list[int], new_term: bool) -> None:
        """Append entries, in place of the last `back` ones."""
        model = self._partition(partition)
        first = max(model.start + 1, model.last + 1 - back)
        before = model.entries[first - 1].term if first - 1 > model.start else 0
        if first - 1 == model.start and model.snapshot is not None:
            before = model.snapshot.term
        term = max(before, model.last_term() if back else 0) + new_term
        entries = [
            Entry(first + i, term, EntryKind(i % 7 == 6), self._data(size)) for i, size in enumerate(sizes)
        ]
        for index in range(first, model.last + 1):
            del model.entries[index]
        for entry in entries:
            model.entries[entry.index] = entry
            for index in [index for index in model.entries if index > entry.index]:
                del model.entries[index]
            self._remember()
        self.received.pop(partition, None)
        self.journal.log(partition).append(entries)

    def set_hard_state(self, partition: int, term: int, vote: str | None, commit: int) -> None:
        model = self._partition(partition)
        model.term, model.vote, model.commit = term, vote, commit
        self._remember()
        self.journal.log(partition).set_hard_state(HardState(term, vote, commit))

    def compact(self, partition: int, back: int, share: float) -> None:
        """Take a snapshot `back` entries before the end; about `share` of what is before it stays."""
        model = self._partition(partition)
        index = max(model.start, model.last - back)
        term = model.entries[index].term if index > model.start else self.journal.log(partition).term(index)
        alive = [i for i in sorted(model.entries) if i <= index and self.chance.random() < share]
        snapshot = Snapshot(index, term, MEMBERS, self._data(self.chance.choice((0, 10, 300))))
        model.snapshot = snapshot
        model.entries = {i: e for i, e in model.entries.items() if i > index or i in alive}
        self._remember()
        self.journal.log(partition).compact(snapshot, [(i, i) for i in alive])

    def receive(self, partition: int, ahead: int, sizes: list[int]) -> None:
        """Take a chunk of a leader's stream, from `ahead` indexes behind the chunk before on."""
        received = self.received.setdefault(partition, {})
        first, term = max(received, default=0) + ahead, self._partition(partition).last_term() + 1
        entries = [
            Entry(first + i, term, EntryKind(i % 7 == 6), self._data(size)) for i, size in enumerate(sizes)
        ]
        received.update((entry.index, entry) for entry in entries)
        self.journal.log(partition).receive(entries)

    def abandon(self, partition: int) -> None:
        """The stream ends without its snapshot."""
        self.received.pop(partition, None)
        self.journal.log(partition).abandon()

    def install(self, partition: int, ahead: int) -> None:
        """Install a leader's snapshot `ahead` entries behind the end, with what was received."""
        model = self._partition(partition)
        received = self.received.pop(partition, {})
        index, term = max(1, model.last + ahead, *received), model.last_term() + 1
        snapshot = Snapshot(index, term, MEMBERS, self._data(20))
        model.snapshot = snapshot
        model.entries = received
        self._remember()
        self.journal.log(partition).install(snapshot)

    def drop(self, partition: int) -> None:
        self.model.pop(partition, None)
        self.received.pop(partition, None)
        self._remember()
        self.journal.drop(partition)

    def collect(self, budget: int) -> None:
        self.journal.collect(budget)

    def take(self) -> None:
        """Hand a batch to the writer, which has not begun with it."""
        if self.in_flight is None:
            batch = self.journal.take_batch()
            if batch is not None:
                self.in_flight = (batch, len(self.history) - 1)

    def finish(self) -> None:
        """Let the writer finish the batch that it has."""
        if self.in_flight is not None:
            batch, upto = self.in_flight
            batch.write()
            self.journal.complete(batch)
            self.in_flight = None
            self.durable = upto

    def commit(self) -> None:
        """Make everything durable and recycle everything that is free."""
        self.finish()
        self.take()
        while self.in_flight is not None:
            self.finish()
            self.take()

    def crash(self, operations: int | None, power: bool) -> None:
        """Stop after so many disk operations of a commit (None: between two batches), and recover.

        Recovery is itself interrupted now and then.
        """
        if operations is not None:
            self.disk.stop_after = operations
            with contextlib.suppress(PowerLost):
                self.commit()
        self._stop(power)
        while True:
            self.disk.stop_after = self.chance.choice((None, None, 0, 1, 2, 3))
            try:
                self.journal = Journal.open(self.disk, self.config, rewrite)
                break
            except PowerLost:
                self._stop(self.chance.random() < 0.5)
        self.disk.stop_after = None
        self.in_flight = None
        self.received = {}
        self._recovered()

    # -- comparison -----------------------------------------------------------------------------

    def check(self) -> None:
        """The journal reads as the model says."""
        assert self._actual() == _state(self.model)
        for partition in self.journal.partitions():
            log, model = self.journal.log(partition), self._partition(partition)
            assert log.hard_state() == HardState(model.term, model.vote, model.commit)
            assert (log.first_index(), log.last_index()) == (model.start + 1, model.last)
            assert [i for low, high in log.live() for i in range(low, high + 1)] == [
                i for i in sorted(model.entries) if i <= model.start
            ]
            assert log.term(log.last_index()) == model.last_term()
            entries = log.entries(log.first_index(), log.last_index() + 1, 1 << 30)
            assert [entry.index for entry in entries] == list(range(model.start + 1, model.last + 1))

    def check_accounts(self) -> None:
        """With nothing staged, each segment's figures are what its living records add up to."""
        expected = {number: [0, 0] for number in self.journal._segments}
        for log in self.journal._logs.values():
            log.table.tally(0, len(log.table), expected)
            log.received.tally(0, len(log.received), expected)
            for place in (log.hard_state_place, log.snapshot_place):
                if place is not None:
                    expected[place.segment][0] += 1
                    expected[place.segment][1] += place.length
        for dropped in self.journal._dropped.values():
            expected[dropped.place.segment][0] += 1
            expected[dropped.place.segment][1] += dropped.place.length
        assert expected == {
            number: [segment.live_records, segment.live_bytes]
            for number, segment in self.journal._segments.items()
        }
        names = {segment.name for segment in self.journal._segments.values() if segment.tail > 512}
        assert names <= set(self.disk.names())

    def _actual(self) -> dict[int, object]:
        state: dict[int, object] = {}
        for partition in self.journal.partitions():
            log = self.journal.log(partition)
            hard_state, snapshot = log.hard_state(), log.snapshot()
            indexes = list(log.table.indexes)
            entries = {entry.index: entry for entry in log.entries_at(indexes)}
            assert list(entries) == indexes
            found = ModelPartition(
                hard_state.term, hard_state.vote, hard_state.commit, snapshot, entries
            ).state()
            if found != EMPTY:
                state[partition] = found
        return state

    def _recovered(self) -> None:
        actual = self._actual()
        candidates = self.history[self.durable :]
        matching = [model for model in candidates if _state(model) == actual]
        assert matching, f"recovered a state that never was, or lost what was durable: {actual}"
        self.model = {partition: model.copy() for partition, model in matching[-1].items()}
        for partition in self.journal.partitions():
            model = self._partition(partition)
            hard_state = self.journal.log(partition).hard_state()
            assert hard_state.commit <= model.last
            model.commit = hard_state.commit
        self.history = [{}]
        self._remember()
        self.durable = 1

    # -- parts ----------------------------------------------------------------------------------

    def _partition(self, partition: int) -> ModelPartition:
        return self.model.setdefault(partition, ModelPartition())

    def _remember(self) -> None:
        self.history.append({partition: model.copy() for partition, model in self.model.items()})

    def _data(self, size: int) -> bytes:
        self.counter += 1
        head = b"%d:" % self.counter
        body = bytes([65 + self.counter % 26]) * size
        if size >= RECORD_BYTES and self.chance.random() < 0.3:
            body = self._looks_like_records(size)
        cut = self.chance.randint(0, size)
        return head + body[:cut] + NEEDED_END + body[cut:]

    def _looks_like_records(self, size: int) -> bytes:
        """A part of this journal as it is on disk, or what a client makes of what is known of the format."""
        segment = self.journal._stage.active
        if self.chance.random() < 0.5 and segment.name in self.disk.names():
            content = self.disk.content(segment.name)
            start = self.chance.randrange(len(content))
            return content[start : start + size].ljust(size, b".")
        return forged_record(segment.number, self.chance.randrange(1 << 32)).ljust(size, b".")

    def _stop(self, power: bool) -> None:
        if power:
            self.disk.lose_power()
        else:
            self.disk.kill_process()


def _state(model: dict[int, ModelPartition]) -> dict[int, object]:
    return {key: value.state() for key, value in model.items() if value.state() != EMPTY}
