"""Rows of Arrow batches that are encoded together, for the sink of epochs: blocks and errors are those of the
encoder of single rows (F8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.arrow import sink_batches
from pipeline.arrow.sink_batches import BatchEncoder
from pipeline.log.posting import MOST_RUNS
from pipeline.log.sink_options import SinkOptions, checked_sink_options
from pipeline.log.sink_rows import RowEncoder
from pipeline.log.sinks import BranchWriter, RowError, SinkClient, SinkPlace
from pipeline.message.encoding import BODY_FRAME_OCTETS
from tests.messages import content
from tests.wire.amqp10.sections import message
from tests.wire.client import publish

pytestmark = [pytest.mark.spark, pytest.mark.requirement("F8.4")]

GIVEN = {"url": "http://n1:15672", "user": "writer"}
METHOD = publish(1, b"").index(0xCE) + 1
PROPERTIES = pa.struct([("message_id", pa.string()), ("delivery_mode", pa.int32()), ("priority", pa.int32())])
KINDS = {
    "queue": pa.string(), "exchange": pa.string(), "routing_key": pa.string(), "body": pa.binary(),
    "properties": PROPERTIES, "headers": pa.map_(pa.string(), pa.string()), "raw": pa.binary(),
}  # fmt: skip
RAWS = [
    content(b"x"), content(b"other", delivery_mode=2), publish(257, b"y", properties=b"\0\0")[METHOD:],
    message(b""), content(b""),
]  # fmt: skip
NAMES = st.sampled_from(("q", "q", "q", "other", "ä", ""))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "queue": NAMES,
    "exchange": st.sampled_from(("", "e")),
    "routing_key": NAMES,
    "body": st.binary(min_size=1, max_size=60) | st.just(b"x" * 50),
    "properties": st.none()
    | st.fixed_dictionaries(
        {"message_id": st.sampled_from((None, "m", "n")), "delivery_mode": st.sampled_from((None, 1))},
        optional={"priority": st.integers(0, 9)},
    ),
    "headers": st.none()
    | st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from((None, "v"))), max_size=2),
    "raw": st.sampled_from(RAWS),
}
COLUMNS = (
    ("body",), ("queue", "body"), ("exchange", "routing_key", "body"), ("queue", "raw"), ("raw",),
    ("body", "queue", "properties"), ("headers", "body"),
    ("properties", "routing_key", "exchange", "headers", "body"),
)  # fmt: skip
ODD: dict[str, Sequence[Any]] = {
    "queue": (None, "k" * 256),
    "exchange": (None,),
    "routing_key": (None,),
    "body": (None, b"", b"x" * BODY_FRAME_OCTETS, b"x" * (BODY_FRAME_OCTETS + 1)),
    "properties": ({"message_id": "x" * 256}, {"priority": 256}),
    "headers": ([("n" * 256, "v")],),
    "raw": (None, b"", b"?", b"\2\0\1", message(b"")[:3], b"?" * 20),
}
"""Values of rows that the encoder of single rows judges."""


class Posted(SinkClient):
    """A ledger that takes each block."""

    def __init__(self) -> None:
        super().__init__(["http://n1"], "u", "p")
        self.blocks = list[bytes]()

    def stage(
        self, vhost: str, sink: str, epoch: int, name: Sequence[int], block: bytes, unroutable: str
    ) -> Mapping[str, Any]:
        self.blocks.append(block)
        return {"state": "staged", "unroutable": 0}


def options(names: Sequence[str]) -> SinkOptions:
    queue = {} if {"queue", "exchange"} & set(names) else {"queue": "q"}
    return checked_sink_options({**GIVEN, **queue})


def batch_of(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    arrays = [pa.array(list(column), KINDS[name]) for name, column in zip(names, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, list(names))


def written(names: Sequence[str], batches: Sequence[pa.RecordBatch], octets: int, together: bool) -> Any:
    """The blocks, and the error that has ended the writing."""
    client = Posted()
    writer = BranchWriter(client, SinkPlace("/", "s", 0, "fail", octets), 0, 0)
    encoder, single = BatchEncoder(names, options(names)), RowEncoder(names, options(names))
    error = None
    try:
        for batch in batches:
            if together:
                encoder.write(batch, writer)
            else:
                for row in single.rows([column.to_pylist() for column in batch.columns], writer.row):
                    writer.write(*row)
        writer.finish()
    except RowError as raised:
        error = raised.row, raised.reason
    return client.blocks, error


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[str, ...], list[pa.RecordBatch]]:
    """Columns, and batches of rows, of which some have an odd value, or begin in the middle of an array."""
    names = draw(st.sampled_from(COLUMNS))
    rows = draw(st.lists(st.tuples(*(VALUES[name] for name in names)), max_size=25))
    if rows and draw(st.sampled_from((False, False, True))):
        number, place = draw(st.integers(0, len(rows) - 1)), draw(st.integers(0, len(names) - 1))
        changed = list(rows[number])
        changed[place] = draw(st.sampled_from(ODD[names[place]]))
        rows[number] = tuple(changed)
    first = draw(st.integers(0, len(rows)))
    whole = batch_of(names, rows)
    return names, [whole.slice(0, first), whole.slice(first)]


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(table=tables(), octets=st.sampled_from((100, 400, 1 << 20)))
def test_blocks_and_errors_are_those_of_single_rows(table: Any, octets: int) -> None:
    names, batches = table
    assert written(names, batches, octets, True) == written(names, batches, octets, False)


@pytest.mark.parametrize("name", ODD)
def test_odd_rows_have_the_verdict_of_single_rows(name: str) -> None:
    usual = {"body": b"b", "queue": "q", "exchange": "e", "routing_key": "k", "raw": RAWS[0]}
    names = next(one for one in COLUMNS if name in one)
    for value in ODD[name]:
        rows = [[usual.get(one) for one in names] for _ in range(5)]
        rows[3][names.index(name)] = value
        batches = [batch_of(names, rows)]
        assert written(names, batches, 1 << 20, True) == written(names, batches, 1 << 20, False), value


def test_ordinary_rows_are_encoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each takes many times as long."""
    monkeypatch.setattr(RowEncoder, "rows", None)
    rows = [(b"x" * (1 + number % 9), "q") for number in range(2000)]
    blocks, error = written(("body", "queue"), [batch_of(("body", "queue"), rows)], 5000, True)
    assert error is None and len(blocks) > 10
    raws = [batch_of(("raw",), [(RAWS[number // 100],) for number in range(500)])]
    assert written(("raw",), raws, 1 << 20, True)[1] is None


def test_large_columns_are_encoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_batches, "PIECE_OCTETS", 1000)
    sizes = list[int]()
    joined = sink_batches.pc.binary_join_element_wise

    def join(*parts: Any) -> Any:
        sizes.append(len(parts[0]))
        return joined(*parts)

    monkeypatch.setattr(sink_batches.pc, "binary_join_element_wise", join)
    names, rows = ("body",), [(b"x" * (400 if number % 3 else 2000),) for number in range(50)]
    batch = batch_of(names, rows).slice(3)
    found = written(names, [batch], 1 << 20, True)
    assert sum(sizes) == 47 and max(sizes) == 2
    assert found == written(names, [batch], 1 << 20, False)


def test_a_block_has_no_more_runs_than_nodes_take() -> None:
    names = ("queue", "body")
    batch = batch_of(names, [("ab"[number % 2], b"x") for number in range(2 * MOST_RUNS + 10)])
    found = written(names, [batch], 1 << 20, True)
    assert len(found[0]) == 3
    assert found == written(names, [batch], 1 << 20, False)
