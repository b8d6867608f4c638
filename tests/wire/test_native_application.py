"""The application-properties that C finds are those that its twin in Python decodes."""

from __future__ import annotations

from array import array
from itertools import accumulate, pairwise
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.message.run import Run
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.facts import Amqp10Facts, properties_of_key
from node.wire.amqp10.message_format import Amqp10Format
from tests.wire import native
from tests.wire.application_properties import (
    BODY,
    NAMES,
    ODD_NAMES,
    OTHERS,
    SMALL_HEADER,
    VALUES,
    properties,
)

WANTED = ("n", "kind", "absent")
HEADS = [b"", SMALL_HEADER, b"\x00\x53\x70\x45", SMALL_HEADER + d.Properties(message_id="one").encode()]

values = st.one_of(st.sampled_from(VALUES), st.sampled_from(VALUES), st.sampled_from(VALUES + OTHERS))
names = st.one_of(st.sampled_from(NAMES[:4]), st.sampled_from(NAMES[:4]), st.sampled_from(NAMES + ODD_NAMES))


@st.composite
def sections(draw: st.DrawFn) -> bytes:
    pairs = [part for _ in range(draw(st.integers(0, 4))) for part in (draw(names), draw(values))]
    count = draw(st.sampled_from([None] * 8 + [0, 1, 2, 9]))
    return properties(*pairs, wide=draw(st.booleans()), count=count)


messages = st.builds(
    lambda head, section, body: head + section + body,
    st.sampled_from(HEADS),
    st.one_of(sections(), sections(), sections(), st.sampled_from([b"", b"\x00\x53\x74\x45"])),
    st.sampled_from([BODY, BODY, b""]),
).filter(bool)


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return native.load(native.build("_application", tmp_path_factory.mktemp("native"), "-O2"))


def run_of(octets: list[bytes], skip: int) -> Run:
    whole = [bytes(skip) + one for one in octets]
    lengths = array("I", map(len, whole))
    return Run("", "q", 0, True, len(whole), skip, 0, lengths, max(lengths), b"".join(whole), True, 1)


def decoded(run: Run) -> list[Any]:
    """The wanted properties of each message, as the twin decodes them."""
    found = []
    for index in range(run.count):
        one = run.slice(index, 1)
        _, _, head = next(Amqp10Format().properties_in(one))
        facts = Amqp10Facts(one, head)
        found.append([facts.application(name) for name in WANTED])
    return found


@given(st.lists(messages, min_size=1, max_size=5), st.sampled_from([0, 7]))
def test_keys_tell_the_properties_that_the_twin_decodes(
    reading: ModuleType, octets: list[bytes], skip: int
) -> None:
    run = run_of(octets, skip)
    found = reading.property_keys(run.raw, skip, run.lengths, tuple(name.encode() for name in WANTED))
    if found is None:
        return
    assert [first for first, _, _ in found] == [0, *accumulate(count for _, count, _ in found)][:-1]
    assert all(one[2] != other[2] for one, other in pairwise(found))
    told = []
    for _, count, key in found:
        facts = Amqp10Facts(run, b"", properties_of_key(key, WANTED))
        told += [[facts.application(name) for name in WANTED]] * count
    assert repr(told) == repr(decoded(run))


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("wide", [False, True])
def test_usual_values_are_found_without_the_twin(reading: ModuleType, value: bytes, wide: bool) -> None:
    other = properties(NAMES[3], b"\xa1\x01z", NAMES[0], value, NAMES[1], b"\x41", wide=wide)
    run = run_of([SMALL_HEADER + other + BODY] * 3, 0)
    ((first, count, key),) = reading.property_keys(run.raw, 0, run.lengths, (b"n", b"kind"))
    assert (first, count) == (0, 3)
    assert properties_of_key(key, ("n", "kind"))["kind"] is True


NUMBERS = [
    b"\x43", b"\x44", b"\x50\xff", b"\x51\xff", b"\x52\xff", b"\x53\xff", b"\x54\x80", b"\x55\x80",
    b"\x60\xff\xff", b"\x61\xff\xff", b"\x70\xff\xff\xff\xff", b"\x71\xff\xff\xff\xfe",
    b"\x80\x7f" + b"\xff" * 7, b"\x81\x80" + bytes(7),
]  # fmt: skip
NO_NUMBERS = [b"\x80\x80" + bytes(7), b"\x40", b"\x41", b"\x83" + bytes(8), b"\x72" + bytes(4), b"\xa1\x011"]


@given(
    st.lists(st.sampled_from([*NUMBERS, *NUMBERS, *NO_NUMBERS, None]), min_size=1, max_size=5),
    st.booleans(),
    st.sampled_from([0, 7]),
)
def test_integers_of_a_property_are_those_that_the_twin_decodes(
    reading: ModuleType, numbers: list[bytes | None], wide: bool, skip: int
) -> None:
    octets = [
        SMALL_HEADER
        + properties(NAMES[1], b"\x41", *([] if number is None else [NAMES[0], number]), wide=wide)
        + BODY
        for number in numbers
    ]
    run = run_of(octets, skip)
    found = reading.integers(run.raw, skip, run.lengths, (b"n",))
    assert (found is not None) is all(number in NUMBERS for number in numbers)
    if found is not None:
        read = [value for _, count, value in found for _ in range(count)]
        assert repr(read) == repr([int(row[0]) for row in decoded(run)])
        assert [first for first, _, _ in found] == [0, *accumulate(count for _, count, _ in found)][:-1]
        assert all(one[2] != other[2] for one, other in pairwise(found))


def test_integers_are_of_one_property(reading: ModuleType) -> None:
    for names in ((), (b"n", b"kind")):
        with pytest.raises(ValueError, match="one name"):
            reading.integers(b"", 0, array("I"), names)


@pytest.mark.parametrize("value", OTHERS)
def test_other_values_are_left_to_the_twin(reading: ModuleType, value: bytes) -> None:
    run = run_of([SMALL_HEADER + properties(NAMES[0], value) + BODY], 0)
    assert reading.property_keys(run.raw, 0, run.lengths, (b"n",)) is None


def test_a_name_that_stands_twice_is_left_to_the_twin(reading: ModuleType) -> None:
    run = run_of([properties(NAMES[3], b"\x41", NAMES[3], b"\x42") + BODY], 0)
    assert reading.property_keys(run.raw, 0, run.lengths, (b"n",)) is None


def test_wrong_lengths_are_refused(reading: ModuleType) -> None:
    for skip, lengths in ((0, [5]), (2, [1]), (-1, [1])):
        with pytest.raises(ValueError, match=r"octets in front|not those of the run's"):
            reading.property_keys(b"abc", skip, array("I", lengths), (b"n",))
        with pytest.raises(ValueError, match=r"octets in front|not those of the run's"):
            reading.integers(b"abc", skip, array("I", lengths), (b"n",))
