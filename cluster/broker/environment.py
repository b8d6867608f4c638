"""The interfaces between a node's machine and the process that drives the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cluster.owner.lost_entries import MessageLoss
from replication.journal import DamagedEntryError
from replication.repair import NO_REPAIR_EVENTS, RepairEvents


@dataclass(frozen=True, slots=True)
class Environment:
    """The ways to other nodes, clocks, and randomness."""

    send: Callable[[str, Sequence[bytes | memoryview]], object]
    """Queues one message, as parts, for a peer."""

    backlog: Callable[[str], int]
    """How many octets wait in the transport for a peer."""

    clock: Callable[[], float]
    """Seconds of a clock that never goes back."""

    wall_ms: Callable[[], int]
    """Milliseconds since the epoch."""

    random: Callable[[], float]
    """From 0 to 1."""

    random_bits: Callable[[int], int]
    """A number of so many bits that no client can guess."""


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
    """Something waits for `Links.flush_waiting`, a few milliseconds at most."""

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

    damage: RepairEvents = NO_REPAIR_EVENTS
    """Entries cannot be read here, or can be read again."""

    messages_lost: Callable[[DamagedEntryError, list[MessageLoss]], None] = _no_losses
    """No replica can read an entry any more: this node, its leader, discards the entry's messages."""
