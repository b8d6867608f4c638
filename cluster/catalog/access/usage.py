"""Counts of connections and channels in the whole cluster, for the limits of virtual hosts and users.

Each node counts its own connections and channels. It tells the other nodes the counts that a limit concerns,
in the tick in which they change and every `USAGE_INTERVAL_S`. So a limit is exact on one node; over several
nodes it counts what the others had a moment ago. Nodes may both let in clients that come to them within that
moment, as in RabbitMQ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from cluster.catalog.access.state import AccessState
from cluster.peers.resource_messages import ClientCounts

USAGE_INTERVAL_S: Final = 1.0


class CountedConnection(Protocol):
    """A connection, as far as it is counted."""

    @property
    def channel_count(self) -> int: ...


class Usage:
    """This node's counts, and the counts that the other nodes told last."""

    def __init__(
        self,
        state: AccessState,
        send: Callable[[str, Sequence[bytes]], object],
        reachable: Callable[[], Iterable[str]],
    ) -> None:
        self._state = state
        self._send = send
        self._reachable = reachable
        self._vhosts: Counter[str] = Counter()
        self._users: dict[str, dict[int, CountedConnection]] = {}
        self._told: dict[str, ClientCounts] = {}
        self._changed = False
        self._last_told: list[bytes] = []
        self._next_telling = 0.0

    # -- this node ------------------------------------------------------------------------------

    def opened(self, user: str, vhost: str, holder: int, connection: CountedConnection) -> None:
        """Count a connection of this node, under the number `holder`, and its channels from now on."""
        self._vhosts[vhost] += 1
        self._users.setdefault(user, {})[holder] = connection
        self._changed = True

    def closed(self, user: str, vhost: str, holder: int) -> None:
        """Count the connection no more."""
        self._vhosts[vhost] -= 1
        if not self._vhosts[vhost]:
            del self._vhosts[vhost]
        del self._users[user][holder]
        if not self._users[user]:
            del self._users[user]
        self._changed = True

    def channels_changed(self) -> None:
        """A connection of this node has another number of channels."""
        self._changed = True

    # -- the cluster ----------------------------------------------------------------------------

    def in_vhost(self, vhost: str) -> int:
        """Connections in a virtual host that has a limit."""
        return self._vhosts[vhost] + sum(told.vhosts.get(vhost, 0) for told in self._others())

    def of_user(self, user: str) -> tuple[int, int]:
        """Connections and channels of a user who has a limit."""
        connections, channels = self._own(user)
        for told in self._others():
            more = told.users.get(user, (0, 0))
            connections, channels = connections + more[0], channels + more[1]
        return connections, channels

    def _own(self, user: str) -> tuple[int, int]:
        connections = self._users.get(user, {}).values()
        return len(connections), sum(connection.channel_count for connection in connections)

    def _others(self) -> list[ClientCounts]:
        """The counts that reachable nodes have told; the connections of a dead node do not count."""
        reachable = set(self._reachable())
        return [told for node, told in self._told.items() if node in reachable]

    def receive(self, peer: str, parts: Sequence[bytes], _now: float) -> None:
        """Take another node's counts. Raises MessageError."""
        self._told[peer] = ClientCounts.decode(parts)

    def tick(self, now: float) -> None:
        """Tell the other nodes the counts that limits concern, where they changed or the interval is over."""
        if not self._changed and now < self._next_telling:
            return
        due = now >= self._next_telling
        self._changed = False
        counts = self._limited_counts()
        if counts != self._last_told or due:
            self._last_told = counts
            self._next_telling = now + USAGE_INTERVAL_S
            for peer in self._reachable():
                self._send(peer, counts)

    def _limited_counts(self) -> list[bytes]:
        vhosts = {
            vhost: count
            for vhost, count in self._vhosts.items()
            if vhost in self._state.vhosts and self._state.vhosts[vhost].limits
        }
        users = {
            user: self._own(user)
            for user in self._users
            if user in self._state.users and self._state.users[user].limits
        }
        return ClientCounts(vhosts, users).encode()
