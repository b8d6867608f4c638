"""The whole entries and digests that a partition keeps for histories (X8), and the notes in its log."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.queue.chronicle import MARK_ENTRIES, Chronicle, blake3_digest, next_digest
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

DigestAfter = Callable[[bytes, int, bytes], bytes]

QUEUE, STREAM = 2, 1
KEEP = encode_note(HistoryNote(NoteKind.KEEP, QUEUE, STREAM))
RESTART = encode_note(HistoryNote(NoteKind.RESTART))
BLAKE3 = encode_note(HistoryNote(NoteKind.BLAKE3))


def kept(*, until: int = 0, noted_at: int = 0) -> PartitionMachine:
    """A partition that keeps whole entries from entry 2 on, with one message in each entry from 3 on, and in
    the entry `noted_at` with the note that digests are those of BLAKE3.
    """
    machine = PartitionMachine()
    created = [encode_create_queue(queue, Semantics.AT_LEAST_ONCE) for queue in (STREAM, QUEUE)]
    machine.apply(1, one_batch(created))
    machine.apply(2, one_batch([KEEP]))
    for index in range(3, until + 1):
        machine.apply(index, message(index, BLAKE3 if index == noted_at else b""))
    return machine


def message(index: int, note: bytes = b"") -> bytes:
    """An entry with one message of the number of the entry, behind a note."""
    data = published(index, uniform_run(1), STREAM, QUEUE)
    return data[:1] + one_batch([note])[1:] + data[1:] if note else data


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


@pytest.mark.parametrize("digest_after", [next_digest, blake3_digest])
def test_the_place_of_an_entry_counts(digest_after: DigestAfter) -> None:
    assert digest_after(bytes(32), 1, b"a") != digest_after(bytes(32), 2, b"a")


def test_digests_of_blake3_are_those_of_its_definition() -> None:
    """A test vector of the authors of BLAKE3: 1,025 octets, which are two chunks."""
    data = bytes(at % 251 for at in range(1025))
    expected = "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"
    assert blake3_digest(data[:32], int.from_bytes(data[32:40], "little"), data[40:]).hex() == expected


@pytest.mark.requirement("X8.7")
@given(st.integers(3, 12), st.integers(0, 12))
def test_a_chain_goes_on_with_blake3_from_the_note_on(noted: int, copied: int) -> None:
    """Also in a replica that begins with a snapshot. A second note changes nothing."""
    machine, digest = kept(noted_at=noted), next_digest(bytes(32), 2, one_batch([KEEP]))
    for index in range(3, 14):
        if index == copied:
            copy = PartitionMachine()
            copy.restore(machine.snapshot())
            machine = copy
        data = message(index, BLAKE3 if index in (noted, 13) else b"")
        machine.apply(index, data)
        digest = (blake3_digest if index >= noted else next_digest)(digest, index, data)
        assert machine.chronicle.digest == digest
    assert machine.chronicle.blake3_from == noted
    assert machine.chronicle.after(bytes(32), noted - 1, b"a") == next_digest(bytes(32), noted - 1, b"a")
    assert machine.chronicle.after(bytes(32), noted, b"a") == blake3_digest(bytes(32), noted, b"a")


def test_a_chain_without_blake3_has_the_snapshot_of_earlier_releases() -> None:
    whole, by_blake3 = kept(until=10).chronicle.encode(), kept(until=10, noted_at=9).chronicle.encode()
    assert (whole[0], by_blake3[0]) == (1, 2)
    assert len(by_blake3) == len(whole) + 8


@pytest.mark.requirement("X8.7")
@pytest.mark.parametrize("noted_at", [0, 3, MARK_ENTRIES + 5])
def test_a_snapshot_has_the_chain(noted_at: int) -> None:
    machine = kept(until=MARK_ENTRIES + 10, noted_at=noted_at)
    copy = PartitionMachine()
    copy.restore(machine.snapshot())
    assert copy.chronicle.marks() == machine.chronicle.marks()
    assert len(copy.chronicle.marks()) == 2
    for one in (machine, copy):
        one.apply(1000, published(1000, uniform_run(1), STREAM, QUEUE))
    assert copy.digest() == machine.digest()
    assert copy.chronicle.digest == machine.chronicle.digest


@given(st.integers(1, 150), st.sampled_from((0, 4)))
def test_a_snapshot_whose_chain_is_cut_is_refused(cut: int, noted_at: int) -> None:
    machine = kept(until=5, noted_at=noted_at)
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
    machine = kept(until=10, noted_at=4)
    machine.chronicle.drop(QUEUE)
    assert machine.chronicle.encode() == b""
    machine.apply(11, one_batch([KEEP]))
    assert machine.chronicle.whole_from == 11
    assert machine.chronicle.digest == next_digest(bytes(32), 11, one_batch([KEEP]))


def test_a_restart_lets_go_of_what_is_before_it_and_goes_on_with_the_chain() -> None:
    machine, other = kept(until=10, noted_at=4), kept(until=10, noted_at=4)
    machine.apply(11, one_batch([RESTART]))
    assert machine.chronicle.whole_from == 11
    assert machine.chronicle.marks()[0][1] == other.chronicle.digest
    assert machine.chronicle.blake3_from == 4


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
