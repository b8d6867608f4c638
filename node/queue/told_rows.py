"""The rows that a stream has told of its view: a part of the replicated state of the stream (D15).

The entry with the messages that tell changes has the rows as they are told then. So the state is that of the
log whichever owner is lost, and also where retention has removed the messages (docs/decisions/0094).
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

NO_ROW: Final = 0
"""The digest of a row that the view has no more. No row has it."""

_HEAD = Struct("<BQI")
_COUNT = Struct("<I")
_ROW = Struct("<QI")


class TellRows(NamedTuple):
    """A stream tells rows of its view, by their keys, with digests of the rows; or NO_ROW."""

    queue: int
    rows: tuple[tuple[bytes, int], ...]


def row_digest(row: bytes) -> int:
    """64 bits that stand for a row."""
    return int.from_bytes(blake2b(row, digest_size=8).digest(), "little") or 1


class ToldRows:
    """The digests of the rows that a stream has told, by their keys."""

    __slots__ = ("digests",)

    def __init__(self) -> None:
        self.digests: dict[bytes, int] = {}

    def tell(self, step: TellRows) -> None:
        """Carry out a step."""
        digests = self.digests
        for key, digest in step.rows:
            if digest == NO_ROW:
                digests.pop(key, None)
            else:
                digests[key] = digest

    def __len__(self) -> int:
        return len(self.digests)

    def encode(self) -> bytes:
        """Canonical octets for a snapshot."""
        return _COUNT.pack(len(self.digests)) + b"".join(_encoded(sorted(self.digests.items())))

    @classmethod
    def decode(cls, data: bytes, offset: int) -> tuple[ToldRows, int]:
        """The inverse of `encode`, and the offset behind it. Raises ValueError or struct.error."""
        found = cls()
        (count,) = _COUNT.unpack_from(data, offset)
        rows, offset = _decoded(data, offset + _COUNT.size, count)
        found.digests.update(rows)
        return found, offset


def encode_tell_rows(kind: int, step: TellRows) -> bytes:
    """The octets of a step, as an operation of this kind."""
    return _HEAD.pack(kind, step.queue, len(step.rows)) + b"".join(_encoded(step.rows))


def read_tell_rows(data: bytes | memoryview, offset: int) -> tuple[TellRows, int]:
    """The step at an offset, and the offset behind it. Raises ValueError or struct.error."""
    _, queue, count = _HEAD.unpack_from(data, offset)
    rows, offset = _decoded(data, offset + _HEAD.size, count)
    return TellRows(queue, tuple(rows)), offset


def _encoded(rows: list[tuple[bytes, int]] | tuple[tuple[bytes, int], ...]) -> Iterator[bytes]:
    for key, digest in rows:
        yield _ROW.pack(digest, len(key))
        yield key


def _decoded(data: bytes | memoryview, offset: int, count: int) -> tuple[list[tuple[bytes, int]], int]:
    rows = list[tuple[bytes, int]]()
    for _ in range(count):
        digest, size = _ROW.unpack_from(data, offset)
        start = offset + _ROW.size
        offset = start + size
        if offset > len(data):
            raise ValueError("a row's key ends behind the octets")
        rows.append((bytes(data[start:offset]), digest))
    return rows, offset
