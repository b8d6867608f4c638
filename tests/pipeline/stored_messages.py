"""Strategies for messages as blocks and journals have them: most of them whole, some malformed."""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from hypothesis import strategies as st

from pipeline.journal.kinds import ARRIVAL, OpKind
from pipeline.log.blocks import MESSAGES, RUN, Block
from pipeline.message.runs import OWN_METHODS, UNIFORM
from tests.wire.amqp10 import sections

QUEUE: Final = 0x1_0000_002A
_MOST: Final = (1 << 64) - 1
_BATCH: Final = Struct("<QQQI")
_PUBLISH: Final = Struct("<BBHHBBIHIII")
_SIZES: Final = dict(zip(b"tbBsuUIiLlfdTV", (1, 1, 1, 2, 2, 2, 4, 4, 8, 8, 4, 8, 8, 0), strict=True))


def _sized(octets: bytes, width: int = 4) -> bytes:
    return len(octets).to_bytes(width, "big") + octets


_CODES: Final = sorted(_SIZES.keys() - set(b"fd"))
_texts = st.sampled_from([b"", b"a", "é".encode(), b"x" * 60, b"\0"])
_octets = _texts | st.binary(max_size=3)
_keys = st.sampled_from([b"h0", b"h1", b"h2", "ü".encode(), b""])


def _of_code(code: int) -> st.SearchStrategy[bytes]:
    size = _SIZES[code]
    values = st.binary(min_size=size, max_size=size) | st.sampled_from([b"\xff" * size, b"\x80" + bytes(7)])
    return values.map(lambda held: bytes((code,)) + held[:size])


_plain = st.sampled_from(_CODES).flatmap(_of_code) | _texts.map(lambda text: b"S" + _sized(text))


def _table(pairs: list[tuple[bytes, bytes]]) -> bytes:
    return _sized(b"".join(_sized(name, 1) + value for name, value in pairs))


_odd = st.one_of(
    st.sampled_from(sorted(_SIZES)).flatmap(_of_code),
    _octets.map(lambda octets: b"S" + _sized(octets)),
    _octets.map(lambda octets: b"x" + _sized(octets)),
    st.just(b"D\x02\0\0\0\x7d"),
    st.lists(_plain, max_size=2).map(lambda values: b"A" + _sized(b"".join(values))),
    st.lists(st.tuples(_keys, _plain), max_size=2).map(lambda pairs: b"F" + _table(pairs)),
    st.just(b"?"),
)
_tables = st.lists(st.tuples(_keys, _plain), max_size=4).map(_table)
_odd_tables = st.lists(st.tuples(_keys | st.binary(max_size=2), _plain | _odd), max_size=4).map(_table)
_TABLE: Final = 2
_WIDTHS: Final = {3: 1, 4: 1, 9: 8}
"""The property that is a table, and those that are numbers; all others are texts."""


@st.composite
def property_lists(draw: Any, odd: bool | None = None) -> bytes:
    """A property list of AMQP 0-9-1, with some properties of all. `odd`: with values that are rare, or too
    short; by default some are.
    """
    odd = draw(st.integers(0, 3)) == 0 if odd is None else odd
    chosen = sorted(draw(st.sets(st.integers(0, 13), max_size=4) | st.just({2, 3, 8, 9})))
    values = []
    for number in chosen:
        if number == _TABLE:
            values.append(draw(_odd_tables if odd else _tables))
        elif number in _WIDTHS:
            values.append(draw(st.binary(min_size=_WIDTHS[number], max_size=_WIDTHS[number])))
        else:
            values.append(_sized(draw(_octets if odd else _texts), 1))
    flags, octets = sum(1 << 15 - number for number in chosen), b"".join(values)
    if odd and draw(st.integers(0, 3)) == 0:
        # Another word of flags follows.
        return (flags | 1).to_bytes(2, "big") + b"\0\0" + octets
    if odd and draw(st.booleans()):
        octets = octets[: max(0, len(octets) - draw(st.integers(1, 4)))]
    return flags.to_bytes(2, "big") + octets + draw(st.sampled_from([b"", b"", b"more"]))


def frame(kind: int, payload: bytes) -> bytes:
    return bytes((kind, 0, 1)) + _sized(payload) + b"\xce"


def content(properties: bytes, *bodies: bytes, size: int | None = None) -> bytes:
    """The frames of a message."""
    told = sum(map(len, bodies)) if size is None else size
    header = frame(2, b"\0\x3c\0\0" + told.to_bytes(8, "big") + properties)
    return header + b"".join(frame(3, one) for one in bodies)


_bodies = st.lists(st.binary(max_size=20), min_size=1, max_size=1)
_few_bodies = st.sampled_from([[], [b""], [b"one", b"two"]])


@st.composite
def contents(draw: Any, odd: bool) -> bytes:
    """A message of AMQP 0-9-1 in two frames. `odd`: in other ones, or with an octet that is another one."""
    if not odd:
        return content(draw(property_lists(False)), *draw(_bodies))
    size = draw(st.sampled_from([None, None, 0, 3, 1 << 63]))
    octets = content(draw(property_lists()), *draw(_bodies | _few_bodies), size=size)
    if draw(st.booleans()):
        at = draw(st.integers(0, len(octets) - 1) | st.sampled_from([0, 6, len(octets) - 1]))
        octets = octets[:at] + draw(st.binary(min_size=1, max_size=1)) + octets[at + 1 :]
    return octets[: len(octets) - draw(st.sampled_from([0, 0, 0, 1]))] + draw(st.sampled_from([b"", b"\xce"]))


@st.composite
def runs(draw: Any) -> tuple[dict[str, Any], bytes]:
    """The fields of a run, and its messages."""
    told: dict[str, Any] = {"format": 0, "skip": 0, "stride": 0, "flags": draw(st.sampled_from([0, 2]))}
    messages = contents(draw(st.integers(0, 4)) == 0)
    match draw(st.sampled_from("uvvskkax")):
        case "u":
            pieces = [draw(messages)] * draw(st.integers(1, 5))
            told |= {"flags": UNIFORM, "stride": len(pieces[0])}
        case "v":
            pieces = draw(st.lists(messages, min_size=1, max_size=5))
        case "s":
            told["skip"] = 3
            pieces = [b"skp" + one for one in draw(st.lists(messages, min_size=1, max_size=3))]
        case "k":
            told["flags"] |= OWN_METHODS
            keys = draw(st.lists(_texts, min_size=1, max_size=4))
            pieces = [_method(key, draw(_WRONG)) + draw(messages) for key in keys]
        case "a":
            told["format"] = 1
            pieces = [one or b"\0" for one in draw(st.lists(sections.messages, min_size=1, max_size=3))]
        case _:
            told |= {"format": draw(st.integers(0, 2)), "skip": draw(st.sampled_from([0, 5]))}
            told["flags"] = draw(st.sampled_from([0, OWN_METHODS]))
            pieces = draw(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=3))
    told |= {"exchange": draw(_octets)[:9], "key": draw(_octets)[:9], "lengths": list(map(len, pieces))}
    return told, b"".join(pieces)


_WRONG = st.sampled_from([0, 0, 0, 0, 0, 0, 0, 0, 1, 4])
"""Octets by which the length of a key is too large."""


def _method(key: bytes, wrong: int) -> bytes:
    told = bytes((len(key) + wrong,)) + key
    return frame(1, b"\0\x3c\0\x28\0\0" + _sized(b"", 1) + told + b"\0")


def _lengths(told: dict[str, Any]) -> bytes:
    if told["flags"] & UNIFORM:
        return b""
    return b"".join(one.to_bytes(4, "little") for one in told["lengths"])


@st.composite
def blocks(draw: Any) -> Block:
    """A block of some runs."""
    parts, number, first, count = [], 5, 5, 0
    for told, data in draw(st.lists(runs(), max_size=4)):
        number += draw(st.integers(0, 3))
        fixed = told["flags"], told["format"], told["skip"], told["stride"], len(data)
        names = told["exchange"], told["key"]
        time = draw(st.sampled_from([0, 1_700_000_000_000, (1 << 64) - 1]))
        parts += [RUN.pack(number, time, len(told["lengths"]), *fixed, *map(len, names)), *names]
        parts += [_lengths(told), data]
        number, count = number + len(told["lengths"]), count + len(told["lengths"])
    return Block(MESSAGES, count, QUEUE, first, number, b"".join(parts))


def block_of_every_kind() -> Block:
    """A block of two messages: one with each property and a header of each kind, one with a header alone."""
    table = [(b"k%d" % code, bytes((code,)) + b"\xfe" * _SIZES[code]) for code in _CODES if code != ord("T")]
    table += [(b"text", b"S" + _sized(b"long")), (b"last", b"Tabcdefgh")]
    texts = [_sized(b"p%d" % number, 1) for number in range(14)]
    texts[2:5] = [_table(table), b"\x02", b"\x09"]
    texts[9] = b"\xff" * 8
    pieces = [
        _method(b"one", 0) + content(b"\xff\xfc" + b"".join(texts), b"body"),
        _method(b"two", 0) + content(b"\x20\0" + _table([(b"k", b"S" + _sized(b"short"))])),
    ]
    lengths = b"".join(len(one).to_bytes(4, "little") for one in pieces)
    head = RUN.pack(5, 1, 2, OWN_METHODS, 0, 0, 0, sum(map(len, pieces)), 0, 0)
    return Block(MESSAGES, 2, QUEUE, 5, 7, head + lengths + b"".join(pieces))


# -- entries of journals -------------------------------------------------------------------------------


def publish(told: dict[str, Any], data: bytes, queues: list[int]) -> bytes:
    """A publish of a run to queues."""
    fixed = told["flags"], told["format"], 0, len(queues), len(told["exchange"]), len(told["key"])
    head = _PUBLISH.pack(*fixed, len(told["lengths"]), told["skip"], told["stride"], 0, len(data))
    names = told["exchange"] + told["key"]
    listed = b"".join(one.to_bytes(8, "little") for one in queues)
    return bytes((OpKind.PUBLISH,)) + head + listed + names + _lengths(told) + data


def arrival(queue: int, first: int, last: int, time: int) -> bytes:
    """The time at which the owner of a queue took messages."""
    numbers = b"".join(one.to_bytes(8, "little") for one in (min(first, _MOST), min(last, _MOST), time))
    head = queue.to_bytes(8, "little") + bytes((ARRIVAL,)) + (1).to_bytes(4, "little")
    return bytes((OpKind.ANNOTATE,)) + head + numbers


def entry_of(*batches: tuple[int, bytes]) -> bytes:
    """The data of an entry: of each batch the number of the first message, and the operations."""
    parts = [b"\x01"]
    for number, (first, operations) in enumerate(batches):
        parts += [_BATCH.pack(1, number, first, len(operations)), operations]
    return b"".join(parts)


@st.composite
def entries(draw: Any) -> bytes:
    """The data of an entry of queues."""
    batches = []
    for number in range(draw(st.integers(0, 2))):
        first = 10 * number + draw(st.sampled_from([1, 1, 1, (1 << 63) - 2, (1 << 64) - 13]))
        operations = []
        for told, data in draw(st.lists(runs(), max_size=3)):
            queues = draw(st.sampled_from([[QUEUE], [QUEUE], [QUEUE, 7], [1 << 63, 3, 7], []]))
            operations.append(publish(told, data, queues))
        for time in range(draw(st.integers(0, 2))):
            begin = first + draw(st.integers(0, 3))
            queue, length = draw(st.sampled_from([QUEUE, 7])), draw(st.sampled_from([0, 1, 9]))
            operations.append(arrival(queue, begin, begin + length, time))
        batches.append((first, b"".join(operations) + draw(st.sampled_from([b"", b"", b"", b"\x02"]))))
    return entry_of(*batches)
