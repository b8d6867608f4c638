"""Messages of Qpid Proton with values of every type of AMQP 1.0."""

from __future__ import annotations

import uuid
from typing import Any

from proton import (
    UNDESCRIBED,
    Array,
    Data,
    Described,
    Message,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)

EVERY_TYPE: dict[str, Any] = {
    "null": None, "true": True, "false": False, "ubyte": ubyte(200), "ushort": ushort(60_000),
    "uint": uint(4_000_000_000), "ulong": ulong(1 << 63), "byte": byte(-100), "short": short(-30_000),
    "int": int32(-2_000_000_000), "long": -(1 << 62), "float": float32(0.5), "double": 0.1,
    "decimal32": decimal32(0x32000001), "decimal64": decimal64(1 << 40),
    "decimal128": decimal128(bytes(range(16))),
    "char": char("ü"), "timestamp": timestamp(1_234_567_890_123), "uuid": uuid.UUID(int=7),
    "binary": b"\x00\xff", "string": "grün", "symbol": symbol("sign"),
}  # fmt: skip

COMPOUND: dict[str, Any] = {
    "list": [1, "two", [ubyte(3)]],
    "map": {"deep": {symbol("key"): b"value"}, 1: "one"},
    "array": Array(UNDESCRIBED, Data.INT, 1, 2, 3),
    "strings": Array(UNDESCRIBED, Data.STRING, "a", "b" * 300),
    "described": Described(symbol("quorate:test"), [1]),
}


def message_with_everything(annotations: dict[str, Any], properties: dict[str, Any]) -> Message:
    """A message with every field of every section but the footer, which Proton has not."""
    return Message(
        body=EVERY_TYPE | COMPOUND,
        durable=True,
        priority=7,
        ttl=3_600.0,
        id=uuid.UUID(int=1),
        user_id=b"guest",
        address="somewhere",
        subject="subject",
        reply_to="/queues/replies",
        correlation_id=ulong(9),
        content_type=symbol("application/json"),
        content_encoding=symbol("gzip"),
        expiry_time=4_102_444_800.0,
        creation_time=1_234_567_890.123,
        group_id="group",
        group_sequence=3,
        reply_to_group_id="reply group",
        instructions={symbol("x-opt-instruction"): 1},
        annotations={symbol(name): value for name, value in annotations.items()},
        properties=properties,
    )
