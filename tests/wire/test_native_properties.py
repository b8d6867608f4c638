"""The wishes and texts that C reads in property lists are those that its twin in Python reads."""

from __future__ import annotations

from array import array
from itertools import accumulate, pairwise
from types import ModuleType
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.message.run import OWN_METHODS, Run
from node.wire.amqp091 import methods as m
from node.wire.amqp091 import sender_selected
from node.wire.amqp091.contents import (
    asked_in,
    header_keys,
    headers_of_key,
    properties_in,
    read_headers_property,
    texts_in,
)
from node.wire.amqp091.errors import ProtocolException
from node.wire.amqp091.properties import PropertyChecks
from node.wire.amqp091.sender_selected import may_state_keys
from tests.wire import native
from tests.wire.client import publish, split
from tests.wire.property_lists import LONG_TEXT, SURE, VALID, listed, property_lists, short, table_of


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The module that reads properties."""
    return native.load(native.build("_properties", tmp_path_factory.mktemp("native"), "-O2"))


def run_with(lists: list[bytes], skip: int = 0, body: bytes = b"x") -> Run:
    """A run with lengths of one message for each of the property lists, which are valid."""
    whole = [
        split(publish(1, body, key="k" * (at % 9), properties=octets)) for at, octets in enumerate(lists)
    ]
    own = skip == OWN_METHODS
    pieces = [b"".join((one[0] if own else bytes(skip), *one[1:])) for one in whole]
    lengths, key = array("I", map(len, pieces)), None if own else "q"
    return Run("", key, 1, True, len(pieces), skip, 0, lengths, 60, b"".join(pieces), True)


def one_by_one(run: Run) -> list[Run]:
    """Each message as a run with a stride, of which the twin alone reads."""
    found = list[Run]()
    for content in run.contents():
        found.append(Run("", "q", 1, True, 1, 0, len(content), None, run.largest_frame, content, True))
    return found


def is_valid(properties: bytes) -> bool:
    try:
        PropertyChecks().traits(properties)
    except ProtocolException:
        return False
    return True


WISHES = [
    *[listed(0x2000, table_of(b"\x07x-delay" + bytes((kind,)) + b"\x7f" + bytes(7))) for kind in b"lLTd"],
    *[listed(0x2000, table_of(b"\x07x-delay" + bytes((kind,)) + b"\xff" * 8)) for kind in b"lLTd"],
    *[listed(0x2000, table_of(b"\x07x-delay" + bytes((kind,)) + b"\xff\0\0\1")) for kind in b"iIf"],
    *[listed(0x2000, table_of(b"\x07x-delay" + bytes((kind,)) + b"\0\1\0\1")) for kind in b"iI"],
    *[listed(0x2000, table_of(b"\x07x-delay" + bytes((kind,)) + b"\xff\1")) for kind in b"sUu"],
    *[listed(0x2000, table_of(b"\x07x-delay" + bytes((kind,)) + b"\x81")) for kind in b"bBt"],
    listed(0x2000, table_of(b"\x07x-delayV")),
    listed(0x2000, table_of(b"\x07x-delay" + LONG_TEXT)),
    listed(0x2000, table_of(b"\x07x-delay" + b"D" + bytes(5))),
    listed(0x2000, table_of(b"\1aF" + table_of(b"\x07x-delayI\0\0\0\1"), b"\1bA" + table_of(b"I\0\0\0\1"))),
    listed(0x2000, table_of(b"\1a" + LONG_TEXT, b"\x07x-delayI\0\0\0\5", b"\1zx" + table_of(b"octets"))),
    listed(0x0100, short(b"+5")),
    listed(0x0100, short(b"-0")),
    listed(0x0100, short(b"00000000000000000005")),
]
READABLE = [octets for octets in (*VALID, *WISHES, b"\0\0", b"\0\1\0\0") if is_valid(octets)]


def check_wishes(reading: ModuleType, run: Run) -> None:
    """What C's function reads of a run is what the twin reads of its messages, if C's function is sure."""
    found = reading.asked(run.raw, run.skip, run.lengths)
    if found is not None:
        singly = [wish for first, last, *wish in found for _ in range(last - first + 1)]
        assert singly == [list(asked_in(one)[0][2:]) for one in one_by_one(run)]
        assert [first for first, *_ in found] == [0, *(last + 1 for _, last, *_ in found[:-1])]
        assert all(one[2:] != other[2:] for one, other in pairwise(found))
    for number, (name, kind) in enumerate(m.BASIC_PROPERTIES):
        if kind == "shortstr":
            texts = reading.texts(run.raw, run.skip, run.lengths, number)
            expected = [texts_in(one, name)[0][2] for one in one_by_one(run)]
            assert texts is None or texts == expected


@pytest.mark.parametrize("part", range(4))
def test_wishes_and_texts_are_those_that_the_twin_reads(reading: ModuleType, part: int) -> None:
    for octets in READABLE[part::4]:
        check_wishes(reading, run_with([octets]))
        for skip in (21, OWN_METHODS):
            check_wishes(reading, run_with([b"\0\0", octets, octets, b"\x08\0\5"], skip))


@given(
    lists=st.lists((property_lists() | st.sampled_from(READABLE)).filter(is_valid), min_size=1, max_size=6)
)
def test_wishes_and_texts_of_any_run_are_those_that_the_twin_reads(
    reading: ModuleType, lists: list[bytes]
) -> None:
    check_wishes(reading, run_with(lists))
    check_wishes(reading, run_with(lists, OWN_METHODS))


@pytest.mark.parametrize("kind", SURE)
def test_what_applications_ask_for_is_read_without_the_twin(reading: ModuleType, kind: str) -> None:
    run = run_with([split(one)[1][19:-1] for one in SURE[kind]])
    assert reading.asked(run.raw, run.skip, run.lengths) is not None
    assert reading.texts(run.raw, run.skip, run.lengths, 8) is not None
    check_wishes(reading, run)


def test_a_number_of_no_short_string_is_refused(reading: ModuleType) -> None:
    run = run_with([b"\0\0"])
    for number in (-1, 2, 3, 9, 14):
        with pytest.raises(ValueError, match="no short string"):
            reading.texts(run.raw, run.skip, run.lengths, number)
    with pytest.raises(ValueError, match="not those of the run's messages"):
        reading.asked(run.raw, run.skip, array("I", [5]))


NAMES = ("attempt", "trace", "x-delay", "a", "n", "CC", "none")


def check_keys(reading: ModuleType, run: Run) -> None:
    """Messages with one key have the same values of the headers; each stretch is as long as it may be."""
    for names in ((), NAMES[:1], NAMES):
        wanted = tuple(name.encode() for name in names)
        found = reading.header_keys(run.raw, run.skip, run.lengths, wanted)
        if found is None:
            continue
        assert [first for first, _, _ in found] == [0, *accumulate(count for _, count, _ in found)][:-1]
        assert sum(count for _, count, _ in found) == run.count
        assert all(one[2] != other[2] for one, other in pairwise(found))
        keys = [key for _, count, key in found for _ in range(count)]
        values = dict[bytes, str]()
        for key, one in zip(keys, one_by_one(run), strict=True):
            headers = read_headers_property(next(properties_in(one))[2])
            chosen = repr([(name, headers[name]) for name in names if name in headers])
            assert values.setdefault(key, chosen) == chosen
            told = headers_of_key(key, names)
            assert repr([(name, told[name]) for name in names if name in told]) == chosen
        assert not names or len(set(values.values())) == 1 or len(values) > 1


@given(
    lists=st.lists((property_lists() | st.sampled_from(READABLE)).filter(is_valid), min_size=1, max_size=6)
)
def test_messages_with_one_key_have_the_same_headers(reading: ModuleType, lists: list[bytes]) -> None:
    check_keys(reading, run_with(lists))
    check_keys(reading, run_with(lists, OWN_METHODS))


INTEGERS = [
    short(b"n") + bytes((kind,)) + b"\xff" * width
    for kind, width in zip(b"bBsUuiIlL", (1, 1, 2, 2, 2, 4, 4, 8, 8), strict=True)
]


@given(
    lists=st.lists(
        st.lists(st.sampled_from([*INTEGERS, short(b"n") + b"V", b"\1aI\0\0\0\5"]), min_size=1, max_size=2)
        | st.sampled_from(INTEGERS).map(lambda one: [b"\1mS" + table_of(b"5"), one]),
        min_size=1,
        max_size=6,
    )
)
def test_integers_of_a_header_are_those_that_the_twin_reads(
    reading: ModuleType, lists: list[list[bytes]]
) -> None:
    run = run_with([listed(0x2000, table_of(*fields)) for fields in lists])
    found = reading.integers(run.raw, run.skip, run.lengths, (b"n",))
    sure = all(
        [field[:2] for field in fields].count(b"\1n") == 1 and short(b"n") + b"V" not in fields
        for fields in lists
    )
    assert (found is not None) is sure
    if sure:
        values = [read_headers_property(next(properties_in(one))[2])["n"] for one in one_by_one(run)]
        assert [value for _, count, value in found for _ in range(count)] == values
        assert [first for first, _, _ in found] == [0, *accumulate(count for _, count, _ in found)][:-1]
        assert all(one[2] != other[2] for one, other in pairwise(found))


def test_integers_are_of_one_header(reading: ModuleType) -> None:
    run = run_with([listed(0x2000, table_of(INTEGERS[0])), b"\0\0"])
    assert reading.integers(run.raw, run.skip, run.lengths, (b"n",)) is None
    for names in ((), (b"n", b"m")):
        with pytest.raises(ValueError, match="one name"):
            reading.integers(run.raw, run.skip, run.lengths, names)
    with pytest.raises(TypeError):
        reading.integers(run.raw, run.skip, run.lengths, ("n",))


@pytest.mark.parametrize("kind", SURE)
def test_the_keys_of_what_applications_send_are_made_without_the_twin(reading: ModuleType, kind: str) -> None:
    run = run_with([split(one)[1][19:-1] for one in SURE[kind]])
    check_keys(reading, run)
    found = reading.header_keys(run.raw, run.skip, run.lengths, (b"attempt", b"trace"))
    if kind == "ids, times and headers":
        assert len({key for _, _, key in found}) == run.count
        few = reading.header_keys(run.raw, run.skip, run.lengths, (b"attempt",))
        assert len({key for _, _, key in few}) == 3
    else:
        assert [(first, count) for first, count, _ in found] == [(0, run.count)]


def test_keys_are_left_to_the_twin_where_they_are_long_or_many(reading: ModuleType) -> None:
    run = run_with([listed(0x2000, table_of(b"\1nS" + table_of(b"x" * 300)))])
    assert reading.header_keys(run.raw, run.skip, run.lengths, (b"n",)) is None
    assert reading.header_keys(run.raw, run.skip, run.lengths, (b"m",)) == [(0, 1, b"h")]
    assert reading.header_keys(run.raw, run.skip, run.lengths, (b"n",) * 33) is None
    with pytest.raises(TypeError):
        reading.header_keys(run.raw, run.skip, run.lengths, ("n",))
    assert header_keys(run, ("n",)) == [(0, 1, b"p" + next(properties_in(run))[2])]


FURTHER_KEYS = [
    listed(0x2000, table_of(short(name) + b"A" + table_of(b"S" + table_of(b"key"))))
    for name in (b"CC", b"BCC")
]


def states_keys(run: Run) -> bool:
    """Whether one of the messages has a header with further routing keys."""
    return any(
        {"CC", "BCC"} & read_headers_property(next(properties_in(one))[2]).keys() for one in one_by_one(run)
    )


@given(
    lists=st.lists(
        (property_lists() | st.sampled_from(READABLE + FURTHER_KEYS)).filter(is_valid), min_size=1, max_size=6
    )
)
def test_no_message_with_further_keys_is_overlooked(reading: ModuleType, lists: list[bytes]) -> None:
    for run in (run_with(lists), run_with(lists, OWN_METHODS)):
        stated = states_keys(run)
        with mock.patch.object(sender_selected, "NATIVE_HEADER_KEYS", None):
            assert may_state_keys(run) or not stated
        with mock.patch.object(sender_selected, "NATIVE_HEADER_KEYS", reading.header_keys):
            assert may_state_keys(run) or not stated
            if reading.header_keys(run.raw, run.skip, run.lengths, (b"CC", b"BCC")) is not None:
                assert may_state_keys(run) is stated


def test_bodies_with_the_letters_of_these_headers_are_not_taken_for_them(reading: ModuleType) -> None:
    """Otherwise random bodies would have most runs routed message by message."""
    run = run_with([b"\0\0", listed(0x0800, b"\5")], body=b"CCBCC")
    for keys in (None, reading.header_keys):
        with mock.patch.object(sender_selected, "NATIVE_HEADER_KEYS", keys):
            assert not may_state_keys(run)
