"""Property lists and publishes for the tests of the modules in C: valid ones, odd ones, and wrong ones."""

from __future__ import annotations

from struct import Struct

from hypothesis import strategies as st

from node.wire.amqp091.fields import encode_table
from tests.wire.client import publish
from tests.wire.strategies import tables

TAG = Struct(">Q")


def short(text: bytes) -> bytes:
    return bytes((len(text),)) + text


def table_of(*fields: bytes) -> bytes:
    octets = b"".join(fields)
    return len(octets).to_bytes(4, "big") + octets


def listed(flags: int, *values: bytes) -> bytes:
    return flags.to_bytes(2, "big") + b"".join(values)


LONG_TEXT = b"S" + table_of(b"text")


def nested(depth: int) -> bytes:
    octets = table_of(short(b"end") + b"t\1")
    for _ in range(depth):
        octets = table_of(short(b"n") + b"F" + octets)
    return octets


ODD_TABLES = [
    table_of(*[short(b"n%d" % number) + b"b\0" for number in range(32)]),
    table_of(*[short(b"n%d" % number) + b"b\0" for number in range(33)]),
    table_of(short(b"a") + b"A" + table_of(*[b"V"] * 127)),
    table_of(short(b"a") + b"A" + table_of(*[b"V"] * 128)),
    table_of(short(b"same") + b"V", short(b"same") + b"V"),
    table_of(short(b"a") + b"F" + table_of(short(b"same") + b"V", short(b"same") + b"V")),
    table_of(short("é".encode()) + b"V"),
    table_of(short(b"\xff") + b"V"),
    table_of(short(b"kind") + b"?"),
    table_of(short(b"cut") + b"l\0\0"),
    table_of(short(b"cut") + b"S" + (99).to_bytes(4, "big")),
    table_of(short(b"cut")),
    table_of(b"\x30name"),
    table_of(short(b"") + b"D" + bytes(5)),
    table_of(short(b"CC") + b"A" + table_of(LONG_TEXT)),
    table_of(short(b"BCC") + b"A" + table_of()),
    table_of(short(b"x-delay") + b"I" + bytes(4)),
    table_of(short(b"in") + b"F" + table_of(short(b"CC") + b"V")),
    *[nested(depth) for depth in (5, 6, 7, 8, 9, 62, 63, 64, 65)],
    bytes(3),
    (5).to_bytes(4, "big"),
]

headers = st.builds(encode_table, tables) | st.sampled_from(ODD_TABLES)
texts = st.binary(max_size=12).map(short) | st.just(b"\xff") | st.just(b"\x05cut")
expirations = st.sampled_from(
    [b"0", b"60000", b"4294967295", b"4294967296", b"99999999999", b"+5", b"-1", b"1 s", b"", b"007"]
).map(short)
users = st.sampled_from([b"guest", b"other", b""]).map(short)
replies = st.sampled_from([b"amq.rabbitmq.reply-to", b"amq.rabbitmq.reply-to.x", b"q"]).map(short)

VALUES: list[st.SearchStrategy[bytes]] = [
    texts, texts, headers, st.sampled_from([b"\1", b"\2"]), st.binary(min_size=1, max_size=1), texts, replies,
    expirations, texts, st.binary(min_size=8, max_size=8), texts, users, texts, texts,
]  # fmt: skip
"""The values of the properties of class basic, the one of flag bit 15 first."""


@st.composite
def property_lists(draw: st.DrawFn) -> bytes:
    numbers = sorted(draw(st.sets(st.integers(0, 13), max_size=5)))
    flags = sum(0x8000 >> number for number in numbers)
    further = draw(st.sampled_from([b""] * 6 + [b"\0\0", b"\0\2", b"\0\1\0\0", b"x"]))
    if further:
        flags |= draw(st.sampled_from([0, 1, 2]))
    values = [draw(VALUES[number]) for number in numbers]
    return listed(flags, *([further, *values] if draw(st.booleans()) else [*values, further]))


ordinary = st.sampled_from([b"\0\0", b"\x10\0\2", b"\x10\0\1", b"\x18\0\2\5", b"\x80\0\x0atext/plain"])


VALID = [
    listed(0x8000, short(b"text/plain")),
    listed(
        0xB4C0,
        short(b"a"),
        table_of(short(b"n") + b"I" + bytes(4)),
        b"\2",
        short(b"c"),
        short(b"i"),
        bytes(8),
    ),
    listed(0x1900, b"\2", b"\5", short(b"60000")),
    listed(0x0210, short(b"amq.rabbitmq.reply-to"), short(b"guest")),
    listed(0x0010, short(b"other")),
    *[listed(0x0100, short(b"%d" % number)) for number in (0, 2**32 - 1, 2**32, 10**10 - 1, 10**10)],
    *[listed(0x2000, table) for table in ODD_TABLES],
]
WIDTHS = b"VtbBsUuiIfDlLdTSxFA"
LISTS = [
    *VALID,
    *[octets[:size] for octets in VALID for size in range(min(len(octets), 60))],
    *[octets + b"\0" for octets in VALID],
    *[listed(0x2000, table_of(short(b"n") + bytes((kind, 0, 0, 0, 0, 0, 0, 0, 0)))) for kind in range(256)],
    *[
        listed(0x2000, table_of(short(b"n") + bytes((kind,)) + bytes(n)))
        for kind in WIDTHS
        for n in range(10)
    ],
    *[listed(1 << bit, bytes(size)) for bit in range(16) for size in range(10)],
]
"""Property lists, valid and not: whole, cut, and with each type of values."""


def mixed(number: int, properties: bytes = b"", body: int = 0) -> bytes:
    """A publish as applications send it."""
    listed = b"\xb4\xc0" + short(b"application/json")
    listed += encode_table({"trace": f"{number:016x}", "attempt": number % 3}) + b"\2"
    listed += short(b"%016x-corr" % number) + short(b"%032x" % number) + TAG.pack(1_700_000_000 + number)
    return publish(1, b"x" * (body or 40 + number % 50), properties=properties or listed)


SURE = {
    "ids, times and headers": [mixed(number) for number in range(300)],
    "priorities": [mixed(number, b"\x18\0\2" + bytes((number % 10,))) for number in range(300)],
    "expirations": [mixed(number, b"\x01\0" + short(b"%d" % (1000 + number))) for number in range(300)],
    "delays": [mixed(number, b"\x20\0" + encode_table({"x-delay": 1000 + number})) for number in range(300)],
    "the publisher's name": [mixed(number, b"\0\x10" + short(b"guest")) for number in range(300)],
    "direct replies": [mixed(number, b"\2\0" + short(b"amq.rabbitmq.reply-to")) for number in range(300)],
    "tables in tables": [
        mixed(number, b"\x20\0" + encode_table({"a": {"b": [1, "two", {"c": number}]}}))
        for number in range(300)
    ],
    "no body": [mixed(0, b"\x20\0" + encode_table({"n": "x" * (number % 7)})) for number in range(300)],
}
