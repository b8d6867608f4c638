"""The job audit: a verdict over the journals of several nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from pipeline.audit.journals import Records, replicas_in
from pipeline.audit.machine import Machine
from pipeline.audit.replica import CATALOG, Copy, Replica, Taken, contents_of
from pipeline.audit.verdict import PartitionVerdict, Place, Promise, Verdict
from pipeline.journal.damage import REPORT
from pipeline.journal.raft import NORMAL, snapshot_in
from pipeline.journal.segments import Segment
from pipeline.journal.states import Key, PartitionState, partition_state
from pipeline.octets.cursor import MalformedError

Scan = tuple[Verdict, list[Replica]]
"""The findings in the journal of one node, and its replicas."""

Scans = Callable[[Callable[[Sequence[Segment]], Scan], Sequence[Sequence[Segment]]], Iterable[Scan]]
"""Scans journals with a function, here or elsewhere: as `map` does."""


def scan(segments: Sequence[Segment], on_damage: str = REPORT) -> Scan:
    """Read the journal of one node, as `segments_in` gives it. Raises DamageError, OSError."""
    verdict = Verdict(sorted({one.node for one in segments}))
    return verdict, list(replicas_in(segments, verdict, on_damage).values())


def audit(journals: Iterable[Sequence[Segment]], on_damage: str = REPORT, scans: Scans = map) -> Verdict:
    """Judge the journals of nodes, each as `segments_in` gives it. Raises DamageError, OSError.

    The journals are scanned one by one, or as `scans` does. The messages are followed here.
    """
    wanted = list(journals)
    verdict, replicas = Verdict(), list[Replica]()
    for part, found in scans(partial(scan, on_damage=on_damage), wanted):
        verdict.add(part)
        replicas += found
    records = Records(segment for segments in wanted for segment in segments)
    try:
        _Audit(verdict, records).judge(replicas)
    finally:
        records.close()
    return verdict


class _Audit:
    """One audit, after all journals have been read once."""

    def __init__(self, verdict: Verdict, records: Records) -> None:
        self._verdict = verdict
        self._records = records
        self._outcomes: dict[Key, tuple[bool, int, Place]] = {}

    def judge(self, replicas: Iterable[Replica]) -> None:
        by_partition: dict[int, list[Replica]] = {}
        for replica in replicas:
            by_partition.setdefault(replica.partition, []).append(replica)
        for partition, those in sorted(by_partition.items()):
            self._partition(partition, those)

    def _partition(self, partition: int, replicas: list[Replica]) -> None:
        committed = max(one.known for one in replicas)
        entries = self._merged(partition, replicas)
        self._check_terms(partition, entries)
        if partition != CATALOG:
            self._check_reduced(partition, entries)
        states = self._states(partition, replicas)
        self._verdict.entries += sum(index <= committed for index in entries)
        self._verdict.partitions[partition] = PartitionVerdict(committed)
        if partition != CATALOG:
            self._follow(partition, entries, states, committed)

    # -- replicas -------------------------------------------------------------------------------

    def _merged(self, partition: int, replicas: list[Replica]) -> dict[int, list[Copy]]:
        """The copies of each committed entry, those first that are whole."""
        found: dict[int, list[Copy]] = {}
        for replica in replicas:
            for index, copy in replica.committed.items():
                others = found.setdefault(index, [])
                other = next((one for one in others if not one.same(copy)), None)
                if other is not None:
                    what = f"entry {index} of term {copy.term} is not that of node {other.place.node}"
                    self._verdict.note(Promise.REPLICAS_AGREE, partition, copy.place, what)
                if copy.reduced:
                    others.append(copy)
                else:
                    others.insert(0, copy)
        return found

    def _check_terms(self, partition: int, entries: Mapping[int, list[Copy]]) -> None:
        highest = 0
        for index in sorted(entries):
            copy = entries[index][0]
            if copy.term < highest:
                found = f"entry {index} is of term {copy.term}, behind entries of term {highest}"
                self._verdict.note(Promise.REPLICAS_AGREE, partition, copy.place, found)
            highest = max(highest, copy.term)

    def _check_reduced(self, partition: int, entries: Mapping[int, list[Copy]]) -> None:
        """The messages of reduced copies are those of other copies with the same numbers."""
        for index, copies in entries.items():
            if not copies[-1].reduced or len(copies) == 1:
                continue
            first, known = copies[0], self._contents(copies[0])
            for copy in copies[1:] if known is not None else ():
                if copy.reduced and (number := _other_message(known, self._contents(copy), first.reduced)):
                    what = f"message {number} of entry {index} is not that of node {first.place.node}"
                    self._verdict.note(Promise.REPLICAS_AGREE, partition, copy.place, what)

    def _contents(self, copy: Copy) -> dict[int, bytes] | None:
        """Digests of the messages of an entry by number; None where the entry cannot be read."""
        record = self._records.read(copy.place)
        try:
            return None if record is None or not record.holds_entry else contents_of(record.data)
        except MalformedError:
            return None

    def _states(self, partition: int, replicas: list[Replica]) -> dict[int, list[Taken]]:
        """The snapshots by index. Replicas have the same octets of state."""
        found: dict[int, list[Taken]] = {}
        for replica in replicas:
            for index, taken in replica.snapshots.items():
                others = found.setdefault(index, [])
                if others and (others[0].digest, others[0].term) != (taken.digest, taken.term):
                    what = f"the snapshot at entry {index} is not that of node {others[0].place.node}"
                    self._verdict.note(Promise.STATES_AGREE, partition, taken.place, what)
                others.append(taken)
        return found

    # -- messages -------------------------------------------------------------------------------

    def _follow(
        self, partition: int, entries: Mapping[int, list[Copy]], states: Mapping[int, list[Taken]], last: int
    ) -> None:
        """Follow the messages through each stretch of entries that are whole."""
        total = self._verdict.partitions[partition]
        begin = 0
        for start in (0, *sorted(states)):
            if start < begin or not (self._is_whole(entries, start + 1) or start == last):
                continue
            state = self._state_at(states.get(start, ())) if start else PartitionState()
            if state is None:
                continue
            machine = Machine(partition, state, self._verdict, self._decided)
            begin = self._run(machine, entries, states, start, last)
            total.judged.append((start + 1, begin))
            total.published += machine.tally.published
            total.ended += machine.tally.ended
            total.late += machine.tally.late
            total.waiting = sum(queue.alive.count for queue in machine.state.queues.values())

    def _is_whole(self, entries: Mapping[int, list[Copy]], index: int) -> bool:
        return index in entries and not entries[index][0].reduced

    def _run(
        self, machine: Machine, entries: Mapping[int, list[Copy]], states: Mapping[int, list[Taken]],
        start: int, last: int,
    ) -> int:  # fmt: skip
        """Apply entries behind `start`; returns the index of the last that could be applied."""
        index = start
        while index < last and self._is_whole(entries, index + 1):
            if not self._apply(machine, entries[index + 1]):
                break
            index += 1
            if not machine.followed:
                # Entries behind an operation of a newer release are followed from the next snapshot on.
                break
            if index in states:
                self._compare(machine, states[index])
        return index

    def _apply(self, machine: Machine, copies: list[Copy]) -> bool:
        """Apply an entry from the first copy that can be read; whether there is one."""
        for copy in copies:
            record = None if copy.reduced else self._records.read(copy.place)
            if record is not None and record.holds_entry:
                if record.entry_kind == NORMAL:
                    try:
                        machine.apply(record.data, copy.place)
                    except MalformedError:
                        # The reader of the tables reports the octets; the state is not known from here on.
                        return False
                return True
        return False

    def _state_at(self, snapshots: Iterable[Taken]) -> PartitionState | None:
        for taken in snapshots:
            record = self._records.read(taken.place)
            if record is not None:
                state = partition_state(snapshot_in(record.payload).state)
                if state is None:
                    self._verdict.unknown += 1
                return state
        return None

    def _compare(self, machine: Machine, snapshots: list[Taken]) -> None:
        """Hold the state after an entry against the snapshots of that entry."""
        found = self._state_at(snapshots)
        if found is None:
            return
        taken, followed = snapshots[0], machine.state
        what = _difference(found, followed)
        if what:
            partition = machine.partition
            self._verdict.note(Promise.STATES_AGREE, partition, taken.place, f"at entry {taken.upto} {what}")
            machine.follow(found)

    def _decided(self, key: Key, committed: bool, partition: int, place: Place) -> None:
        if not key[1]:
            # Removals of single messages share a number, and are decided at once.
            return
        former = self._outcomes.setdefault(key, (committed, partition, place))
        if former[0] != committed:
            words = ("aborted", "committed")
            found = (
                f"transaction {key[1]} of front end {key[0]:#x} is {words[committed]} here, "
                f"and {words[former[0]]} in partition {former[1]}"
            )
            self._verdict.note(Promise.ONE_OUTCOME, partition, place, found)


def _other_message(
    known: Mapping[int, bytes] | None, found: Mapping[int, bytes] | None, reduced: bool
) -> int:
    """The first message that is another one than the known message with its number; 0 for none.

    `reduced`: not all messages are known.
    """
    for number, content in (found or {}).items():
        if known is not None and known.get(number, content if reduced else None) != content:
            return number
    return 0


def _difference(snapshot: PartitionState, followed: PartitionState) -> str:
    """The first difference between the state in a snapshot and the one that entries have led to."""
    if snapshot.next_number != followed.next_number:
        return f"the next number is {snapshot.next_number}, not {followed.next_number}"
    if snapshot.batches != followed.batches:
        return "the snapshot has other batches"
    if snapshot.queues.keys() != followed.queues.keys():
        return f"the snapshot has the queues {sorted(snapshot.queues)}, not {sorted(followed.queues)}"
    for number, queue in snapshot.queues.items():
        other = followed.queues[number]
        if queue.alive != other.alive:
            return f"queue {number} has {queue.alive.count} messages in the snapshot, not {other.alive.count}"
        if (queue.semantics, queue.sealed) != (other.semantics, other.sealed):
            return f"queue {number} has other settings in the snapshot"
    return ""
