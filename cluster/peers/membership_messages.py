"""Messages about the members: their addresses, the nodes that each hears, and learners that could vote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.peers.packing import pack, unpack_part
from cluster.peers.tags import CONTACTS, MEMBERS, VOTES


@dataclass(frozen=True, slots=True)
class PeerGreeting:
    """The addresses of the sender and of the members that it knows.

    `address` is host:port, `key` the public key or None. `known` has name, address and key of each member,
    the sender included.
    """

    address: str
    key: str | None
    known: list[tuple[str, str, str | None]]

    def encode(self) -> list[bytes]:
        return [MEMBERS, pack([self.address, self.key, self.known])]

    @classmethod
    def decode(cls, parts: Sequence[bytes]) -> PeerGreeting:
        """Raises MessageError."""
        address, key, known = unpack_part(parts, (str, str | None, [(str, str, str | None)]))
        return cls(address, key, [(name, its_address, its_key) for name, its_address, its_key in known])


@dataclass(frozen=True, slots=True)
class ContactAges:
    """How many milliseconds ago the sender heard each of the other nodes."""

    ages: dict[str, float]

    def encode(self) -> list[bytes]:
        return [CONTACTS, pack(self.ages)]

    @classmethod
    def decode(cls, parts: Sequence[bytes]) -> ContactAges:
        """Raises MessageError."""
        return cls(unpack_part(parts, {str: float}))


@dataclass(frozen=True, slots=True)
class VoteOffer:
    """The groups led by the receiver in which the sender is a learner that could vote."""

    partitions: list[int]

    def encode(self) -> list[bytes]:
        return [VOTES, pack(self.partitions)]

    @classmethod
    def decode(cls, parts: Sequence[bytes]) -> VoteOffer:
        """Raises MessageError."""
        return cls(unpack_part(parts, [int]))
