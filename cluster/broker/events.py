"""What a node's machine tells the process that drives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.owner.lost_entries import MessageLoss
from replication.journal import DamagedEntryError
from replication.repair import UNHEARD, RepairEvents


def _nothing() -> None:
    """The process has nothing to do then."""


def _no_number(_partition: int) -> None:
    """The process keeps no such number."""


def _no_losses(_error: DamagedEntryError, _losses: list[MessageLoss]) -> None:
    """The process tells of no losses."""


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

    damage: RepairEvents = UNHEARD
    """Entries cannot be read here, or can be read again."""

    messages_lost: Callable[[DamagedEntryError, list[MessageLoss]], None] = _no_losses
    """No replica can read an entry any more: this node, its leader, discards the entry's messages."""
