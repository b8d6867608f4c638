"""The real front ends of simulated nodes, with access for every user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cluster.broker.front_end import front_end
from cluster.catalog.access.control import Access
from cluster.catalog.access.usage import Usage
from cluster.gateway.broker_port import FrontEnd
from tests.simulation.node import TICK_S, SimulatedNode

USER = "guest"
USERS = {USER: {"password_hash": "hash", "tags": ["administrator"]}}
"""Users in the form of the catalog's command `found_access`."""

CONNECTIONS = 1000


class TrustingHasher:
    """A hasher for which every password is correct."""

    key = b""

    def hash(self, password: str, scram: bool, answer: Callable[[str], None]) -> None:
        answer("hash")

    def compare(
        self, stored: str | None, password: str, origin: str, user: str, answer: Callable[[bool], None]
    ) -> Callable[[], None]:
        answer(stored is not None)
        return lambda: None


class FrontEnds:
    """A front end for each process of each node. `default_type` is the default type of durable queues."""

    def __init__(self, default_type: str = "quorum") -> None:
        self._default_type = default_type
        self._made: dict[tuple[str, int], FrontEnd] = {}

    def of(self, node: SimulatedNode) -> FrontEnd:
        """The front end of the node's present process; its timers run as long as the process."""
        found = self._made.get((node.name, node.life))
        if found is None:
            state = node.broker.catalog.state
            access = Access(state.access, _submit_nothing, TrustingHasher())
            usage = Usage(state.access, _tell_nobody, lambda: ())
            found = front_end(node.broker.clients, access, usage, CONNECTIONS, self._default_type)
            self._made[node.name, node.life] = found
            _tick(node, found)
        return found


def _tick(node: SimulatedNode, front_end: FrontEnd) -> None:
    front_end.tick(node.broker._now)
    node.after(TICK_S, lambda: _tick(node, front_end))


def _submit_nothing(name: str, arguments: dict[str, Any], answer: Any) -> None:
    raise AssertionError(name)


def _tell_nobody(peer: str, parts: Sequence[bytes]) -> None:
    raise AssertionError(peer)
