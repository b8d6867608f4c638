"""The decoder of operations beside the broker's encoders: every kind that a log may have."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.message.reason import Reason
from node.queue import operations as broker
from node.queue.decision_format import (
    encode_advance,
    encode_annotate,
    encode_forget_ids,
    encode_lent,
    encode_make_reader,
    encode_note,
    encode_refer,
    encode_refuse,
    encode_remark,
    encode_remember_ids,
    encode_remove,
    encode_retention_passed,
    encode_target,
    encode_transfer,
    encode_transferred,
)
from node.queue.entry_format import (
    encode_attach,
    encode_batch,
    encode_create_queue,
    encode_detach,
    encode_discard,
    encode_drop_queue,
    encode_entry,
    encode_forget,
    encode_mark,
    encode_publish,
    encode_purge,
    encode_return,
    encode_seal_queue,
    encode_settle,
)
from node.queue.epoch_operations import BranchName, EpochStep, UpdateEpoch, encode_epoch
from node.queue.history_notes import HistoryNote, NoteKind
from node.queue.operations import Aspect, Lent, Semantics
from node.queue.remarks import Remark, Subject
from node.queue.subscriptions import Advance, MakeReader, MaxLag, RetentionPassed
from node.queue.take_operations import TakeStep, UpdateTake, encode_take
from node.queue.targets import TargetStep, UpdateTarget
from node.queue.told_rows import TellRows, encode_tell_rows
from node.queue.transaction_format import (
    encode_abandon,
    encode_conclude,
    encode_decide,
    encode_decided,
    encode_end,
    encode_prepare,
    encode_prepared,
)
from node.queue.transaction_operations import Decided, Prepared, TransactionKey
from node.queue.transfers import Transfer
from node.wire.formats import FORMATS
from pipeline.journal.kinds import ACTIONS, ASPECTS, REASONS, OpKind, kind_name
from pipeline.journal.operations import Operation, Publish, Unknown, batches_in, operations_in
from pipeline.message.runs import messages_of
from pipeline.octets.cursor import MalformedError
from tests.messages import content, run_of
from tests.pipeline.journals import entry, segment_of, tables_of
from tests.queue.building import RUNS

KEY = TransactionKey(9, 4)
TRANSACTION = {"front_end": 9, "number": 4}
PARTS = [(1, 3), (7, 7)]
LINK = b"\0\0\0\x1elink"
SETTLED = encode_settle(5, PARTS)

KINDS: dict[str, tuple[bytes, int | None, list[tuple[int, int]], Mapping[str, Any]]] = {
    "settle": (encode_settle(5, [(2, 4)]), 5, [(2, 4)], {}),
    "return": (encode_return(5, PARTS, False), 5, PARTS, {}),
    "return_failed": (encode_return(5, PARTS, True), 5, PARTS, {}),
    "return_cancelled": (encode_return(5, PARTS, True, cancelled=True), 5, PARTS, {}),
    "discard": (encode_discard(5, PARTS), 5, PARTS, {}),
    "purge": (encode_purge(5, PARTS), 5, PARTS, {}),
    "mark": (encode_mark(5, 77), 5, [], {"number": 77}),
    "attach": (encode_attach(5, 9), 5, [], {"front_end": 9}),
    "attach_consumer": (encode_attach(5, 9, True), 5, [], {"front_end": 9}),
    "detach": (encode_detach(5, 9), 5, [], {"front_end": 9}),
    "create_queue": (encode_create_queue(5, Semantics.AT_MOST_ONCE), 5, [], {"semantics": 1}),
    "drop_queue": (encode_drop_queue(5), 5, [], {}),
    "forget": (encode_forget(9), None, [], {"front_end": 9}),
    "annotate": (
        encode_annotate(5, Aspect.DUE, [(1, 3, 50), (7, 7, 60)]), 5, PARTS,
        {"aspect": 3, "values": array("Q", (50, 60))},
    ),
    "remove": (encode_remove(5, Reason.EXPIRED, PARTS), 5, PARTS, {"reason": 2}),
    "refuse": (encode_refuse(9, 4, PARTS), None, [], {"front_end": 9, "number": 4, "places": PARTS}),
    "transfer": (
        encode_transfer(3, Transfer(5, 4, (8, 9), tuple(PARTS))), 5, PARTS,
        {"partition": 3, "number": 4, "targets": [8, 9]},
    ),
    "transferred": (encode_transferred(3, 4), None, [], {"partition": 3, "number": 4}),
    "seal_queue": (encode_seal_queue(5, 77), 5, [], {"through": 77}),
    "under_lease": (encode_settle(5, PARTS, token=6), 5, PARTS, {"token": 6}),
    "modified": (
        encode_return(5, PARTS, True, token=6, annotations=b"map"), 5, PARTS,
        {"token": 6, "annotations": b"map"},
    ),
    "remark": (
        encode_remark(Remark(5, Subject.LINK, PARTS, b"octets")), 5, PARTS,
        {"subject": 2, "octets": b"octets"},
    ),
    "target": (
        encode_target(UpdateTarget(5, 9, 4, TargetStep.RECEIVED, LINK, (b"a", b"bc"))), 5, [],
        {"front_end": 9, "number": 4, "step": 4, "link": LINK, "tags": [b"a", b"bc"]},
    ),
    "refer": (encode_refer(5, 6, 1, 9), 5, [(1, 9)], {"source": 6}),
    "advance": (encode_advance(Advance(5, b"reader", 77)), 5, [], {"number": 77, "name": b"reader"}),
    "reader": (
        encode_make_reader(MakeReader(5, b"reader", 77, MaxLag(1, 2, 3))), 5, [],
        {"step": 1, "number": 77, "messages": 1, "octets": 2, "milliseconds": 3, "name": b"reader"},
    ),
    "rows": (
        encode_tell_rows(OpKind.ROWS, TellRows(5, ((b"[1]", 7), (b"", 0)))), 5, [],
        {"rows": [(b"[1]", 7), (b"", 0)]},
    ),
    "note": (
        encode_note(HistoryNote(NoteKind.LEASED, 5, 9, 16, tuple(PARTS))), 5, PARTS,
        {"note": 3, "first": 9, "second": 16},
    ),
    "lent": (encode_lent(Lent(5, 2, PARTS)), 5, PARTS, {"failures": 2}),
    "epoch": (
        encode_epoch(
            OpKind.EPOCH,
            UpdateEpoch(
                5, EpochStep.STAGED, 3, BranchName(1, 2, 4), TransactionKey(6, 7), 8, (9, 10)
            ),
        ), 5, [], {
            "step": 1, "epoch": 3, "task": 1, "branch": 4, "attempt": 2, "front_end": 6, "number": 7,
            "time": 8, "participants": [9, 10],
        },
    ),
    "take": (
        encode_take(OpKind.TAKE, UpdateTake(5, TakeStep.TAKEN, b"r", 3, 70, tuple(PARTS))), 5, PARTS,
        {"step": 1, "number": 3, "name": b"r", "time": 70},
    ),
    "remember_ids": (encode_remember_ids(5, 70, [bytes(16)] * 2), 5, [], {"time": 70, "count": 2}),
    "forget_ids": (encode_forget_ids(5, 70), 5, [], {"time": 70}),
    "prepare": (b"".join(encode_prepare(4, 3, [SETTLED])), None, [], {"number": 4, "coordinator": 3}),
    "decide": (
        b"".join(encode_decide(4, [2, 3], [SETTLED])), None, [], {"number": 4, "participants": [2, 3]},
    ),
    "prepared": (
        encode_prepared(Prepared(KEY, 3, ((5, 1, 3), (6, 1, 3)), SETTLED)), None, [],
        {**TRANSACTION, "coordinator": 3, "published": [(5, 1, 3), (6, 1, 3)],
         "settled": [Operation(29 + 34 + 48, 2, 5, PARTS)]},
    ),
    "decided": (encode_decided(Decided(KEY, (2, 3))), None, [], {**TRANSACTION, "participants": [2, 3]}),
    "conclude": (encode_conclude(KEY, True), None, [], {**TRANSACTION, "committed": True}),
    "end": (encode_end(KEY), None, [], TRANSACTION),
    "abandon": (encode_abandon(KEY), None, [], TRANSACTION),
}  # fmt: skip
"""The octets of one operation of each kind but PUBLISH, with its queue, messages and other fields."""

WRAPPING = {"under_lease": OpKind.SETTLE, "modified": OpKind.RETURN_FAILED}
"""The kinds that stand in front of another operation."""


def read(*operations: bytes) -> list[Any]:
    """The operations of an entry with one batch."""
    data = encode_entry([encode_batch(0, 0, 1, operations)])
    return [one for batch in batches_in(data) for one in operations_in(data, batch.start, batch.end)]


@pytest.mark.requirement("F8.2")
@pytest.mark.parametrize("name", KINDS)
def test_an_operation_has_the_fields_that_the_broker_wrote(name: str) -> None:
    octets, queue, ranges, fields = KINDS[name]
    found, behind = read(octets, encode_forget(1))
    assert found.kind == WRAPPING.get(name, OpKind[name.upper()])
    assert (found.queue, found.ranges) == (queue, ranges)

    assert dict(found.fields) == dict(fields)
    assert kind_name(behind.kind) == "forget"


@pytest.mark.requirement("F8.2")
def test_the_end_of_a_take_has_no_messages() -> None:
    found, behind = read(
        encode_take(OpKind.TAKE, UpdateTake(5, TakeStep.COMMITTED, b"name", 3)), encode_forget(1)
    )
    assert (found.queue, found.ranges) == (5, []) and kind_name(behind.kind) == "forget"
    assert dict(found.fields) == {"step": 2, "number": 3, "name": b"name"}


@pytest.mark.requirement("F8.2")
def test_the_removals_of_retention_have_a_number_and_a_count() -> None:
    (found,) = read(encode_retention_passed(RetentionPassed(5, 77, 9)))
    assert (found.kind, found.queue, found.ranges) == (OpKind.READER, 5, [])
    assert dict(found.fields) == {"step": 2, "number": 77, "messages": 9}


@pytest.mark.requirement("F8.2")
def test_a_discard_may_have_annotations() -> None:
    (found,) = read(encode_discard(5, PARTS, token=6, annotations=b"map"))
    assert (found.kind, found.queue, found.ranges) == (OpKind.DISCARD, 5, PARTS)
    assert dict(found.fields) == {"token": 6, "annotations": b"map"}


@pytest.mark.requirement("F8.2")
def test_the_kinds_are_those_of_the_broker() -> None:
    assert {kind.name: int(kind) for kind in OpKind} == {kind.name: int(kind) for kind in broker.OpKind}
    assert {"publish", *KINDS} == {kind.name.lower() for kind in broker.OpKind}
    assert {int(one): one.name.lower() for one in Aspect} == ASPECTS
    assert {int(one): one.name.lower() for one in Reason} == REASONS
    assert set(ACTIONS) <= set(map(int, OpKind))


@pytest.mark.requirement("F8.2")
@given(RUNS)
def test_a_publish_has_the_messages_that_the_broker_wrote(run: Any) -> None:
    data = encode_entry([encode_batch(0, 0, 1, encode_publish(run, (5, 6)))])
    (batch,) = batches_in(data)
    (publish,) = operations_in(data, batch.start, batch.end)
    assert isinstance(publish, Publish)
    assert (publish.queues, publish.messages, publish.exchange) == ((5, 6), run.count, run.exchange.encode())
    found = list(messages_of(data, publish))
    assert [one.raw for one in found] == list(run.contents())
    if run.routing_key is not None:
        assert {one.routing_key for one in found} == {run.routing_key.encode()}
    else:
        keys = FORMATS[run.format].routing_keys(run)
        assert [one.routing_key.decode() for one in found] == keys


@pytest.mark.requirement("F8.2")
@pytest.mark.parametrize(("step", "number"), [(1, 7), *((step, None) for step in EpochStep if step != 1)])
def test_each_step_of_an_epoch_is_a_row(step: int, number: int | None) -> None:
    """A staged branch alone has the number of a transaction."""
    branch = (BranchName(1, 2, 4), TransactionKey(6, 7), 8, (9, 10)) if number else ()
    data = encode_epoch(OpKind.EPOCH, UpdateEpoch(5, EpochStep(step), 3, *branch))
    tables = tables_of(segment_of([[entry(1, encode_entry([encode_batch(0, 0, 0, [data])]))]]))
    (row,) = tables.operations()
    assert (row.action, row.kind, row.queue, row.transaction) == ("transaction", "epoch", 5, number)


@pytest.mark.requirement("F8.2")
@pytest.mark.parametrize("newer", [b"\x63rest", encode_end(KEY).replace(b"\x2d\x01", b"\x2d\x02", 1)])
def test_an_operation_of_a_newer_release_is_unknown_and_no_damage(newer: bytes) -> None:
    """The rest of its batch is not read. The next batch is, and states the numbers of its messages."""
    run = run_of([content(b"one"), content(b"two")])
    batches = [
        encode_batch(0, 0, 0, [encode_settle(5, PARTS), newer, encode_forget(1)]),
        encode_batch(9, 4, 70, encode_publish(run, (5,))),
    ]
    tables = tables_of(segment_of([[entry(1, encode_entry(batches))]]))
    rows = list(tables.operations())
    assert [(row.kind, row.action) for row in rows] == [
        ("settle", "settle"), ("settle", "settle"),
        ("end" if newer[0] == OpKind.END else "unknown(99)", "unknown"), ("publish", "publish"),
    ]  # fmt: skip
    assert (rows[-1].first, rows[-1].last) == (70, 71)
    assert [row.sequence for row in tables.messages()] == [70, 71]
    assert list(tables.damage()) == []


@pytest.mark.requirement("F8.2")
def test_kinds_of_records_and_entries_of_a_newer_release_are_unknown_and_no_damage() -> None:
    records = [entry(1, b"\x01"), entry(2, b"?", kind=9), entry(3, b"?", entry_kind=7), entry(4, b"\x01")]
    tables = tables_of(segment_of([records]))
    assert [row.what for row in tables.raft()] == ["unknown(9)"]
    assert [(row.log_index, row.kind) for row in tables.entries()] == [
        (1, "normal"), (3, "unknown(7)"), (4, "normal"),
    ]  # fmt: skip
    assert list(tables.damage()) == []


@pytest.mark.requirement("F8.2")
@given(st.sampled_from(sorted(KINDS)), st.data())
def test_an_operation_that_is_cut_short_or_changed_decodes_or_is_malformed(name: str, data: Any) -> None:
    octets = bytearray(KINDS[name][0])
    octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(octets[: data.draw(st.integers(1, len(octets)))])
    try:
        found = list(operations_in(cut, 0, len(cut)))
    except MalformedError as error:
        assert 0 <= error.at <= len(cut)
    else:
        assert all(isinstance(one, Operation | Publish | Unknown) for one in found)
