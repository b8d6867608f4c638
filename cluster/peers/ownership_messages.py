"""The first message of a node on a connection, repeated once a second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.peers.packing import pack, unpack_part
from cluster.peers.tags import OWNERSHIP


@dataclass(frozen=True, slots=True)
class Announcement:
    """The partitions that a node owns, its process, and the format level that it reads (docs/decisions/0020).

    `owned` has partitions with the term in which the node owns each. `process` is the number of the node's
    front end. Both `process` and `formats` are 0 where the sender's release does not tell them.
    """

    owned: list[tuple[int, int]]
    process: int = 0
    formats: int = 0

    def encode(self) -> list[bytes]:
        return [OWNERSHIP, pack(self.owned), pack(self.process), pack(self.formats)]

    @classmethod
    def decode(cls, parts: Sequence[bytes]) -> Announcement:
        """Raises MessageError."""
        owned = unpack_part(parts, [(int, int)])
        process = unpack_part(parts, int, 2) if len(parts) > 2 else 0
        formats = unpack_part(parts, int, 3) if len(parts) > 3 else 0
        return cls([(partition, term) for partition, term in owned], process, formats)
