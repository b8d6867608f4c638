"""The job audit: it finds each violation that is planted in the journals of a cluster, and none in others."""

from __future__ import annotations

import json
import shutil
from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from node.message.reason import Reason
from node.queue.decision_format import encode_note, encode_remove
from node.queue.entry_format import (
    encode_batch,
    encode_create_queue,
    encode_entry,
    encode_publish,
    encode_purge,
    encode_return,
    encode_settle,
)
from node.queue.history_notes import HistoryNote, NoteKind
from node.queue.operations import Semantics
from node.queue.partition import PartitionMachine
from node.queue.transaction_format import encode_conclude
from node.queue.transaction_operations import TransactionKey
from pipeline.audit.audit import audit
from pipeline.audit.verdict import Promise, Verdict, Violation
from pipeline.journal.layout import Kind
from pipeline.journal.operations import Operation, batches_in, operations_in
from pipeline.journal.segments import segments_in
from pipeline.message.runs import bookmark_of
from replication.journal.records import RecordKind, SnapshotBody, encode_hard_state
from replication.raft.types import HardState, Membership
from tests.messages import content, run_of
from tests.pipeline.journals import Edited, Written, entry, put_down, rows_of, segment_of, with_data
from tests.site import Client, Site

NAMES = ("n1", "n2", "n3")


class Clustered:
    """The journals of three nodes, and where their queues are."""

    def __init__(self, directory: Path, queues: dict[str, tuple[int, int]]) -> None:
        self.directory = directory
        self.queues = queues

    def place(self, name: str) -> tuple[int, int]:
        """Id and partition of a queue."""
        return self.queues[name]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clustered]:
    """Of a cluster whose owners were killed, and had lost power, under load."""
    site = Site(*NAMES)
    for node, name in zip(NAMES, ("q", "other", "more"), strict=True):
        site.client(node).declare(name)
    site.client("n1").declare("once", semantics="at-most-once")
    for node in ("n2", "n3", "n1"):
        commit(site, node)
        load(site, node)
        site.nodes[node].stop(power=node == "n3")
        site.run(1.0)
        site.nodes[node].start()
        site.until(partial(getattr, site.nodes[node], "ready"))
        site.run(1.0)
    load(site, "n2")
    site.run(1.0)
    catalog = site.nodes["n1"].broker.catalog.state
    queues = {name: (one.id, one.partition) for (_, name), one in catalog.queues.items()}
    directory = tmp_path_factory.mktemp("written")
    put_down(site.nodes.values(), directory)
    yield Clustered(directory, queues)


def load(site: Site, node: str) -> None:
    client = site.client(node)
    for queue in ("q", "other", "once"):
        client.confirms(client.publish(queue, *[b"%d" % number * 50 for number in range(20)]))
    client.consume("q", prefetch=10)
    site.until(lambda: len(client.deliveries) >= 10)
    client.ack(client.deliveries[4], multiple=True)
    client.nack(client.deliveries[5], requeue=True)
    for _ in range(5):
        assert client.get("once") is not None
    site.run(0.3)


def commit(site: Site, node: str) -> None:
    """A transaction over the queues of several partitions."""
    client: Client = site.client(node, transactional=True)
    for queue in ("q", "other", "more", "once"):
        client.publish(queue, b"together")
    client.commit()


@pytest.fixture
def clustered(written: Clustered, tmp_path: Path) -> Clustered:
    """A copy of the journals, which a test may change."""
    shutil.copytree(written.directory, tmp_path / "journals")
    return Clustered(tmp_path / "journals", written.queues)


def verdict_of(directory: Path) -> Verdict:
    return audit(segments_in(one) for one in sorted(directory.iterdir()))


@pytest.mark.requirement("F8.6")
def test_a_cluster_with_failovers_keeps_its_promises(written: Clustered) -> None:
    verdict = verdict_of(written.directory)
    assert (verdict.violations, verdict.damage, verdict.unread) == ([], [], [])
    assert verdict.kept
    assert verdict.nodes == list(NAMES)
    parts = {number: one for number, one in verdict.partitions.items() if number}
    assert {one.judged[0][0] for one in parts.values()} == {1}
    assert all(one.judged[-1][1] == one.committed for one in parts.values())
    assert sum(one.published for one in parts.values()) >= 3 * 3 * 20 + 3 * 4
    assert sum(one.ended for one in parts.values()) >= 4 * 9
    assert any(row.kind == "prepared" for row in rows_of(written.directory / "n1", "operations"))


# -- planted violations --------------------------------------------------------------------------------


class Planting:
    """The journals of all nodes while violations are planted in them."""

    def __init__(self, clustered: Clustered) -> None:
        self.clustered = clustered
        self.nodes = {name: Edited(clustered.directory / name) for name in NAMES}
        self._ends: dict[tuple[str, int], tuple[int, int]] = {}

    def entries(self, partition: int, node: str = "n1") -> list[Written]:
        """The entries of a partition's log in the end."""
        found: dict[int, Written] = {}
        for one in self.nodes[node].entries(partition):
            found = {index: other for index, other in found.items() if index < one.index}
            found[one.index] = one
        return list(found.values())

    def commit(self, partition: int, *operations: bytes, front_end: int = 0, number: int = 0) -> None:
        """Have all nodes commit one more entry, with these operations in a batch."""
        data = encode_entry([encode_batch(front_end, number, 1 << 62, operations)])
        self.commit_entry(partition, data)

    def commit_entry(self, partition: int, data: bytes) -> None:
        for name, node in self.nodes.items():
            last = self.entries(partition, name)[-1]
            node.append(replace(last, index=last.index + 1, payload=data))
            self.tell(name, partition, commit=last.index + 1)

    def tell(self, node: str, partition: int, *, commit: int, vote: str = "n1", term: int = 0) -> None:
        """Have a node write a hard state."""
        last = self.entries(partition, node)[-1]
        payload = encode_hard_state(HardState(vote=vote))
        term = term or last.term + 1
        state = Written(RecordKind.HARD_STATE, commit, term, payload, partition, last.generation)
        self.nodes[node].append(state)

    def change(self, partition: int, index: int, data: bytes, *nodes: str) -> None:
        """Give an entry other data."""
        for name in nodes or NAMES:
            self.nodes[name].change(
                lambda one: (one.partition, one.index, one.kind) == (partition, index, Kind.ENTRY),
                lambda one: with_data(one, data),
            )

    def verdict(self) -> Verdict:
        for one in self.nodes.values():
            one.write()
        return verdict_of(self.clustered.directory)


@pytest.fixture
def planting(clustered: Clustered) -> Planting:
    return Planting(clustered)


def only(verdict: Verdict, promise: Promise) -> Violation:
    """The first of the violations, all of which are of one promise. The record at its place is there."""
    assert {one.promise for one in verdict.violations} == {promise}
    first = verdict.violations[0]
    assert first.node in NAMES
    assert first.segment == 1
    assert first.offset >= 512
    return first


def test_journals_that_are_written_again_keep_their_promises(planting: Planting) -> None:
    assert planting.verdict().kept


def settled(planting: Planting, queue: str, kind: str = "settle") -> tuple[int, int, int]:
    """Queue, partition, and the number of a message that has left the queue."""
    number, partition = planting.clustered.place(queue)
    rows = rows_of(planting.clustered.directory / "n1", "operations")
    found = next(
        row for row in rows if (row.queue, row.action) == (number, kind) and row.partition == partition
    )
    return number, partition, found.first


@pytest.mark.requirement("F8.6")
def test_an_entry_that_differs_on_one_node(planting: Planting) -> None:
    _, partition = planting.clustered.place("q")
    chosen = next(one for one in planting.entries(partition) if len(one.payload) > 500)
    planting.change(partition, chosen.index, chosen.payload[:-1] + b"\0", "n2")
    found = only(planting.verdict(), Promise.REPLICAS_AGREE)
    assert (found.partition, found.node) == (partition, "n2")
    assert f"entry {chosen.index} " in found.found


@pytest.mark.requirement("F8.6")
def test_a_committed_entry_that_is_replaced(planting: Planting) -> None:
    _, partition = planting.clustered.place("other")
    last = planting.entries(partition, "n3")[-1]
    planting.tell("n3", partition, commit=last.index)
    planting.nodes["n3"].append(replace(last, term=last.term + 1, payload=b""))
    verdict = planting.verdict()
    replaced = [one for one in verdict.violations if one.promise is Promise.NOTHING_REPLACED]
    assert [(one.partition, one.node) for one in replaced] == [(partition, "n3")]


@pytest.mark.requirement("F8.6")
def test_committed_entries_that_are_cut_off(planting: Planting) -> None:
    _, partition = planting.clustered.place("other")
    last = planting.entries(partition, "n3")[-1]
    planting.tell("n3", partition, commit=last.index)
    kept = replace(
        last, kind=RecordKind.KEPT, index=1, term=1, payload=(last.index - 1).to_bytes(8, "little")
    )
    planting.nodes["n3"].append(kept)
    verdict = planting.verdict()
    found = [one for one in verdict.violations if one.promise is Promise.NOTHING_REPLACED]
    assert any(f"the log ends with entry {last.index - 1}" in one.found for one in found)


@pytest.mark.requirement("F8.6")
def test_an_entry_that_is_missing(planting: Planting) -> None:
    _, partition = planting.clustered.place("q")
    chosen = planting.entries(partition)[3]
    planting.nodes["n1"].change(
        lambda one: (one.partition, one.index) == (partition, chosen.index) and one.kind == Kind.ENTRY,
        lambda one: None,
    )
    found = only(planting.verdict(), Promise.NO_GAP)
    assert (found.partition, found.node) == (partition, "n1")
    assert str(chosen.index) in found.found


@pytest.mark.requirement("F8.6")
def test_a_number_that_two_messages_have(planting: Planting) -> None:
    queue, partition, _ = settled(planting, "q")
    number = next(
        row.sequence for row in rows_of(planting.clustered.directory / "n1", "messages") if row.queue == queue
    )
    publish = b"".join(encode_publish(run_of([content(b"again")]), [queue]))
    planting.commit_entry(partition, encode_entry([encode_batch(0, 0, number, [publish])]))
    found = only(planting.verdict(), Promise.NUMBERS_ASCEND)
    assert found.bookmark == bookmark_of(queue, number)


ENDS: dict[str, Callable[[int, int], bytes]] = {
    "settle": lambda queue, number: encode_settle(queue, [(number, number)]),
    "purge": lambda queue, number: encode_purge(queue, [(number, number)]),
    "remove": lambda queue, number: encode_remove(queue, Reason.EXPIRED, [(number, number)]),
}


@pytest.mark.requirement("F8.6")
@pytest.mark.parametrize("end", ENDS)
def test_a_message_that_ends_twice(planting: Planting, end: str) -> None:
    queue, partition, number = settled(planting, "q")
    planting.commit(partition, ENDS[end](queue, number))
    found = only(planting.verdict(), Promise.ONE_END)
    assert found.bookmark == bookmark_of(queue, number)


@pytest.mark.requirement("F8.6")
def test_a_late_settlement_of_a_client_is_counted_and_breaks_no_promise(planting: Planting) -> None:
    queue, partition, number = settled(planting, "q")
    before = verdict_of(planting.clustered.directory).partitions[partition].late
    planting.commit(partition, ENDS["settle"](queue, number), front_end=77, number=1)
    verdict = planting.verdict()
    assert verdict.kept
    assert verdict.partitions[partition].late == before + 1


@pytest.mark.requirement("F8.6")
def test_a_message_that_ends_before_its_publish(planting: Planting) -> None:
    queue, partition = planting.clustered.place("q")
    number = 1 << 62
    planting.commit(partition, encode_settle(queue, [(number, number)]), front_end=77, number=1)
    planting.commit(partition, b"".join(encode_publish(run_of([content(b"late")]), [queue])))
    found = only(planting.verdict(), Promise.PUBLISHED_FIRST)
    assert found.bookmark == bookmark_of(queue, number)


@pytest.mark.requirement("F8.6")
def test_a_message_that_an_at_most_once_queue_delivers_twice(planting: Planting) -> None:
    queue, partition, number = settled(planting, "once")
    planting.commit(partition, encode_settle(queue, [(number, number)]))
    assert only(planting.verdict(), Promise.AT_MOST_ONCE).bookmark == bookmark_of(queue, number)


@pytest.mark.requirement("F8.6")
def test_a_message_that_goes_back_to_an_at_most_once_queue(planting: Planting) -> None:
    queue, partition = planting.clustered.place("once")
    rows = rows_of(planting.clustered.directory / "n1", "messages", columns=("sequence",))
    number = max(row.sequence for row in rows if row.queue == queue)
    planting.commit(partition, encode_return(queue, [(number, number)], True), front_end=77, number=1)
    assert only(planting.verdict(), Promise.AT_MOST_ONCE).bookmark == bookmark_of(queue, number)


@pytest.mark.requirement("F8.6")
def test_a_batch_that_is_applied_twice(planting: Planting) -> None:
    _, partition = planting.clustered.place("other")
    rows = rows_of(planting.clustered.directory / "n1", "operations")
    last = [row for row in rows if row.partition == partition and row.front_end and row.kind == "publish"][-1]
    planting.commit(partition, front_end=last.front_end, number=last.batch)
    found = only(planting.verdict(), Promise.BATCH_ONCE)
    assert f"batch {last.batch} " in found.found


def concluded(data: bytes) -> list[Operation]:
    return [
        one
        for batch in batches_in(data)
        for one in operations_in(data, batch.start, batch.end)
        if isinstance(one, Operation) and one.kind == 44
    ]


@pytest.mark.requirement("F8.6")
def test_a_transaction_with_two_outcomes(planting: Planting) -> None:
    for partition in {place for _, place in planting.clustered.queues.values()}:
        for one in planting.entries(partition):
            if found := concluded(one.payload):
                key = TransactionKey(found[0].fields["front_end"], found[0].fields["number"])
                right, wrong = encode_conclude(key, True), encode_conclude(key, False)
                assert right in one.payload
                planting.change(partition, one.index, one.payload.replace(right, wrong))
                violation = only(planting.verdict(), Promise.ONE_OUTCOME)
                assert f"transaction {key.number} " in violation.found
                return
    pytest.fail("no transaction is concluded")


@pytest.mark.requirement("F8.6")
def test_a_node_that_votes_twice(planting: Planting) -> None:
    _, partition = planting.clustered.place("q")
    term = planting.entries(partition, "n2")[-1].term + 1
    for vote in ("n1", "n3"):
        planting.tell("n2", partition, commit=1, vote=vote, term=term)
    assert only(planting.verdict(), Promise.ONE_VOTE).node == "n2"


@pytest.mark.requirement("F8.6")
def test_damage_is_named_and_the_rest_is_judged(clustered: Clustered) -> None:
    (path,) = [Path(one.path) for one in segments_in(clustered.directory / "n2")][:1]
    row = next(row for row in rows_of(clustered.directory / "n2", "entries") if row.octets > 500)
    octets = bytearray(path.read_bytes())
    octets[row.offset + 60] ^= 1
    path.write_bytes(octets)
    verdict = verdict_of(clustered.directory)
    assert [(one.node, one.segment, one.offset) for one in verdict.damage] == [("n2", 1, row.offset)]
    assert verdict.violations == []
    assert not verdict.kept


@pytest.mark.requirement("F8.6")
def test_a_verdict_is_json_and_text(planting: Planting) -> None:
    queue, partition, number = settled(planting, "q")
    planting.commit(partition, encode_purge(queue, [(number, number)]))
    verdict = planting.verdict()
    told: dict[str, Any] = json.loads(json.dumps(verdict.as_json()))
    assert told["kept"] is False
    assert told["violations"][0]["bookmark"] == bookmark_of(queue, number)
    text = "\n".join(verdict.lines())
    assert f"message {bookmark_of(queue, number)}, node n" in text
    assert text.endswith("broken: 1 violations, 0 damaged places")


# -- journals that are made up -------------------------------------------------------------------------

CREATED = encode_entry([encode_batch(0, 0, 0, [encode_create_queue(5, Semantics.AT_LEAST_ONCE)])])


def published(*bodies: bytes, first: int = 1) -> bytes:
    """An entry with messages, as the owner's own batch."""
    publish = b"".join(encode_publish(run_of([content(one) for one in bodies]), [5]))
    return encode_entry([encode_batch(0, 0, first, [publish])])


def owned(*operations: bytes) -> bytes:
    return encode_entry([encode_batch(0, 0, 0, operations)])


def made(directory: Path, *records: Written) -> Path:
    """The journal of a node that knows its last entry to be committed."""
    last = max(one.index for one in records)
    state = Written(RecordKind.HARD_STATE, last, 1, encode_hard_state(HardState(1, "n1")))
    directory.mkdir(parents=True)
    (directory / "0000000001.segment").write_bytes(segment_of([[*records, state]]))
    return directory


@pytest.mark.requirement("F8.6")
def test_a_reduced_copy_has_the_messages_of_the_entry(tmp_path: Path) -> None:
    made(tmp_path / "n1", entry(1, CREATED), entry(2, published(b"one", b"two")))
    kept = (2).to_bytes(8, "little") + published(b"two", first=2)
    made(tmp_path / "n2", entry(1, CREATED), entry(2, kept, kind=RecordKind.KEPT))
    assert verdict_of(tmp_path).kept
    other = (2).to_bytes(8, "little") + published(b"tow", first=2)
    made(tmp_path / "n3", entry(1, CREATED), entry(2, other, kind=RecordKind.KEPT))
    (found,) = verdict_of(tmp_path).violations
    assert (found.promise, found.node) == (Promise.REPLICAS_AGREE, "n3")
    assert found.found.startswith("message 2 of entry 2 ")


@pytest.mark.requirement("F8.6")
def test_entries_behind_an_operation_of_a_newer_release_are_not_judged(tmp_path: Path) -> None:
    """An unknown operation may have brought a message back: its second end breaks no known promise."""
    ends = owned(encode_purge(5, [(1, 1)]))
    records = [entry(1, CREATED), entry(2, published(b"one")), entry(3, ends)]
    made(tmp_path / "known" / "n1", *records, entry(4, ends))
    assert [one.promise for one in verdict_of(tmp_path / "known").violations] == [Promise.ONE_END]
    made(tmp_path / "newer" / "n1", *records, entry(4, owned(b"\x63")), entry(5, ends))
    verdict = verdict_of(tmp_path / "newer")
    assert (verdict.kept, verdict.unknown, verdict.partitions[1].judged) == (True, 1, [(1, 4)])
    assert "1 operations or states of a newer release, which were not judged" in "\n".join(verdict.lines())


@pytest.mark.requirement("F8.6")
def test_a_snapshot_that_is_not_what_the_entries_say(tmp_path: Path) -> None:
    machine = PartitionMachine()
    for index, data in enumerate((CREATED, published(b"one", b"two")), 1):
        machine.apply(index, data)
    members = Membership(frozenset(NAMES))
    right = b"".join(SnapshotBody(2, 0, array("Q", (2, 2)), members, machine.snapshot()).encode())
    records = [entry(1, CREATED), entry(2, published(b"one", b"two"))]
    made(tmp_path / "n1", *records, Written(RecordKind.SNAPSHOT, 2, 1, right))
    assert verdict_of(tmp_path).kept
    machine.apply(3, owned(encode_purge(5, [(1, 1)])))
    wrong = b"".join(SnapshotBody(2, 0, array("Q", (2, 2)), members, machine.snapshot()).encode())
    made(tmp_path / "n2", *records, Written(RecordKind.SNAPSHOT, 2, 1, wrong))
    (found,) = verdict_of(tmp_path).violations
    assert (found.promise, found.node) == (Promise.STATES_AGREE, "n2")
    made(tmp_path / "alone" / "n2", *records, Written(RecordKind.SNAPSHOT, 2, 1, wrong))
    (found,) = verdict_of(tmp_path / "alone").violations
    assert found.found == "at entry 2 queue 5 has 1 messages in the snapshot, not 2"


@pytest.mark.requirement("F8.6")
@pytest.mark.parametrize("messages", [2, 1])
@pytest.mark.parametrize("notes", [[NoteKind.KEEP], [NoteKind.KEEP, NoteKind.BLAKE3]])
def test_a_snapshot_of_queues_with_a_history_is_read_to_its_end(
    tmp_path: Path, messages: int, notes: list[NoteKind]
) -> None:
    machine = PartitionMachine()
    noted = owned(*(encode_note(HistoryNote(kind, 5, 5)) for kind in notes))
    entries = CREATED, noted, published(b"one", b"two")
    for index, data in enumerate(entries, 1):
        machine.apply(index, data)
    assert machine.chronicle.kept
    if messages == 1:
        machine.apply(4, owned(encode_purge(5, [(1, 1)])))
    members = Membership(frozenset(NAMES))
    snapshot = b"".join(SnapshotBody(3, 0, array("Q", (1, 3)), members, machine.snapshot()).encode())
    records = [entry(index, data) for index, data in enumerate(entries, 1)]
    made(tmp_path / "n1", *records, Written(RecordKind.SNAPSHOT, 3, 1, snapshot))
    verdict = verdict_of(tmp_path)
    assert (verdict.kept, verdict.damage, verdict.unknown) == (messages == 2, [], 0)


@pytest.mark.requirement("F8.6")
def test_a_segment_that_a_running_node_frees_costs_no_false_word(tmp_path: Path) -> None:
    """The segment that is gone had superseded an entry which was never committed."""
    made(tmp_path / "n1", entry(1, CREATED), entry(2, published(b"one"), term=2))
    stale = segment_of([[entry(1, CREATED), entry(2, published(b"other"))]], 1, sealed=True)
    state = Written(RecordKind.HARD_STATE, 2, 2, encode_hard_state(HardState(2, "n1")))
    (tmp_path / "n2").mkdir()
    (tmp_path / "n2" / "0000000001.segment").write_bytes(stale)
    (tmp_path / "n2" / "0000000003.segment").write_bytes(segment_of([[state]], 3))
    first, last = segments_in(tmp_path / "n2")
    freed = first._replace(number=2, path=str(tmp_path / "n2" / "0000000002.segment"))
    verdict = audit([segments_in(tmp_path / "n1"), [first, freed, last]])
    assert (verdict.violations, verdict.unread) == ([], [freed.path])
    assert f"not read, as the node has freed it: {freed.path}" in "\n".join(verdict.lines())
