"""The bytes of the journal: segment headers and records.

A record is `RECORD` followed by its payload. Its CRC-32 covers everything behind itself and is
seeded with the segment's number, so that in a recycled file the records of its earlier life never
validate. `batch_start` is the offset, in the same segment, of the first record written together
with this one. A *mark* ends each batch: it tells a torn write, which may lose any part of the last
batch, from damage to what an earlier sync had made durable (docs/decisions/0022-marks-of-batches.md).

| kind | index | term | payload |
|---|---|---|---|
| ENTRY | entry's | entry's | entry data; everything from `index` on before it is superseded |
| HARD_STATE | commit index | current term | empty, or flags (u8) and the name in UTF-8 that was voted for |
| SNAPSHOT | snapshot's | snapshot's | see `SnapshotBody` |
| KEPT | entry's | entry's | u64 last index of the log then, entry data: an entry copied forward |
| RECEIVED | entry's | entry's | u64 number of the installation, entry data: comes to life with its SNAPSHOT |
| DROP | 0 | 0 | u32 number of the segment in which the partition was dropped |
| DROP of `NO_PARTITION`: a mark | tag, first half | tag, second half | u32 0 |
| SEAL | 0 | 0 | empty: the last record of a segment that has a successor |

The flags of a HARD_STATE are `VOTED` and `JOINING`. A release that knows no flags takes a replica without a
vote that is joining for one that voted for a node without a name: in that term it votes for no candidate.

All integers are little-endian.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b

from zlib_ng.zlib_ng import crc32

from replication.raft.types import HardState, Membership, Snapshot

SEGMENT_MAGIC = b"quorate\n"
SEGMENT_VERSION = 1
SEGMENT_HEADER = struct.Struct("<8sHxxII")
"""Magic, format version, segment number, CRC-32 of the fields before it."""
RECORD_KEY_BYTES = 16
SEGMENT_KEY = struct.Struct(f"<{RECORD_KEY_BYTES}sI")
"""Key of the segment's marks, CRC-32 of it, seeded like those of the records. Behind the header."""
FIRST_RECORD = 512
"""Records begin in a disk sector of their own, so that no torn write touches the header."""

RECORD_VERSION = 1
RECORD = struct.Struct("<I2sIBBBxIIIQQQ")
"""CRC, mark, segment number, version, kind, entry kind, payload length, batch start, generation of
the partition, partition, index, term."""
RECORD_BYTES = RECORD.size
RECORD_BODY = struct.Struct("<2sIBBBxIIIQQQ")
"""The header without its CRC."""
CRC = struct.Struct("<I")
RECORD_MARK = b"\xd1J"
U64 = struct.Struct("<Q")
U32 = struct.Struct("<I")
MARK_BYTES = U64.size
"""The fields before the entry data in KEPT and RECEIVED."""


NO_PARTITION = 0xFFFF_FFFF
"""The partition of marks: for a release that knows no marks, one that was dropped and never had anything."""
MARK_RECORD_BYTES = RECORD_BYTES + 4
GUARD_BYTES = 6
"""The end of each segment with a key. A release that knows no marks takes the guard for what is left of a
record, and begins a new segment: in this one batches without a mark would look torn."""
_MARKED = struct.Struct("<III")
_TAG = struct.Struct("<QQ")


class RecordKind(IntEnum):
    """The content of a record."""

    ENTRY = 1
    HARD_STATE = 2
    SNAPSHOT = 3
    KEPT = 4
    RECEIVED = 5
    DROP = 6
    SEAL = 7


RECORD_KINDS = frozenset(int(kind) for kind in RecordKind)
MARKED_KINDS = frozenset((int(RecordKind.KEPT), int(RecordKind.RECEIVED)))


def seed_of(segment: int) -> int:
    """The start value of the CRC of every record in segment `segment`."""
    return crc32(U32.pack(segment))


def search_pattern(segment: int) -> bytes:
    """The bytes that stand behind the CRC of every record of segment `segment`."""
    return RECORD_MARK + U32.pack(segment)


def encode_segment_header(number: int) -> bytes:
    """The first octets of segment `number`."""
    head = SEGMENT_HEADER.pack(SEGMENT_MAGIC, SEGMENT_VERSION, number, 0)[: -CRC.size]
    return head + CRC.pack(crc32(head))


def encode_segment_key(number: int, key: bytes) -> bytes:
    """The octets behind the header of segment `number`."""
    return SEGMENT_KEY.pack(key, crc32(key, seed_of(number)))


def decode_segment_key(number: int, octets: bytes) -> bytes | None:
    """Inverse of `encode_segment_key`; None for a segment of a release that knows no marks."""
    if len(octets) < SEGMENT_KEY.size:
        return None
    key, crc = SEGMENT_KEY.unpack_from(octets)
    return key if crc == crc32(key, seed_of(number)) else None


def tag_of(key: bytes, segment: int, batch_start: int, offset: int) -> tuple[int, int]:
    """The two halves of the tag of the mark at `offset`, which cannot be made without the segment's key."""
    place = _MARKED.pack(segment, batch_start, offset)
    first, second = _TAG.unpack(blake2b(place, key=key, digest_size=_TAG.size).digest())
    return first, second


VOTED = 0x01
"""A vote was given in the current term; the name follows."""
JOINING = 0x02
"""See `HardState.joining`."""


def encode_hard_state(state: HardState) -> bytes:
    """Payload of a HARD_STATE record; term and commit index are in its header."""
    flags = (VOTED if state.vote is not None else 0) | (JOINING if state.joining else 0)
    return bytes((flags,)) + (state.vote or "").encode() if flags else b""


def decode_hard_state(commit: int, term: int, payload: bytes) -> HardState:
    """Inverse of `encode_hard_state`, with the other fields from the record's header."""
    flags = payload[0] if payload else 0
    vote = payload[1:].decode() if flags & VOTED else None
    return HardState(term, vote, commit, bool(flags & JOINING))


SNAPSHOT_HEAD = struct.Struct("<QQII")


@dataclass(frozen=True, slots=True)
class SnapshotBody:
    """Payload of a SNAPSHOT record.

    `last_index` is the last of the log when this was written: entries behind it are stale.
    `installation` is the number of the last snapshot that came from a leader, 0 if none did.
    `live` holds first and last index, in turn, of the ranges up to the snapshot that stay readable.
    """

    last_index: int
    installation: int
    live: array[int]
    membership: Membership
    data: bytes

    def encode(self) -> tuple[bytes, ...]:
        membership = self.membership.encode()
        head = SNAPSHOT_HEAD.pack(self.last_index, self.installation, len(self.live), len(membership))
        return head, struct.pack(f"<{len(self.live)}Q", *self.live), membership, self.data

    @classmethod
    def decode(cls, payload: bytes) -> SnapshotBody:
        last_index, installation, count, length = SNAPSHOT_HEAD.unpack_from(payload)
        ranges_end = SNAPSHOT_HEAD.size + 8 * count
        live = array("Q", struct.unpack_from(f"<{count}Q", payload, SNAPSHOT_HEAD.size))
        data_start = ranges_end + length
        membership = Membership.decode(payload[ranges_end:data_start])
        return cls(last_index, installation, live, membership, payload[data_start:])

    def snapshot(self, index: int, term: int) -> Snapshot:
        return Snapshot(index, term, self.membership, self.data)
