"""Messages that C gives their places in a stream are those that its twin in Python makes."""

from __future__ import annotations

from array import array
from types import ModuleType
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.message.run import OWN_METHODS, Run
from node.message.streams import X_STREAM_OFFSET
from node.wire.amqp091 import rewriting
from node.wire.amqp091.contents import properties_in, read_headers_property
from tests.wire import native
from tests.wire.client import split
from tests.wire.property_lists import SURE, VALID, listed, short, table_of
from tests.wire.test_native_properties import is_valid, one_by_one, run_with

NAMES = [b"n", b"trace", b"x-delay", X_STREAM_OFFSET.encode()]
VALUES = [
    b"V",
    b"I\0\0\0\7",
    b"S" + table_of(b"red"),
    b"F" + table_of(b"\1aV"),
    b"A" + table_of(b"V"),
    b"D" + bytes(5),
]
fields = st.tuples(st.sampled_from(NAMES[:3]) | st.sampled_from(NAMES), st.sampled_from(VALUES))
tables = st.lists(fields, max_size=5).map(
    lambda found: table_of(*(short(name) + value for name, value in found))
)
lists = (
    st.sampled_from(VALID).filter(is_valid)
    | tables.map(lambda table: listed(0x2000, table))
    | tables.map(lambda table: listed(0xB100, short(b"text"), table, b"\2", short(b"60000")))
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return native.load(native.build("_properties", tmp_path_factory.mktemp("native"), "-O2"))


def told(run: Run, first: int, by: object) -> Run:
    with mock.patch.object(rewriting, "NATIVE_OFFSETS", by):
        return rewriting.with_offsets(run, first)


@given(
    st.lists(lists, min_size=1, max_size=5),
    st.sampled_from([OWN_METHODS, 0, 3]),
    st.integers(0, 1 << 62),
    st.integers(0, 300),
)
def test_places_are_written_as_by_the_twin(
    made: ModuleType, properties: list[bytes], skip: int, first: int, size: int
) -> None:
    run = run_with(properties, skip, bytes(size))
    found, wanted = told(run, first, made.offsets), told(run, first, None)
    assert found == wanted
    assert [
        read_headers_property(next(properties_in(one))[2])[X_STREAM_OFFSET] for one in one_by_one(found)
    ] == [*range(first, first + len(properties))]


@pytest.mark.parametrize("kind", SURE)
def test_what_applications_send_is_written_without_the_twin(made: ModuleType, kind: str) -> None:
    run = run_with([split(one)[1][19:-1] for one in SURE[kind]])
    assert made.offsets(run.raw, run.skip, run.each_length(), 1, 7) is not None


def test_a_place_that_is_there_is_left_to_the_twin(made: ModuleType) -> None:
    for fields in ([NAMES[3]], [NAMES[0], NAMES[0]]):
        run = run_with([listed(0x2000, table_of(*(short(name) + b"V" for name in fields)))])
        assert made.offsets(run.raw, run.skip, run.each_length(), 1, 7) is None


def test_wrong_lengths_are_refused(made: ModuleType) -> None:
    with pytest.raises(ValueError, match="not those of the run's"):
        made.offsets(b"abc", 0, array("I", [2]), 1, 7)
