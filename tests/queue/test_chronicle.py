"""The whole entries and digests that a partition keeps for histories (X8), and the notes in its log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.queue.chronicle import MARK_ENTRIES, Chronicle, next_digest
from node.queue.decision_format import encode_note
from node.queue.entry_format import EntryFormatError, encode_create_queue, read_operations
from node.queue.events import Happened, Lead, LeadKind, read_lead
from node.queue.explaining import FIRST_EVENTS, LAST_EVENTS, Trace
from node.queue.history_notes import HistoryNote, NoteKind
from node.queue.operations import OpKind, Semantics
from node.queue.partition import PartitionMachine, SnapshotFormatError
from node.queue.sought import Sought
from tests.queue.building import one_batch, published, uniform_run

U64 = st.integers(0, (1 << 64) - 1)
RANGES = st.lists(st.tuples(U64, U64).map(lambda pair: (min(pair), max(pair))), max_size=4).map(tuple)
NOTES = st.builds(HistoryNote, st.sampled_from(NoteKind), U64, U64, U64, RANGES)

QUEUE, STREAM = 2, 1
KEEP = encode_note(HistoryNote(NoteKind.KEEP, QUEUE, STREAM))
RESTART = encode_note(HistoryNote(NoteKind.RESTART))


def kept(*, until: int = 0) -> PartitionMachine:
    """A partition that keeps whole entries from entry 2 on, with one message in each entry from 3 on."""
    machine = PartitionMachine()
    created = [encode_create_queue(queue, Semantics.AT_LEAST_ONCE) for queue in (STREAM, QUEUE)]
    machine.apply(1, one_batch(created))
    machine.apply(2, one_batch([KEEP]))
    for index in range(3, until + 1):
        machine.apply(index, published(index, uniform_run(1), STREAM, QUEUE))
    return machine


@given(NOTES)
def test_a_note_reads_back(note: HistoryNote) -> None:
    assert list(read_operations(encode_note(note))) == [note]


@given(NOTES)
def test_a_note_has_the_octets_that_the_format_says(note: HistoryNote) -> None:
    """However many ranges there are: docs/journal-format.md, NOTE."""
    columns = [one[i].to_bytes(8, "little") for i in (0, 1) for one in note.ranges]
    numbers = b"".join(number.to_bytes(8, "little") for number in note[1:4])
    head = bytes((OpKind.NOTE, note.kind)) + numbers + len(note.ranges).to_bytes(4, "little")
    assert encode_note(note) == head + b"".join(columns)


@given(NOTES, st.data())
def test_a_note_that_is_cut_is_refused(note: HistoryNote, data: st.DataObject) -> None:
    octets = encode_note(note)
    cut = data.draw(st.integers(1, len(octets) - 1))
    with pytest.raises(EntryFormatError):
        list(read_operations(octets[:cut]))


@pytest.mark.requirement("X8.7")
@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=8), st.data())
def test_a_digest_covers_each_octet_before_it(entries: list[bytes], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(entries) - 1))
    octet = data.draw(st.integers(0, len(entries[place]) - 1))
    changed = list(entries)
    changed[place] = bytes(one ^ (at == octet) for at, one in enumerate(entries[place]))
    assert _chain(changed)[:place] == _chain(entries)[:place]
    assert not set(_chain(changed)[place:]) & set(_chain(entries)[place:])


def _chain(entries: list[bytes]) -> list[bytes]:
    digest, found = bytes(32), list[bytes]()
    for index, data in enumerate(entries, 1):
        digest = next_digest(digest, index, data)
        found.append(digest)
    return found


def test_the_place_of_an_entry_counts() -> None:
    assert next_digest(bytes(32), 1, b"a") != next_digest(bytes(32), 2, b"a")


@pytest.mark.requirement("X8.7")
def test_a_snapshot_has_the_chain() -> None:
    machine = kept(until=MARK_ENTRIES + 10)
    copy = PartitionMachine()
    copy.restore(machine.snapshot())
    assert copy.chronicle.marks() == machine.chronicle.marks()
    assert len(copy.chronicle.marks()) == 2
    for one in (machine, copy):
        one.apply(1000, published(1000, uniform_run(1), STREAM, QUEUE))
    assert copy.digest() == machine.digest()
    assert copy.chronicle.digest == machine.chronicle.digest


@given(st.integers(1, 150))
def test_a_snapshot_whose_chain_is_cut_is_refused(cut: int) -> None:
    machine = kept(until=5)
    octets = machine.snapshot()
    chain = len(machine.chronicle.encode())
    if cut != chain:
        with pytest.raises(SnapshotFormatError):
            machine.restore(octets[:-cut])
    assert machine.snapshot() == octets


def test_entries_stay_whole_until_the_history_has_passed_them() -> None:
    last = 3 * MARK_ENTRIES
    machine = kept(until=last)
    machine.queues[QUEUE].remove_all([(1, last)])
    assert machine.live_indexes()[-1] == (2, last)
    assert machine.chronicle.covers(3)
    machine.queues[STREAM].remove_all([(1, 2 * MARK_ENTRIES)])
    for index in range(last + 1, last + MARK_ENTRIES + 1):
        machine.apply(index, published(index, uniform_run(1), STREAM, QUEUE))
    assert MARK_ENTRIES < machine.chronicle.whole_from <= 2 * MARK_ENTRIES + 1
    assert not machine.chronicle.covers(3)
    assert machine.chronicle.mark_before(machine.chronicle.whole_from - 1) is None


def test_the_chain_ends_with_the_last_history_and_begins_anew() -> None:
    machine = kept(until=10)
    machine.chronicle.drop(QUEUE)
    assert machine.chronicle.encode() == b""
    machine.apply(11, one_batch([KEEP]))
    assert machine.chronicle.whole_from == 11


def test_a_restart_lets_go_of_what_is_before_it_and_goes_on_with_the_chain() -> None:
    machine, other = kept(until=10), kept(until=10)
    machine.apply(11, one_batch([RESTART]))
    assert machine.chronicle.whole_from == 11
    assert machine.chronicle.marks()[0][1] == other.chronicle.digest


@given(st.lists(NOTES.map(encode_note), max_size=3), st.binary(max_size=40))
def test_a_trace_of_any_octets_tells_or_refuses(notes: list[bytes], octets: bytes) -> None:
    for kind in LeadKind:
        trace = Trace(1, Sought(Lead(1, kind, 5, 7)))
        try:
            trace.read(9, 1, one_batch([*notes, octets]))
        except EntryFormatError:
            continue


def test_a_message_that_comes_back_for_ever_has_a_bounded_life() -> None:
    trace = Trace(1, Sought(Lead(1, LeadKind.NUMBER, 1)))
    trace.read(1, 1, published(1, uniform_run(1), STREAM, QUEUE))
    note = encode_note(HistoryNote(NoteKind.LEASED, QUEUE, 7, 9, ((1, 1),)))
    for index in range(2, 2 * (FIRST_EVENTS + LAST_EVENTS)):
        trace.read(index, 1, one_batch([note]))
    assert trace.events[0].happened is Happened.PUBLISHED
    assert [one.entry for one in trace.events[-LAST_EVENTS:]] == [*range(index - LAST_EVENTS + 1, index + 1)]
    assert len(trace.events) + trace.omitted == index
    assert len(trace.events) <= FIRST_EVENTS + 2 * LAST_EVENTS


@pytest.mark.parametrize("plain", [(1, "elsewhere", 5), (1,), (1, 2, 3, 4, 5, 6, 7)])
def test_a_lead_of_another_form_is_refused(plain: tuple[object, ...]) -> None:
    with pytest.raises((ValueError, TypeError)):
        read_lead(plain)


def test_a_chronicle_without_histories_has_no_octets() -> None:
    assert Chronicle().encode() == b""
    assert Chronicle.decode(b"", 0)[1] == 0
