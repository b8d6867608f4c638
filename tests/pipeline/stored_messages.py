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


_texts = st.sampled_from([b"", b"a", "é".encode(), b"x" * 60]) | st.binary(max_size=3)
_keys = st.sampled_from([b"h0", b"h1", b"h2", "ü".encode(), b""]) | st.binary(max_size=2)
_fixed = st.sampled_from(sorted(_SIZES)).flatmap(
    lambda code: st.binary(min_size=_SIZES[code], max_size=_SIZES[code]).map(
        lambda held: bytes((code,)) + held
    )
)
_plain = _fixed | _texts.map(lambda text: b"S" + _sized(text)) | st.just(b"V")


def _table(pairs: list[tuple[bytes, bytes]]) -> bytes:
    return _sized(b"".join(_sized(name, 1) + value for name, value in pairs))


_odd = st.one_of(
    st.binary(max_size=3).map(lambda octets: b"x" + _sized(octets)),
    st.just(b"D\x02\0\0\0\x7d"),
    st.lists(_plain, max_size=2).map(lambda values: b"A" + _sized(b"".join(values))),
    st.lists(st.tuples(_keys, _plain), max_size=2).map(lambda pairs: b"F" + _table(pairs)),
    st.just(b"?"),
)
_tables = st.lists(st.tuples(_keys, _plain | _plain | _plain | _odd), max_size=4).map(_table)
_short = _texts.map(lambda text: _sized(text[:255], 1))
_FIELDS: Final = (
    _short, _short, _tables, st.binary(min_size=1, max_size=1), st.binary(min_size=1, max_size=1), _short,
    _short, _short, _short, st.binary(min_size=8, max_size=8), _short, _short, _short, _short,
)  # fmt: skip


@st.composite
def property_lists(draw: Any) -> bytes:
    """A property list of AMQP 0-9-1, with some properties of all."""
    chosen = draw(st.sets(st.integers(0, 13), max_size=4) | st.just({2, 3, 8, 9}))
    flags = sum(1 << 15 - number for number in chosen)
    values = b"".join(draw(_FIELDS[one]) for one in sorted(chosen))
    if draw(st.integers(0, 9)) == 0:
        # Another word of flags follows.
        return (flags | 1).to_bytes(2, "big") + b"\0\0" + values
    return flags.to_bytes(2, "big") + values + draw(st.sampled_from([b"", b"", b"more"]))


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
def contents(draw: Any) -> bytes:
    """A message of AMQP 0-9-1, mostly in two frames; sometimes with an octet that is another one."""
    octets = content(draw(property_lists()), *draw(_bodies | _bodies | _bodies | _few_bodies))
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(octets) - 1))
        octets = octets[:at] + draw(st.binary(min_size=1, max_size=1)) + octets[at + 1 :]
    return octets


@st.composite
def runs(draw: Any) -> tuple[dict[str, Any], bytes]:
    """The fields of a run, and its messages."""
    told: dict[str, Any] = {"format": 0, "skip": 0, "stride": 0, "flags": draw(st.sampled_from([0, 2]))}
    match draw(st.sampled_from("uuuvvvskax")):
        case "u":
            pieces = [draw(contents())] * draw(st.integers(1, 5))
            told |= {"flags": UNIFORM, "stride": len(pieces[0])}
        case "v":
            pieces = draw(st.lists(contents(), min_size=1, max_size=5))
        case "s":
            told["skip"] = 3
            pieces = [b"skp" + one for one in draw(st.lists(contents(), min_size=1, max_size=3))]
        case "k":
            told["flags"] |= OWN_METHODS
            keys = draw(st.lists(_texts, min_size=1, max_size=4))
            pieces = [_method(key) + draw(contents()) for key in keys]
        case "a":
            told["format"] = 1
            pieces = [one or b"\0" for one in draw(st.lists(sections.messages, min_size=1, max_size=3))]
        case _:
            told |= {"format": draw(st.integers(0, 2)), "skip": draw(st.sampled_from([0, 5]))}
            told["flags"] = draw(st.sampled_from([0, OWN_METHODS]))
            pieces = draw(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=3))
    told |= {"exchange": draw(_texts)[:9], "key": draw(_texts)[:9], "lengths": list(map(len, pieces))}
    return told, b"".join(pieces)


def _method(key: bytes) -> bytes:
    return frame(1, b"\0\x3c\0\x28\0\0" + _sized(b"", 1) + _sized(key, 1) + b"\0")


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
