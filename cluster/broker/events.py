"""What a node's machine tells the process that drives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _nothing() -> None:
    """The process has nothing to do then."""


def _no_number(_partition: int) -> None:
    """The process keeps no such number."""


@dataclass(frozen=True, slots=True)
class NodeEvents:
    """Callables of the process; each may be left out."""

    wanted: Callable[[], None] = _nothing
    """Something is to be done in a turn."""

    decided: Callable[[], None] = _nothing
    """What may leave before the turn is over should leave now."""

    waiting: Callable[[], None] = _nothing
    """Something waits for `LinkTurns.flush_waiting`, a few milliseconds at most."""

    members_changed: Callable[[], None] = _nothing
    """The catalog has other nodes, or the same ones elsewhere."""

    needed: Callable[[], None] = _nothing
    """The other nodes may not be able to go on without this node's replicas from now on."""

    rebuilding: Callable[[], None] = _nothing
    """This node's disk was lost."""

    newest_lost: Callable[[int], None] = _no_number
    """What `BrokerConfig.newest_lost` is to be when this node starts again before it is whole."""

    removed: Callable[[], None] = _nothing
    """This node is no member any more."""
