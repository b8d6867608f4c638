"""The deaths of a message: RabbitMQ's annotation x-opt-deaths as its header x-death, and back.

`x-death` has one time for each queue and reason, that of the first death. `x-opt-deaths` has that of the last
death too.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from node.wire.amqp091.errors import FieldSyntaxError
from node.wire.amqp091.fields import join_array, join_table, split_array, split_table
from node.wire.amqp10.deaths import (
    COUNT,
    EXCHANGE,
    FIRST_TIME,
    LAST_TIME,
    QUEUE,
    REASON,
    ROUTING_KEYS,
    TTL,
    DeathMap,
    death_maps,
    deaths_annotation,
    texts_of,
)
from node.wire.amqp10.decoding import decode_value
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.field_values import text_field
from node.wire.amqp10.format_codes import FormatCode
from node.wire.amqp10.messages import whole_number
from node.wire.amqp10.values import Symbol, TimestampMs, TypedArray, UInt, ULong

_NUMBER: Final = Struct(">cq")
_TIME: Final = Struct(">cQ")
_COUNT_MAX: Final = 2**63 - 1
_TTL_MAX: Final = 2**32 - 1

_TEXT_NAMES: Final = ((b"exchange", EXCHANGE), (b"queue", QUEUE), (b"reason", REASON))
_NAMES: Final = frozenset((b"count", b"exchange", b"queue", b"reason", b"routing-keys", b"time"))
_EXPIRATION: Final = b"original-expiration"


def tables_of(octets: bytes) -> bytes | None:
    """The encoded value of x-death for the encoded value of x-opt-deaths; None for another value."""
    value = decode_value(octets)
    maps = death_maps(value)
    if not maps or not isinstance(value, TypedArray | list):
        return None
    return b"A" + join_array([b"F" + join_table(sorted(_table(one).items())) for one in maps])


def _table(death: DeathMap) -> dict[bytes, bytes]:
    """A death as a table, with what the death states."""
    found: dict[bytes, bytes] = {}
    for name, key in _TEXT_NAMES:
        text = death.get(key)
        if isinstance(text, str):
            found[name] = text_field(text.encode())
    count, ttl, time = (whole_number(death.get(key)) for key in (COUNT, TTL, FIRST_TIME))
    if count is not None:
        found[b"count"] = _NUMBER.pack(b"l", max(0, min(count, _COUNT_MAX)))
    if ttl is not None:
        found[_EXPIRATION] = text_field(b"%d" % ttl)
    if time is not None and time >= 0:
        found[b"time"] = _TIME.pack(b"T", time // 1000)
    if ROUTING_KEYS in death:
        keys = [text_field(key.encode()) for key in texts_of(death[ROUTING_KEYS])]
        found[b"routing-keys"] = b"A" + join_array(keys)
    return found


def deaths_of(field: bytes) -> bytes | None:
    """The encoded value of x-opt-deaths for the encoded value of x-death; None where one of its tables is not
    what a broker writes.
    """
    try:
        tables = [dict(split_table(each, 1)) for each in split_array(field, 1) if each[:1] == b"F"]
        return encode_amqp(deaths_annotation([_death(table) for table in tables])) if tables else None
    except (FieldSyntaxError, StructError, IndexError, ValueError):
        return None


def _death(table: dict[bytes, bytes]) -> DeathMap:
    """A table as a death. Raises ValueError, struct.error."""
    if table.keys() - {_EXPIRATION} != _NAMES:
        raise ValueError("a death has other fields")
    found: DeathMap = {}
    if _EXPIRATION in table:
        ttl = int(_text(table[_EXPIRATION]))
        if not 0 <= ttl <= _TTL_MAX:
            raise ValueError("a death has another expiration")
        found[TTL] = UInt(ttl)
    kind, count = _NUMBER.unpack(table[b"count"])
    stamp, seconds = _TIME.unpack(table[b"time"])
    if kind != b"l" or count < 0 or stamp != b"T" or table[b"routing-keys"][:1] != b"A":
        raise ValueError("a death has a field of another type")
    time = TimestampMs(seconds * 1000)
    keys = [_text(each) for each in split_array(table[b"routing-keys"], 1)]
    return found | {
        QUEUE: _text(table[b"queue"]),
        REASON: Symbol(_text(table[b"reason"])),
        COUNT: ULong(count),
        FIRST_TIME: time,
        LAST_TIME: time,
        EXCHANGE: _text(table[b"exchange"]),
        ROUTING_KEYS: TypedArray(FormatCode.STRING_32, list(keys)),
    }


def _text(field: bytes) -> str:
    if field[:1] != b"S":
        raise ValueError("a death has a field of another type")
    return field[5:].decode()
