"""Messages about resources that all nodes share: clients up to a limit, memory and disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.peers.packing import pack, unpack_part
from cluster.peers.tags import CLIENT_COUNTS, SHORTAGE


@dataclass(frozen=True, slots=True)
class ClientCounts:
    """The counts of the sender's clients for the limits of virtual hosts and users.

    `vhosts` counts connections by virtual host; `users` counts connections and channels by user.
    """

    vhosts: dict[str, int]
    users: dict[str, tuple[int, int]]

    def encode(self) -> list[bytes]:
        return [CLIENT_COUNTS, pack([self.vhosts, self.users])]

    @classmethod
    def decode(cls, parts: Sequence[bytes]) -> ClientCounts:
        """Raises MessageError."""
        vhosts, users = unpack_part(parts, ({str: int}, {str: (int, int)}))
        return cls(vhosts, {user: (connections, channels) for user, (connections, channels) in users.items()})


@dataclass(frozen=True, slots=True)
class ResourceShortage:
    """The resources of which the sender is short: `memory`, `disk`."""

    resources: frozenset[str]

    def encode(self) -> list[bytes]:
        return [SHORTAGE, pack(sorted(self.resources))]

    @classmethod
    def decode(cls, parts: Sequence[bytes]) -> ResourceShortage:
        """Raises MessageError."""
        return cls(frozenset(unpack_part(parts, [str])))
