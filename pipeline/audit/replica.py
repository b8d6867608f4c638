"""Follows one partition through the journal of one node: which entries it had, and which are certainly
committed (docs/journal-format.md, "The log of a partition").

Segments are freed in any order. So an entry that a former record holds may have been superseded by a record
that is gone. An entry counts as committed in two cases: the log has it in the end, up to the commit index; or
a commit index or a snapshot covers it in the same stretch of segments, in which none is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

from pipeline.audit.verdict import Place, Promise, Verdict
from pipeline.journal.layout import Kind, Record
from pipeline.journal.operations import Publish, batches_in, operations_in
from pipeline.journal.raft import NORMAL, SnapshotBody, snapshot_in, vote_in
from pipeline.message.runs import messages_of
from pipeline.octets.cursor import MalformedError, Range
from pipeline.octets.ranges import Numbers

_DIGEST: Final = 12
CATALOG: Final = 0


class Copy(NamedTuple):
    """A record with an entry. `reduced`: it may have only the messages of the entry that are alive."""

    term: int
    kind: int
    digest: bytes
    place: Place
    reduced: bool

    def same(self, other: Copy) -> bool:
        """Whether both can be copies of one entry."""
        if (self.term, self.kind) != (other.term, other.kind):
            return False
        return self.reduced or other.reduced or self.digest == other.digest


class Taken(NamedTuple):
    """A snapshot as it stands in a record, after the entry `upto`."""

    upto: int
    term: int
    digest: bytes
    place: Place


def digest_of(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST).digest()


@dataclass(slots=True)
class Log:
    """The log of one generation, after the records so far. `stretch`: entries that no missing segment can
    have superseded. `received`: entries by installation that are not in the log yet.
    """

    generation: int
    entries: dict[int, Copy] = field(default_factory=dict)
    stretch: dict[int, Copy] = field(default_factory=dict)
    received: dict[int, dict[int, Copy]] = field(default_factory=dict)
    last: int = 0
    commit: int = 0
    installation: int = 0
    snapshot: Taken | None = None
    live: list[Range] = field(default_factory=list)
    votes: dict[int, str] = field(default_factory=dict)

    def cut(self, last: int) -> None:
        """Let go of the entries behind an index."""
        for index in range(last + 1, self.last + 1):
            self.entries.pop(index, None)
            self.stretch.pop(index, None)
        self.last = min(self.last, last)


class Replica:
    """One partition on one node. `committed`: the entries that are certainly committed. `snapshots`: the
    states that the journal has, by index.
    """

    def __init__(self, node: str, partition: int, verdict: Verdict) -> None:
        self.node = node
        self.partition = partition
        self.committed: dict[int, Copy] = {}
        self.snapshots: dict[int, Taken] = {}
        self.known = 0
        """The highest index that is known to be committed."""
        self._verdict = verdict
        self._log: Log | None = None
        self._dropped = 0
        self._covered = 0

    def take(self, record: Record, place: Place) -> None:
        """Take the next record of the journal. Raises MalformedError."""
        if record.kind == Kind.DROP:
            self._drop(record.generation)
            return
        log = self._log_of(record.generation)
        if log is None:
            return
        if record.kind == Kind.HARD_STATE:
            self._hard_state(log, record, place)
        elif record.kind == Kind.SNAPSHOT:
            self._snapshot(log, record, place)
        elif record.holds_entry:
            self._entry(log, record, place)

    def batch_ends(self) -> None:
        """All records of a batch have come: an index that they commit covers entries from now on. A snapshot
        of the leader may stand behind the commit index, and takes the place of entries that were never
        committed.
        """
        log = self._log
        if log is None or not self._covered:
            return
        for index in [index for index in log.stretch if index <= self._covered]:
            self._commit(index, log.stretch.pop(index))
        self._covered = 0

    def segment_missing(self) -> None:
        """The next record stands behind a segment that is gone."""
        if self._log is not None:
            self._log.stretch.clear()

    def finish(self, *, whole: bool) -> None:
        """The journal ends. `whole`: all of it was read, so that an entry that is missing is damage."""
        log = self._log
        if log is None:
            return
        start = log.snapshot.upto if log.snapshot is not None else 0
        live = Numbers(log.live)
        kept = {
            index: copy for index, copy in log.entries.items() if index > start or live.within(index, index)
        }
        # A record that could not be read may have superseded entries of the segments before it.
        for index, copy in (kept if whole else dict(log.stretch)).items():
            if index <= max(log.commit, start):
                self._commit(index, copy)
        self.known = max(self.known, min(log.commit, log.last), start)
        if whole:
            self._check_gaps(log, kept, start)

    # -- records --------------------------------------------------------------------------------

    def _drop(self, generation: int) -> None:
        self._dropped = max(self._dropped, generation)
        if self._log is not None and self._log.generation <= generation:
            self._log = None

    def _log_of(self, generation: int) -> Log | None:
        """The log that a record of this generation belongs to; None for one that is dead."""
        log = self._log
        if generation <= self._dropped or (log is not None and log.generation > generation):
            return None
        if log is None or log.generation < generation:
            self._covered = 0
            log = self._log = Log(generation)
        return log

    def _hard_state(self, log: Log, record: Record, place: Place) -> None:
        vote = vote_in(record.payload).node
        if vote is not None:
            former = log.votes.setdefault(record.term, vote)
            if former != vote:
                found = f"the node has voted for {former} and for {vote} in term {record.term}"
                self._verdict.note(Promise.ONE_VOTE, self.partition, place, found)
        log.commit = record.log_index
        self._covered = max(self._covered, record.log_index)

    def _snapshot(self, log: Log, record: Record, place: Place) -> None:
        body = snapshot_in(record.payload)
        index = record.log_index
        taken = Taken(index, record.term, digest_of(body.state), place)
        self.snapshots.setdefault(index, taken)
        self.known = max(self.known, index)
        if body.installation != log.installation:
            self._install(log, body)
        self._cut_behind(log, body.last_index, place)
        log.snapshot, log.live, log.last = taken, body.live, max(log.last, index, body.last_index)
        self._covered = max(self._covered, index)

    def _install(self, log: Log, body: SnapshotBody) -> None:
        """A snapshot of the leader takes the place of the log."""
        log.stretch.clear()
        log.entries.update(log.received.pop(body.installation, {}))
        log.received = {number: rows for number, rows in log.received.items() if number > body.installation}
        log.installation = body.installation

    def _entry(self, log: Log, record: Record, place: Place) -> None:
        data, index = record.data, record.log_index
        reduced = record.kind != Kind.ENTRY and record.partition != CATALOG and _looks_reduced(record, data)
        copy = Copy(record.term, record.entry_kind, digest_of(data), place, reduced)
        if record.kind == Kind.RECEIVED:
            log.received.setdefault(record.number, {})[index] = copy
            return
        former = self.committed.get(index)
        if former is not None and not former.same(copy):
            found = f"entry {index} of term {former.term} is replaced by one of term {copy.term}"
            self._verdict.note(Promise.NOTHING_REPLACED, self.partition, place, found)
        if record.kind == Kind.ENTRY:
            log.cut(index - 1)
            log.last = index
            log.stretch[index] = copy
        else:
            self._cut_behind(log, record.number, place)
            log.last = max(log.last, index)
        log.entries[index] = copy

    def _cut_behind(self, log: Log, last: int, place: Place) -> None:
        """A record says where the log ended when it was written."""
        if last < log.last:
            lost = next((index for index in range(last + 1, log.last + 1) if index in self.committed), None)
            if lost is not None:
                found = f"entry {lost} was committed, and the log ends with entry {last}"
                self._verdict.note(Promise.NOTHING_REPLACED, self.partition, place, found)
            log.cut(last)

    def _commit(self, index: int, copy: Copy) -> None:
        former = self.committed.get(index)
        if former is None or (former.reduced and not copy.reduced):
            self.committed[index] = copy

    def _check_gaps(self, log: Log, kept: dict[int, Copy], start: int) -> None:
        place = log.snapshot.place if log.snapshot is not None else None
        wanted = [*log.live, (start + 1, log.last)]
        for first, last in wanted:
            missing = next((index for index in range(first, last + 1) if index not in kept), None)
            if missing is not None:
                near = kept.get(missing + 1) or kept.get(missing - 1)
                where = near.place if near is not None else place or Place(self.node, 0, 0)
                self._verdict.note(Promise.NO_GAP, self.partition, where, f"no segment holds entry {missing}")


def contents_of(data: bytes) -> dict[int, bytes]:
    """Digests of the messages of an entry by number, routing included. Raises MalformedError."""
    found: dict[int, bytes] = {}
    for batch in batches_in(data):
        number = batch.first
        for operation in operations_in(data, batch.start, batch.end):
            if isinstance(operation, Publish):
                for place, message in enumerate(messages_of(data, operation), number):
                    parts = (operation.exchange, message.routing_key, message.raw)
                    found[place] = digest_of(b"\0".join(parts))
                number += operation.messages
    return found


def _looks_reduced(record: Record, data: bytes) -> bool:
    """Whether an entry has the form of a reduced one: publishes alone, in batches of the owner's."""
    if record.entry_kind != NORMAL:
        return False
    try:
        for batch in batches_in(data):
            if batch.front_end or batch.number:
                return False
            if not all(isinstance(one, Publish) for one in operations_in(data, batch.start, batch.end)):
                return False
    except MalformedError:
        return False
    return True
