"""The octets of segments and records (docs/journal-format.md, "Files" and "Records")."""

from __future__ import annotations

from enum import IntEnum
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

SEGMENT_HEAD: Final = Struct("<8sHxxII")
SEGMENT_MAGIC: Final = b"quorate\n"
SEGMENT_VERSION: Final = 1
KEY: Final = Struct("<16sI")
KEY_AT: Final = SEGMENT_HEAD.size
FIRST_RECORD: Final = 512
RECORD: Final = Struct("<I2sIBBBxIIIQQQ")
RECORD_VERSION: Final = 1
RECORD_MARK: Final = b"\xd1J"
CRC_OCTETS: Final = 4
EVERY_PARTITION: Final = 0xFFFFFFFF
"""The partition of marks."""

U32: Final = Struct("<I")
U64: Final = Struct("<Q")
_TAGGED: Final = Struct("<III")
_TAG: Final = Struct("<QQ")


class Kind(IntEnum):
    """The kinds of records."""

    ENTRY = 1
    HARD_STATE = 2
    SNAPSHOT = 3
    KEPT = 4
    RECEIVED = 5
    DROP = 6
    SEAL = 7


WITH_ENTRY: Final = {int(Kind.ENTRY): 0, int(Kind.KEPT): U64.size, int(Kind.RECEIVED): U64.size}
"""The records that have an entry, with the octets in front of the entry's data."""

RECORD_NAMES: Final = {int(kind): kind.name.lower() for kind in Kind}


class Record(NamedTuple):
    """A valid record. `offset` and `end` are offsets in its segment."""

    offset: int
    end: int
    kind: int
    entry_kind: int
    batch_start: int
    generation: int
    partition: int
    log_index: int
    term: int
    payload: bytes

    @property
    def is_mark(self) -> bool:
        return self.kind == Kind.DROP and self.partition == EVERY_PARTITION

    @property
    def data(self) -> bytes:
        """The data of the record's entry; for records that have one."""
        return self.payload[WITH_ENTRY[self.kind] :]

    @property
    def number(self) -> int:
        """The number in front of the data of a KEPT or RECEIVED; 0 where the payload has none."""
        return int(U64.unpack_from(self.payload)[0]) if len(self.payload) >= U64.size else 0

    @property
    def holds_entry(self) -> bool:
        return self.kind in WITH_ENTRY and len(self.payload) >= WITH_ENTRY[self.kind]


def seed_of(segment: int) -> int:
    """The start value of the CRC of records in a segment."""
    return crc32(U32.pack(segment))


def pattern_of(segment: int) -> bytes:
    """The octets behind the CRC of each record of a segment."""
    return RECORD_MARK + U32.pack(segment)


def head_number(head: bytes) -> int | None:
    """The number of the segment that begins with these octets; None where they are no head.

    Raises UnsupportedHeadError for another format version.
    """
    if len(head) < SEGMENT_HEAD.size:
        return None
    magic, version, number, crc = SEGMENT_HEAD.unpack_from(head)
    if magic != SEGMENT_MAGIC or crc != crc32(head[: SEGMENT_HEAD.size - CRC_OCTETS]):
        return None
    if version != SEGMENT_VERSION:
        raise UnsupportedHeadError(f"segment format {version} is not known")
    return int(number)


class UnsupportedHeadError(ValueError):
    """A segment of a format version that this reader does not know."""


def key_in(head: bytes, segment: int) -> bytes | None:
    """The key of a segment's marks; None for a segment without."""
    if len(head) < KEY_AT + KEY.size:
        return None
    key, crc = KEY.unpack_from(head, KEY_AT)
    return bytes(key) if crc == crc32(key, seed_of(segment)) else None


def tag_of(key: bytes, segment: int, batch_start: int, offset: int) -> tuple[int, int]:
    """The two halves of the tag of the mark at `offset`."""
    octets = _TAGGED.pack(segment, batch_start, offset)
    first, second = _TAG.unpack(blake2b(octets, key=key, digest_size=_TAG.size).digest())
    return first, second
