"""The octets, in snapshots of a partition, of the messages that its queues have refused."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from struct import Struct

from node.ranges.range_set import Range, decode_array, encode_array

_COUNT = Struct("<I")
_REFUSED_HEAD = Struct("<QI")


def encode_refusals(refused: Mapping[int, Mapping[int, list[Range]]]) -> bytes:
    """Canonical bytes of refused messages by front end and batch."""
    parts = [_COUNT.pack(len(refused))]
    for front_end, batches in sorted(refused.items()):
        rows = [(number, *part) for number, messages in batches.items() for part in messages]
        parts.append(_REFUSED_HEAD.pack(front_end, len(rows)))
        parts += (encode_array(array("Q", column)) for column in _columns(rows))
    return b"".join(parts)


def decode_refusals(data: bytes, offset: int) -> tuple[dict[int, dict[int, list[Range]]], int]:
    """The refused messages encoded at `offset`, and the offset behind. Raises ValueError or struct.error."""
    found: dict[int, dict[int, list[Range]]] = {}
    (front_ends,) = _COUNT.unpack_from(data, offset)
    offset += _COUNT.size
    for _ in range(front_ends):
        front_end, rows = _REFUSED_HEAD.unpack_from(data, offset)
        offset += _REFUSED_HEAD.size
        columns = []
        for _ in range(3):
            column, offset = decode_array("Q", data, offset, rows)
            columns.append(column)
        batches: dict[int, list[Range]] = found.setdefault(front_end, {})
        for number, first, last in zip(*columns, strict=True):
            batches.setdefault(number, []).append((first, last))
    return found, offset


def _columns(rows: Sequence[tuple[int, ...]]) -> Sequence[Sequence[int]]:
    return list(zip(*rows, strict=True)) or [(), (), ()]
