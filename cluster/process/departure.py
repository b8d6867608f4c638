"""The orderly stop of a node: it hands over its partitions, closes its clients' connections, and returns
their unsettled messages.

Pure: `step` is called until it returns True. A stage ends unfinished when its time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from cluster.gateway.link import Links
from cluster.process.handover import Handover

HANDOVER_S: Final = 5.0
"""Seconds for the hand-over of the groups that this node leads: several tries for each."""

CLOSING_S: Final = 1.0
"""Seconds that clients have to agree to the closing of their connections."""

RETURNING_S: Final = 2.0
"""Seconds until the returned messages of the clients are in the logs of their queues."""

STEP_S: Final = 0.005
"""Seconds between two steps."""


class DepartingClient(Protocol):
    """A client's connection."""

    def force_close(self, reason: str) -> None:
        """Send connection.close (320) with the reason. The client has a while to answer it."""


class Clients(Protocol):
    """The connections of a node (`node.session.listener.Listener`)."""

    @property
    def clients(self) -> Mapping[int, DepartingClient]: ...

    def close_ports(self) -> None:
        """Accept no more connections; open ones go on."""

    def stop(self) -> None:
        """Close the sockets of clients that have not agreed."""


class DepartureStage(NamedTuple):
    """A condition, the seconds to wait for it, and the next action, which gets whether it came in time."""

    done: Callable[[float], bool]
    seconds: float
    then: Callable[[bool], None]


class Departure:
    """The departure of one node.

    Clients stay connected while their queues get other owners, so that their confirms reach them. The node
    accepts no new client, which would have to return its messages a moment later.
    """

    def __init__(
        self,
        handover: Handover,
        links: Links,
        clients: Clients,
        wanted: Callable[[], None],
        handed_over: Callable[[bool], None],
        now: float,
    ) -> None:
        """`wanted` asks for a turn of the node. `handed_over` is called with whether other nodes lead all
        groups of this node in time.
        """
        self._handover, self._links, self._clients, self._wanted = handover, links, clients, wanted
        self._tell = handed_over
        self._stages = [
            DepartureStage(self._handed_over, HANDOVER_S, self._send_away),
            DepartureStage(lambda now: not clients.clients, CLOSING_S, lambda in_time: clients.stop()),
            DepartureStage(self._returned, RETURNING_S, lambda in_time: None),
        ]
        self._deadline = now + HANDOVER_S
        clients.close_ports()

    def step(self, now: float) -> bool:
        """Go on; returns whether the node may end now.

        At most one stage ends in a step, so that the broker acts between two stages.
        """
        stage = self._stages[0]
        in_time = stage.done(now)
        if in_time or now >= self._deadline:
            stage.then(in_time)
            del self._stages[0]
            self._deadline = now + (self._stages[0].seconds if self._stages else 0.0)
        self._wanted()
        return not self._stages

    def _handed_over(self, now: float) -> bool:
        if self._handover.done():
            return True
        self._handover.step(now)
        return False

    def _send_away(self, in_time: bool) -> None:
        self._tell(in_time)
        for client in list(self._clients.clients.values()):
            # 0-9-1 §4.2.2: the client answers connection.close. If the node closed a socket with unread
            # octets, the system would reset the connection, and the client might never see the reason.
            client.force_close("the node is shutting down")

    def _returned(self, now: float) -> bool:
        """Whether the returns of the clients' unsettled messages are committed."""
        self._links.flush_waiting()
        links = self._links.by_partition.values()
        return not any(link.unacknowledged for link in links if link.owner is not None)
