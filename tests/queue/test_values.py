"""The values of an expression for the messages of a run are those for each message by itself, also where the
headers that the expression asks for are found without the other properties.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.expressions.expression import Expression
from node.expressions.nodes import encode_tree
from node.expressions.parsing import Dialect, parse_expression
from node.expressions.selector import Selector
from node.message.run import OWN_METHODS, Run
from node.queue.feature import Incoming, Notes
from node.queue.features.group import PROPERTIES, Groups, group_named, group_of
from node.queue.filtering import Looking
from node.queue.group_table import NO_GROUP
from node.queue.operations import Aspect
from node.queue.values import Values
from node.ranges.range_map import RangeMap
from node.ranges.range_set import numbers_of
from node.wire.amqp091 import contents, native
from node.wire.amqp10 import facts
from node.wire.formats import format_of
from tests.wire import native as built
from tests.wire.application_properties import MESSAGES
from tests.wire.property_lists import listed, short, table_of
from tests.wire.test_native_application import run_of
from tests.wire.test_native_properties import one_by_one, run_with

HEADERS = [
    b"", *(short(b"attempt") + b"I" + n.to_bytes(4, "big") for n in (0, 1, 2)), short(b"attempt") + b"V",
    short(b"attempt") + b"S" + table_of(b"1"), short(b"trace") + b"S" + table_of(b"red one"),
    short(b"trace") + b"S" + table_of(b"\xff"), short(b"trace") + b"T" + bytes(8),
    short(b"x-delay") + b"I" + bytes(4), short(b"trace") + b"F" + table_of(b""),
    short(b"n") + b"S" + table_of(b"x" * 300),
]  # fmt: skip
TEXTS = [
    "attempt >= 0", "attempt", "attempt = 1 OR trace LIKE 'red%'", "trace IS NULL", "NOT (attempt < 2)",
    "trace = 'red one' AND attempt <> 1", "attempt * 2 + 1", "n IS NOT NULL", "absent = 1",
    "attempt IN (1, 2)",
]  # fmt: skip
OF_OTHER_FIELDS = ["attempt = 1 AND JMSPriority = 4", "/a = 1 OR attempt = 1", "JMSMessageID IS NULL"]


@pytest.fixture(scope="module", autouse=True)
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The modules in C, also where the code under test is not compiled."""
    if native.NATIVE_HEADER_KEYS is not None:
        yield
        return
    files = [
        built.build(name, tmp_path_factory.mktemp("native"), "-O2")
        for name in ("_properties", "_application")
    ]
    headers, application = map(built.load, files)
    with (
        mock.patch.object(contents, "NATIVE_HEADER_KEYS", headers.header_keys),
        mock.patch.object(contents, "NATIVE_INTEGERS", headers.integers),
        mock.patch.object(facts, "NATIVE_PROPERTY_KEYS", application.property_keys),
        mock.patch.object(facts, "NATIVE_INTEGERS", application.integers),
    ):
        yield


def expression(text: str) -> bytes:
    return encode_tree(parse_expression(text, Dialect.QUEUE))


def by_itself(data: bytes, one: Run) -> object:
    """The value for the one message of a run, by all its properties."""
    _, _, properties = next(format_of(one).properties_in(one))
    return Expression(data).value(format_of(one).facts(one, properties))


tables = st.lists(st.sampled_from(HEADERS), max_size=3, unique_by=lambda one: one[:3]).map(b"".join)


@given(
    st.lists(st.tuples(tables, st.integers(1, 3)), min_size=1, max_size=5),
    st.sampled_from(TEXTS + OF_OTHER_FIELDS),
)
def test_values_of_a_run_are_those_of_its_messages(rows: list[tuple[bytes, int]], text: str) -> None:
    run = run_with([listed(0x2000, table_of(one)) for one, times in rows for _ in range(times)])
    data = expression(text)
    wanted = [by_itself(data, one) for one in one_by_one(run)]
    values = Values(Expression(data))
    for _ in range(2):
        found = list(values.stretches(run))
        assert [index for index, _, _ in found] == [0, *accumulate(count for _, count, _ in found)][:-1]
        assert repr([value for _, count, value in found for _ in range(count)]) == repr(wanted)
    matching, _ = Looking(Selector(data)).look(1, run)
    assert list(numbers_of(matching)) == [at for at, value in enumerate(wanted, 1) if value is True]


@given(st.lists(st.sampled_from(MESSAGES), min_size=1, max_size=6))
@pytest.mark.parametrize(
    "text",
    ["n = 7 OR kind = 'red'", "n", "n * 2 >= 14 OR n IS NULL", "kind IS NULL AND n > 1", "other LIKE 'b%'"],
)
def test_values_of_messages_of_amqp_1_0(text: str, octets: list[bytes]) -> None:
    run = run_of(octets, 0)
    data = expression(text)
    wanted = [by_itself(data, run.slice(index, 1)) for index in range(run.count)]
    found = list(Values(Expression(data)).stretches(run))
    assert repr([value for _, count, value in found for _ in range(count)]) == repr(wanted)


@given(
    st.lists(st.tuples(tables, st.integers(1, 3)), min_size=1, max_size=5),
    st.sampled_from(["attempt", "trace", "n", "absent", "group_id", "message_id", "routing_key"]),
)
def test_groups_of_a_run_are_those_of_its_messages(rows: list[tuple[bytes, int]], name: str) -> None:
    lists = [table_of(one) for one, times in rows for _ in range(times)]
    of_headers = run_with([listed(0x2000, one) for one in lists])
    with_ids = run_with([listed(0x0080, short(b"id%d" % (at % 3))) for at in range(len(lists))], OWN_METHODS)
    for run in (of_headers, with_ids):
        rule, wanted = Groups(name), [group_by_itself(run.slice(at, 1), name) for at in range(run.count)]
        for _ in range(2):
            notes: Notes = {}
            rule.decide(Incoming(run), 7, 0, notes)
            found = RangeMap(notes.get(Aspect.GROUP, ()))
            assert [found.get(7 + at, NO_GROUP) for at in range(run.count)] == wanted


def group_by_itself(one: Run, name: str) -> int:
    """The group of the one message of a run, by all its properties."""
    messages = format_of(one)
    if name == "routing_key":
        ((key, _),) = messages.by_key(one)
        return group_named(key.encode())
    _, _, properties = next(messages.properties_in(one))
    if name in PROPERTIES:
        value = messages.text(properties, name)
        return NO_GROUP if value is None else group_named(value)
    return group_of(messages, properties, name)


@pytest.mark.parametrize("name", ["attempt", "x-delay"])
def test_the_value_of_a_header_alone_is_its_integer(name: str) -> None:
    header = short(name.encode()) + b"I" + bytes((255, 255, 255, 7))
    run = run_with([listed(0x2000, table_of(HEADERS[6], header)), *[listed(0x2000, table_of(header))] * 2])
    data = expression(f'"{name}"')
    assert by_itself(data, one_by_one(run)[0]) == (-249 if name == "attempt" else None)
    assert list(Values(Expression(data)).stretches(run)) == [(0, 3, by_itself(data, one_by_one(run)[0]))]


@pytest.mark.parametrize("text", TEXTS)
def test_headers_alone_are_found_without_other_properties(text: str) -> None:
    run = run_with([listed(0x2000, table_of(one)) for one in HEADERS[:5]])
    assert Values(Expression(expression(text))).by_headers(run) is not None


@pytest.mark.parametrize("text", OF_OTHER_FIELDS)
def test_other_fields_need_all_properties(text: str) -> None:
    run = run_with([listed(0x2000, table_of(one)) for one in HEADERS[:5]])
    assert Values(Expression(expression(text))).by_headers(run) is None
