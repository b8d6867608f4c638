"""Options and columns of the sink of epochs, rows as messages, and tasks that stage them (F8)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika.frame import Body

from pipeline.log.nodes import LogApiError
from pipeline.log.posting import LARGEST_BLOCK
from pipeline.log.sink_options import SinkOptions, checked_sink_options
from pipeline.log.sink_rows import RowEncoder, SinkRow, check_sink_columns
from pipeline.log.sinks import BranchWriter, RowError, SinkClient, SinkPlace
from pipeline.message.encoding import BODY_FRAME_OCTETS
from pipeline.message.runs import content_of
from pipeline.options import OptionError
from tests.messages import content

pytestmark = pytest.mark.requirement("F8.4")

GIVEN = {"url": "http://n1:15672", "user": "writer"}


def options(**others: str) -> SinkOptions:
    return checked_sink_options({**GIVEN, **others})


WRONG: dict[str, dict[str, str]] = {
    "the option queues is not known; queue is": {"queues": "q"},
    "a secret is no option, as plans and event logs show passWord": {"passWord": "p"},
    "the option user is missing": {"user": ""},
    "unroutable is fail or drop, not keep": {"unroutable": "keep"},
    "queue and exchange: messages go to a queue": {"queue": "q", "exchange": "e"},
    "blockBytes is 8388608 at most": {"blockBytes": "8388609"},
    "blockBytes is a number above 0": {"blockBytes": "0"},
}


def test_a_streaming_query_may_have_a_name_and_a_checkpoint() -> None:
    """Spark hands both on to the sink, in names of lower case."""
    assert options(queryname="copy", checkpointlocation="/data/copy") == options()


@pytest.mark.parametrize("text", WRONG)
def test_wrong_options_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match=text):
        options(**WRONG[text])


@pytest.mark.parametrize(
    ("names", "others", "text"),
    [
        ("queue bodi", {}, "the sink has no column bodi; body is"),
        ("queue", {}, "either a column body or a column raw"),
        ("queue body raw", {}, "either a column body or a column raw"),
        ("queue raw headers", {}, "the column headers is too much"),
        ("queue routing_key body", {}, "to a queue, or by a routing_key to an exchange"),
        ("queue body", {"exchange": "e"}, "to a queue, or by a routing_key to an exchange"),
        ("queue body", {"queue": "q"}, "queue is a column and an option"),
        ("body", {}, "a frame has a column queue, or exchange and routing_key"),
        ("exchange body", {}, "a frame has a column queue, or exchange and routing_key"),
        ("exchange routing_key body", {"exchange": "e"}, "a frame has a column queue, or exchange"),
    ],
)
def test_columns_tell_what_messages_are_and_where_they_go(
    names: str, others: dict[str, str], text: str
) -> None:
    with pytest.raises(OptionError, match=text):
        check_sink_columns(names.split(), options(**others))


def rows(names: str, *values: Sequence[Any], **others: str) -> list[SinkRow]:
    check_sink_columns(names.split(), options(**others))
    columns = list(zip(*values, strict=True))
    return list(RowEncoder(names.split(), options(**others)).rows(columns, 10))


def test_rows_are_messages() -> None:
    [plain] = rows("body", [b"b"], queue="q")
    assert plain[:2] == ("", "q") and content_of(0, plain.raw) == ({"delivery_mode": 2}, {}, b"b")
    given = {"message_id": "m", "priority": None, "delivery_mode": 1}
    found = rows(
        "routing_key exchange headers properties body",
        ["k", "e", [("n", "1"), ("none", None)], given, b"1"],
        ["k", "", None, None, b""],
        ["k", "e", {"n": "1", "none": None}, given, b"2"],
    )
    assert [one[:2] for one in found] == [("e", "k"), ("", "k"), ("e", "k")]
    told = [content_of(0, one.raw) for one in found]
    assert told[0] == ({"message_id": "m", "delivery_mode": 1}, {"n": "1", "none": None}, b"1")
    assert told[1] == ({"delivery_mode": 2}, {}, b"") and told[2] == told[0]._replace(body=b"2")
    [raw] = rows("queue raw", ["q", content(b"x", headers={"deep": [1]})])
    assert raw == SinkRow("", "q", content(b"x", headers={"deep": [1]}))


@pytest.mark.parametrize("length", [0, 1, 256, 256, BODY_FRAME_OCTETS, BODY_FRAME_OCTETS + 1])
def test_a_body_of_any_length_is_encoded_as_clients_do(length: int) -> None:
    body = bytes(length)
    frames = [body[at : at + BODY_FRAME_OCTETS] for at in range(0, length, BODY_FRAME_OCTETS)]
    expected = content(body, delivery_mode=2)[: len(content(b"", delivery_mode=2))]
    expected += b"".join(Body(1, one).marshal() for one in frames)
    assert rows("body", [body], queue="q")[0].raw == expected


@pytest.mark.parametrize(
    ("names", "values", "text"),
    [
        ("queue body", ["q", None], "row 11 of the task: body is null"),
        ("queue body", [None, b""], "row 11 of the task: queue is null"),
        ("exchange routing_key raw", ["e", None, b""], "row 11 of the task: routing_key is null"),
        ("queue body properties", ["q", b"", {"priority": 300}], "row 11 of the task: the property priority"),
    ],
)
def test_a_row_that_is_no_message_is_named(names: str, values: list[Any], text: str) -> None:
    right = {"queue": "q", "body": b"", "raw": content(b""), "exchange": "e", "routing_key": "k"}
    with pytest.raises(RowError, match=text) as caught:
        rows(names, [right.get(name) for name in names.split()], values)
    assert caught.value.row == 11


class Ledger(SinkClient):
    """A ledger that answers by a script."""

    def __init__(self, *answers: Mapping[str, Any] | LogApiError) -> None:
        super().__init__(["http://n1"], "u", "p")
        self.answers, self.staged = list(answers), list[tuple[int, ...]]()

    def stage(
        self, vhost: str, sink: str, epoch: int, name: Sequence[int], block: bytes, unroutable: str
    ) -> Mapping[str, Any]:
        self.staged.append((epoch, *name))
        answer = self.answers.pop(0)
        if isinstance(answer, LogApiError):
            raise answer
        return answer


def written(ledger: Ledger, count: int) -> Any:
    writer = BranchWriter(ledger, SinkPlace("/", "s", 3, "fail", 100), 5, 77)
    for _ in range(count):
        writer.write("", "q", content(b"x" * 50))
    return writer.finish()


def test_a_task_stages_its_rows_in_branches() -> None:
    told = {"state": "staged", "rows": 1, "unroutable": 1}
    ledger = Ledger(told, told, told)
    assert written(ledger, 3) == (5, 77, 3, 3, 3)
    assert ledger.staged == [(3, 5, 77, 0), (3, 5, 77, 1), (3, 5, 77, 2)]
    assert written(Ledger(), 0) == (5, 77, 0, 0, 0)


def test_a_task_of_an_epoch_that_is_committed_stages_nothing_more() -> None:
    ledger = Ledger({"state": "committed", "rows": 1, "unroutable": 0})
    assert written(ledger, 3).rows == 3 and len(ledger.staged) == 1


def test_a_row_that_a_node_refuses_is_counted_in_its_task() -> None:
    told = {"state": "staged", "rows": 1, "unroutable": 0}
    refusal = LogApiError(400, {"reason": "unroutable", "row": 0})
    with pytest.raises(RowError, match="row 2 of the task: unroutable"):
        written(Ledger(told, told, refusal), 3)
    with pytest.raises(LogApiError, match="full"):
        written(Ledger(LogApiError(400, {"reason": "full"})), 1)


class Kept(Ledger):
    """A ledger that takes each block, and keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = list[bytes]()

    def stage(
        self, vhost: str, sink: str, epoch: int, name: Sequence[int], block: bytes, unroutable: str
    ) -> Mapping[str, Any]:
        self.blocks.append(block)
        return {"state": "staged", "rows": 1, "unroutable": 0}


@given(
    st.lists(
        st.tuples(st.sampled_from(("q", "other")), st.lists(st.binary(max_size=60), min_size=1, max_size=9)),
        max_size=6,
    ),
    st.sampled_from((1, 100, 300, 1 << 20)),
)
def test_rows_written_together_are_in_the_blocks_of_single_rows(
    stretches: list[tuple[str, list[bytes]]], octets: int
) -> None:
    ledgers = Kept(), Kept()
    single, together = (BranchWriter(one, SinkPlace("/", "s", 3, "fail", octets), 5, 77) for one in ledgers)
    for queue, bodies in stretches:
        raws = [content(body) for body in bodies]
        for raw in raws:
            single.write("", queue, raw)
        together.write_alike("", queue, memoryview(b"".join(raws)), array("I", map(len, raws)))
    assert single.row == together.row and single.finish() == together.finish()
    assert ledgers[0].blocks == ledgers[1].blocks


def test_a_row_among_others_that_no_block_has_room_for_is_named() -> None:
    writer = BranchWriter(Kept(), SinkPlace("/", "s", 3, "fail", 1000), 5, 77)
    raws = [content(b"x"), content(b"y"), content(b"z" * LARGEST_BLOCK)]
    with pytest.raises(RowError, match="row 2 of the task: a message of 25165854 octets") as caught:
        writer.write_alike("", "q", memoryview(b"".join(raws)), array("I", map(len, raws)))
    assert caught.value.row == 2
    with pytest.raises(RowError, match="row 3 of the task: a name of 256 octets"):
        rest = BranchWriter(Kept(), SinkPlace("/", "s", 3, "fail", 1000), 5, 77)
        rest.write_alike("", "q", memoryview(raws[0] * 3), array("I", [len(raws[0])] * 3))
        rest.write_alike("", "k" * 256, memoryview(raws[0]), array("I", [len(raws[0])]))


def test_raw_that_is_cut_short_is_named() -> None:
    with pytest.raises(RowError, match="row 0 of the task: a message that is cut short"):
        writer = BranchWriter(Kept(), SinkPlace("/", "s", 3, "fail", 1000), 5, 77)
        writer.write("", "q", b"\2\0\1")
