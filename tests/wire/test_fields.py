"""Field tables and native types (§4.2.5)."""

from __future__ import annotations

from decimal import Decimal
from struct import error as StructError
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from node.wire.amqp091 import properties
from node.wire.amqp091.codec import encode_method
from node.wire.amqp091.errors import FieldSyntaxError
from node.wire.amqp091.fields import MAX_DEPTH, MAX_FIELDS, Timestamp, encode_table, read_headers, read_table
from node.wire.amqp091.header_tables import ANY_NUMBER, HeaderTable
from node.wire.amqp091.primitives import encode_shortstr, read_shortstr, truncated
from node.wire.amqp091.properties import PROPERTY_FLAGS
from tests.wire.client import opened, publish
from tests.wire.strategies import tables

HEADERS_ALONE = pack(">H", PROPERTY_FLAGS["headers"])
"""Property flags of a message with headers and nothing else."""


def table(*fields: bytes) -> bytes:
    body = b"".join(fields)
    return pack(">I", len(body)) + body


def field(name: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name + value


@given(tables)
def test_tables_survive_the_wire(fields: dict[str, Any]) -> None:
    data = b"??" + encode_table(fields) + b"!"
    found, at = read_table(data, 2)
    assert found == fields and at == len(data) - 1
    assert [type(value) for value in found.values()] == [type(value) for value in fields.values()]


@pytest.mark.requirement("A6.1", "A6.3")
@pytest.mark.parametrize(
    ("octets", "value"),
    [
        (b"t\x00", False), (b"t\x07", True), (b"b\xff", -1), (b"B\xff", 255), (b"U\xff\xfe", -2),
        (b"u\xff\xfe", 65534), (b"I\xff\xff\xff\xfd", -3), (b"i\xff\xff\xff\xfd", 2**32 - 3),
        (b"L" + b"\xff" * 8, -1), (b"l" + b"\xff" * 8, -1), (b"s\xff\xff", -1),
        (b"f" + pack(">f", 0.5), 0.5), (b"d" + pack(">d", 0.1), 0.1),
        (b"D\x02\x00\x00\x01\x3a", Decimal("3.14")), (b"D\x00\xff\xff\xff\xff", Decimal(-1)),
        (b"S\x00\x00\x00\x02hi", "hi"), (b"S\x00\x00\x00\x01\xff", b"\xff"), (b"x\x00\x00\x00\x02hi", b"hi"),
        (b"A\x00\x00\x00\x03t\x01V", [True, None]), (b"T" + bytes(7) + b"\x05", Timestamp(5)),
        (b"F" + table(field(b"k", b"V")), {"k": None}), (b"V", None),
    ],
)  # fmt: skip
def test_every_type_of_the_grammar_and_of_the_clients(octets: bytes, value: Any) -> None:
    found, _ = read_table(table(field(b"name", octets)), 0)
    assert found == {"name": value} and type(found["name"]) is type(value)


@pytest.mark.requirement("A6.7")
@pytest.mark.parametrize("name", ["a", "$x", "#x", "x-match", "__TypeId__", "n" * 128, "é"])
def test_names_that_are_taken(name: str) -> None:
    assert read_table(table(field(name.encode(), b"V")), 0)[0] == {name: None}


@pytest.mark.requirement("A6.6", "A6.7")
@pytest.mark.parametrize("name", [b"", b"1a", b"-a", b" a", b"n" * 129, b"\xff", b"a\0b"])
def test_names_that_are_refused(name: bytes) -> None:
    with pytest.raises(FieldSyntaxError):
        read_table(table(field(name, b"V")), 0)


def test_headers_of_a_message_may_have_any_name() -> None:
    assert read_headers(table(field(b"1a", b"V"), field(b"@t", b"V")), 0)[0] == {"1a": None, "@t": None}


@pytest.mark.requirement("A6.8")
@pytest.mark.parametrize("read", [read_table, read_headers, HeaderTable])
def test_duplicate_fields_are_refused(read: Any) -> None:
    with pytest.raises(FieldSyntaxError, match="duplicate field 'a'"):
        read(table(field(b"a", b"V"), field(b"a", b"V")), 0)


@pytest.mark.parametrize(
    "octets",
    [
        pack(">I", 5) + b"\x01aV",  # longer than the data
        table(b"\x05a"),  # a name longer than the table
        table(field(b"a", b"S\0\0\0\x09hi")),  # a string longer than the table
        table(field(b"a", b"A\0\0\0\x01I")) + bytes(9),  # a value longer than its array
        table(field(b"a", b"I\0\0")) + bytes(9),  # a value longer than its table
        table(field(b"a", b"z")),  # no such type
    ],
)
def test_what_is_ill_formed_is_a_syntax_error(octets: bytes) -> None:
    for read in (read_table, HeaderTable):
        with pytest.raises(FieldSyntaxError):
            read(octets, 0)


@pytest.mark.parametrize(
    "wrap", [lambda value: b"F" + table(field(b"a", value)), lambda value: b"A" + table(value)]
)
def test_nesting_is_bounded(wrap: Any) -> None:
    value = b"V"
    for _ in range(MAX_DEPTH + 1):
        value = wrap(value)
    for read in (read_table, HeaderTable):
        with pytest.raises(FieldSyntaxError, match="nested"):
            read(table(field(b"a", value)), 0)


@given(st.binary(max_size=60))
def test_any_octets_are_a_table_or_an_error(octets: bytes) -> None:
    try:
        read_table(octets, 0)
    except FieldSyntaxError:
        pass
    except Exception as error:
        assert type(error).__name__ in ("error", "IndexError"), error


@pytest.mark.requirement("A6.4", "A6.5")
def test_short_strings() -> None:
    longest = "x" * 255
    assert read_shortstr(encode_shortstr(longest), 0) == (longest, 256)
    with pytest.raises(ValueError, match="256 octets"):
        encode_shortstr("x" * 256)
    for wrong in (b"\x01\0", b"\x02a", b"\x01\xff"):
        with pytest.raises(FieldSyntaxError):
            read_shortstr(wrong, 0)


def test_reply_texts_are_cut_between_characters() -> None:
    assert truncated("é" * 200) == "é" * 127
    assert truncated("a\0b") == "a?b"


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, Decimal("1e3"), Decimal(2**31), Decimal("NaN")])
def test_values_that_fit_no_field(value: Any) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode_table({"a": value})


def checked(octets: bytes, at: int = 0) -> int:
    return HeaderTable(octets, at).end


def taken(read: Any, octets: bytes) -> int | None:
    """Where the table ends, as `read` says; None where it refuses the table."""
    try:
        return int(read(octets))
    except (FieldSyntaxError, IndexError, StructError):
        return None


@given(tables.map(encode_table), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3))
def test_a_table_that_is_checked_is_one_that_can_be_read(
    octets: bytes, changes: list[tuple[int, int]]
) -> None:
    """And the other way round, with any octets of a good table changed."""
    changed = bytearray(octets + b"!")
    for at, octet in changes:
        changed[at % len(octets)] = octet
    data = bytes(changed)
    assert taken(lambda data: HeaderTable(data, 0).end, data) == taken(
        lambda data: read_headers(data, 0)[1], data
    )


# -- bounded work -----------------------------------------------------------------------------------


def wide(count: int) -> bytes:
    return table(*(field(f"k{n}".encode(), b"V") for n in range(count)))


def many_in_tables(count: int) -> bytes:
    """Tables of ten fields each: every table is small."""
    inner = b"F" + table(*(field(str(n).encode(), b"V") for n in range(10)))
    return table(*(field(f"t{n}".encode(), inner) for n in range(count // 11)))


def many_in_arrays(count: int) -> bytes:
    array = b"A" + table(b"V" * 1000)
    return table(*(field(f"a{n}".encode(), array) for n in range(count // 1001)))


@pytest.mark.parametrize("shape", [wide, many_in_tables, many_in_arrays])
def test_a_table_of_a_client_has_a_bounded_number_of_values_wherever_they_stand(shape: Any) -> None:
    taken, refused = shape(MAX_FIELDS), shape(MAX_FIELDS + 1100)
    assert HeaderTable(taken, 0).end == len(taken) == read_headers(taken, 0)[1]
    with pytest.raises(FieldSyntaxError, match="more than 4096 fields"):
        HeaderTable(refused, 0)
    assert HeaderTable(refused, 0, ANY_NUMBER).end == len(refused), "what is stored may have more"
    assert read_headers(refused, 0)[1] == len(refused)


def test_headers_that_are_too_many_end_their_connection_with_a_syntax_error() -> None:
    """A method's table likewise."""
    good = publish(1, b"x", properties=HEADERS_ALONE + wide(MAX_FIELDS))
    for octets in (
        publish(1, b"x", properties=HEADERS_ALONE + wide(MAX_FIELDS + 1)),
        encode_method(1, m.QueueDeclare("q", arguments={f"k{n}": None for n in range(MAX_FIELDS + 1)})),
    ):
        client = opened(1)
        assert [type(effect) for effect in client.send(good)] == [e.PublishEffect]
        client.send(octets)
        close = client.methods()[-1]
        assert isinstance(close, m.ConnectionClose) and close.reply_code == 502


@pytest.mark.interpreted
def test_the_headers_of_a_message_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    class Counting(HeaderTable):
        def __init__(self, data: bytes, at: int, values_max: int) -> None:
            read.append(at)
            super().__init__(data, at, values_max)

    monkeypatch.setattr(properties, "HeaderTable", Counting)
    client = opened(1)
    lists = [HEADERS_ALONE + wide(100 + n) for n in range(3)]
    # One that asks for something else than the one before ends the run that it could have been in.
    lists.append(
        HEADERS_ALONE + table(field(b"CC", b"A" + table()), field(b"long", b"x" + table(bytes(300))))
    )
    effects = client.send(*(publish(1, b"x", properties=one) for one in lists))
    assert [effect.run.count for effect in effects if isinstance(effect, e.PublishEffect)] == [3, 1]
    assert len(read) == len(lists)
