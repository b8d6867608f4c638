"""The interfaces between a node's machine and the process that drives the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cluster.owner.context import OverdueEpoch, OverdueTake, OvertakenReader, PastNews
from cluster.owner.lost_entries import MessageLoss
from node.ranges.cold import ColdSpace
from replication.journal import DamagedEntryError
from replication.repair import NO_REPAIR_EVENTS, RepairEvents


def _memory_alone() -> None:
    """The default where ranges and annotations stay in memory."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The ways to other nodes, clocks, and randomness."""

    send: Callable[[str, Sequence[bytes | memoryview]], object]
    """Queues one message, as parts, for a peer. The message may be lost."""

    backlog: Callable[[str], int]
    """The octets that wait in the transport for a peer."""

    clock: Callable[[], float]
    """Seconds of a clock that never goes back."""

    wall_ms: Callable[[], int]
    """Milliseconds since the epoch."""

    random: Callable[[], float]
    """A random number from 0 to 1."""

    random_bits: Callable[[int], int]
    """A random number of so many bits, which no client can guess."""

    new_space: Callable[[], ColdSpace | None] = _memory_alone
    """Makes a place outside of memory for ranges and annotations of one queue; None: there is none."""


def _nothing() -> None:
    """The default of events that the process does not listen to."""


def _no_number(_partition: int) -> None:
    """The default where the process does not keep the number."""


def _no_losses(_error: DamagedEntryError, _losses: list[MessageLoss]) -> None:
    """The default where the process does not log losses."""


def _no_epoch(_epoch: OverdueEpoch) -> None:
    """The default where the process does not log epochs."""


def _no_take(_take: OverdueTake) -> None:
    """The default where the process does not log takes."""


def _no_reader(_reader: OvertakenReader) -> None:
    """The default where the process does not log readers."""


def _no_past(_change: PastNews) -> None:
    """The default where the process does not log the past of queues."""


@dataclass(frozen=True, slots=True)
class NodeEvents:
    """Callbacks of the process, called in a turn or while an input is handled. Those that have a
    default may be left out.
    """

    wanted: Callable[[], None]
    """The node has work for a turn."""

    decided: Callable[[], None]
    """Confirms are ready in the middle of a turn: the process should send its output now."""

    waiting: Callable[[], None]
    """A link has something for `Links.flush_waiting`, which the process should call in a few milliseconds."""

    members_changed: Callable[[], None] = _nothing
    """The members in the catalog changed, or their addresses."""

    needed: Callable[[], None] = _nothing
    """From now on the other nodes may not be able to go on without this node's replicas."""

    rebuilding: Callable[[], None] = _nothing
    """This node lost its disk."""

    newest_lost: Callable[[int], None] = _no_number
    """The value for `BrokerConfig.newest_lost` where this node starts again before it is whole."""

    removed: Callable[[], None] = _nothing
    """This node is no member any more."""

    damage: RepairEvents = NO_REPAIR_EVENTS
    """The journal has an entry that cannot be read, or a peer has repaired one."""

    epoch_overdue: Callable[[OverdueEpoch], None] = _no_epoch
    """This node, the leader, has dropped an epoch of a sink that no client decided in time."""

    take_overdue: Callable[[OverdueTake], None] = _no_take
    """This node, the leader, has ended the takes of a reader of which it has heard nothing in time."""

    reader_overtaken: Callable[[OvertakenReader], None] = _no_reader
    """At this node, the leader, retention has passed a reader of a stream."""

    past_changed: Callable[[PastNews], None] = _no_past
    """At this node, the leader, a queue over a stream has got another recovery point, or retention has passed
    messages that a queue was to have.
    """

    messages_lost: Callable[[DamagedEntryError, list[MessageLoss]], None] = _no_losses
    """No replica can read an entry any more: this node, the leader, discards the entry's messages."""
