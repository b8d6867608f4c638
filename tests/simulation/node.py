"""One node: the real `Broker` and `Journal` in a process that can be killed, frozen and put back in time.

It stands for the process of a node (`cluster/process`): an event loop with a turn after arrivals, timers, the
journal's writer, and a restart with a new front end number.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar

from mypy_extensions import mypyc_attr

from cluster.broker.broker import Broker
from cluster.broker.environment import Environment, NodeEvents
from cluster.broker.observers import NodeObservers
from cluster.config.formats import FORMAT_LEVEL
from cluster.config.node import BrokerConfig
from cluster.gateway.commits import Commits
from cluster.owner.context import PastNews
from cluster.owner.observer import PartitionObserver
from node.refusal import Refusal
from replication.journal import DamagedEntryError, Journal, JournalConfig
from replication.journal.errors import JournalError
from replication.journal.segments import segment_name
from replication.raft import Entry, RaftConfig
from replication.repair import RepairEvents
from tests.simulation.clock import Clock
from tests.simulation.cold import ColdOctets
from tests.simulation.disk import PowerLost, SimulatedDisk
from tests.simulation.network import Network, Transport
from tests.simulation.world import Action, Violation, World
from tests.simulation.writer import FAST_SYNC_S, SimulatedWriter

TICK_S = 0.025
TURN_S = 0.0004
COLLECT_S = 0.5
EPOCH_MS = 1_800_000_000_000


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Sizes in octets, so small that snapshots and segments come and go within seconds.

    drift: the bound on the error of a node's clock rate, as a fraction.
    """

    snapshot_bytes: int = 24 << 10
    segment_bytes: int = 16 << 10
    cache_bytes: int = 16 << 10
    max_append_bytes: int = 1 << 20
    election_timeout_s: float = 0.6
    drift: float = 0.0
    lease_s: float = 1.0
    auto_delete_after_s: float = 0.0
    epoch_timeout_ms: int = 3_600_000
    take_timeout_s: float = 3600.0

    def timeouts(self) -> dict[str, Any]:
        """Those that the broker's configuration has."""
        names = ("auto_delete_after_s", "epoch_timeout_ms", "take_timeout_s")
        return {name: getattr(self, name) for name in names}


@mypyc_attr(allow_interpreted_subclasses=True)
class SimulatedNode:
    """A machine with a disk and, most of the time, a broker process on it.

    `life` counts the processes so far; timers and inputs of an earlier process never happen. `leaving`: the
    node sends its clients away. `empty`: the node asks the others whether its empty disk was lost.
    `lost_disk`: the node may have forgotten votes, and gives none before it has all data back. `rotten`: the
    disk is damaged. `copied`: the node has noted beside its journal that the other nodes have all its data.
    """

    writer_type: ClassVar[type[SimulatedWriter]] = SimulatedWriter
    counts_suspension: ClassVar[bool] = True
    """Whether the process's clock goes on while the machine is suspended."""

    def __init__(
        self, name: str, members: tuple[str, ...], world: World, network: Network, settings: NodeSettings
    ) -> None:
        self.name = name
        self.members = members
        self.world = world
        self.disk = SimulatedDisk(world.chance(f"disk {name}"))
        self.life = 0
        self.up = False
        self.paused = False
        self.ready = False
        self.lost_disk = self.empty = self.rotten = self.copied = False
        self.newest_lost: int | None = None
        self.past_changed: Callable[[PastNews], None] = lambda _: None
        self.retired = self.leaving = False
        self.formats = FORMAT_LEVEL
        self.domains: tuple[str, ...] = ()
        """The domains of nodes in the configuration of the next process."""
        self.connections: dict[Any, None] = {}
        self.slowness_s = 0.0
        """The longest additional delay of a turn, in seconds."""
        self.stepped = False
        """Whether a fault has set the time of day, so that timed events happen at other times."""
        self.failures: list[str] = []
        self.on_ready: Callable[[SimulatedNode], None] = lambda node: None
        self.on_death: Callable[[SimulatedNode], None] = lambda node: None
        self.after_turn: Callable[[SimulatedNode], None] = lambda node: None
        self.after_message: Callable[[SimulatedNode], None] = lambda node: None
        self.observers: Callable[[SimulatedNode, int], tuple[PartitionObserver, ...]] = (
            lambda node, partition: ()
        )
        """Made for each replica that a process opens."""
        self._network = network
        self._settings = settings
        self._random = world.chance(f"node {name}")
        chance, began = world.chance(f"clock {name}"), self._random.uniform(0.0, 1000.0)
        self._clock = Clock(world, chance, began, settings.drift, counts_suspension=self.counts_suspension)
        self._wall_offset_ms = world.chance(f"time of day {name}").randint(-20, 20)
        self._missed: deque[tuple[bool, Action]] = deque()
        """(whether it is a timer, action) of what is due since the process stands still."""
        self._turning = self._catching_up = False

    # -- the process ----------------------------------------------------------------------------

    def clock(self) -> float:
        """The machine's monotonic clock, in seconds."""
        return self._clock.read()

    def wall_ms(self) -> int:
        """The machine's time of day, which differs a little from that of other machines."""
        return EPOCH_MS + int(self.world.now * 1000) + self._wall_offset_ms

    def start(self) -> None:
        """Start a process with the data on the disk, unless the node has left for good."""
        if self.retired:
            return
        self.life += 1
        self.up, self.paused, self.ready, self.leaving = True, False, False, False
        self.connections.clear()
        self._clock.resume()
        self._missed.clear()
        self._turning = False
        self.world.note(f"{self.name} starts, life {self.life}")
        settings = self._settings
        config = JournalConfig(
            segment_bytes=settings.segment_bytes,
            spare_segments=2,
            cache_bytes=settings.cache_bytes,
            read_ahead_bytes=4096,
        )
        try:
            self.journal = self._open(config)
        except OSError as error:
            self._fail_to_start(error)
            return
        self.front_end = self._random.getrandbits(62) | 1
        raft = RaftConfig(
            self.name,
            election_timeout_s=settings.election_timeout_s,
            lease_s=settings.lease_s,
            clock_drift=settings.drift,
            max_append_bytes=settings.max_append_bytes,
        )
        self.transport = Transport(self._network, self, self.front_end)
        self.broker = Broker(
            BrokerConfig(
                self.name,
                self.front_end,
                self.members,
                raft,
                settings.snapshot_bytes,
                empty=self.empty,
                rebuilding=self.lost_disk,
                newest_lost=None if self.journal.fresh else self.newest_lost,
                joins=self.name not in self.members,
                formats=self.formats,
                **settings.timeouts(),
                domains=self.domains,
            ),
            self.journal,
            self._environment(),
            self._events(),
            NodeObservers(partition=lambda partition: self.observers(self, partition)),
        )
        undecided = self.broker.clients.gateway.undecided
        self.commits = Commits(self.front_end, self.broker.catalog.state, undecided)
        self.writer = self.writer_type(self, self.journal)
        self._network.join(self.transport)
        self.broker.start(self.writer)
        self._ask("start_node", self.broker.formats.incarnation, self._started)
        self.after(self._random.uniform(0.0, TICK_S), self._tick)
        self.after(COLLECT_S, self._collect)

    def _environment(self) -> Environment:
        return Environment(
            self.transport.send,
            lambda peer: 0,
            self.clock,
            self.wall_ms,
            self._random.random,
            random.Random(f"{self.name} {self.life}").getrandbits,
            ColdOctets(self.name, self.disk).new_space,
        )

    def _events(self) -> NodeEvents:
        return NodeEvents(
            wanted=self.wanted,
            decided=_unheard,
            waiting=_unheard,
            removed=self._removed,
            newest_lost=partial(setattr, self, "newest_lost"),
            needed=lambda: self.needed(),
            damage=RepairEvents(found=self._damage_found),
            past_changed=lambda change: self.past_changed(change),
        )

    def needed(self) -> None:
        """A group whose only replica is on this node may be opened: remove the note `copied`."""
        self.copied = False

    def _open(self, config: JournalConfig) -> Journal:
        try:
            return Journal.open(self.disk, config, self._rewrite)
        except JournalError as error:
            if not self.rotten:
                raise Violation(f"{self.name} does not recover its journal: {error!r}") from error
            who = self.name if self.copied else f"the administrator of {self.name}"
            self.world.note(f"{who} sets its journal aside: {error}")
        self.lose_disk()
        self.rotten = False
        return Journal.open(self.disk, config, self._rewrite)

    def lose_disk(self) -> None:
        """Replace the disk by an empty one."""
        self.disk.wipe()
        self.lost_disk, self.newest_lost = True, None

    def _fail_to_start(self, error: OSError) -> None:
        """The disk has failed while the journal is recovered: the node is started again later."""
        self.world.note(f"{self.name} does not start: {error}")
        self.disk.lose_power()
        self.up = False
        self.world.after(0.2, lambda: None if self.up else self.start())

    def _rewrite(self, partition: int, entry: Entry) -> bytes | None:
        return self.broker.rewrite(partition, entry)

    def _ask(self, name: str, arguments: dict[str, Any], answer: Callable[[], None]) -> None:
        def answered(value: Any, refusal: Refusal | None) -> None:
            if refusal is None:
                answer()
            else:
                self._ask(name, arguments, answer)

        self.broker.catalog.submit(name, arguments, answered)

    def _started(self) -> None:
        self.world.note(f"{self.name} is ready")
        self.ready = True
        self.on_ready(self)

    def _removed(self) -> None:
        """The cluster has removed this node."""
        self.world.note(f"{self.name} is removed")
        self.after(0.0, self.retire)

    def retire(self) -> None:
        """End the process, and never start it again."""
        self.retired = True
        self.stop(power=False)

    def stop(self, *, power: bool) -> None:
        """Kill the process; with `power` cut the machine's power, which loses unsynced data."""
        if not self.up:
            return
        self._disturb("loses power" if power else "is killed")
        self._tear()
        if power:
            self.disk.lose_power()
        else:
            self.disk.kill_process()
        self.up = self.ready = False
        self.life += 1
        self._network.leave(self.transport)
        self.on_death(self)

    def end(self) -> None:
        """End the process in order, with everything written."""
        self._turn()
        if self.writer.batch is not None:
            self.writer.batch.write()
        self.writer.batch = None
        self.stop(power=False)

    def _tear(self) -> None:
        """Carry out a part of the write that is in progress."""
        batch = self.writer.batch
        if batch is not None:
            self.disk.stop_after = self._random.randint(0, 3)
            with suppress(PowerLost, OSError):
                batch.write()
            self.disk.stop_after = None

    def disk_failed(self, error: OSError) -> None:
        """The journal cannot be written: the process sends nothing more, and ends."""
        self.world.note(f"{self.name}: {error}")
        self.broker.host.fail(error)
        self.failures.append(str(error))
        self.writer.batch = None
        self.stop(power=True)

    def pause(self) -> None:
        """Freeze the process, as SIGSTOP does: input waits in its sockets."""
        self.world.note(f"{self.name} is frozen")
        self.paused = True

    def resume(self, first: Action | None = None) -> None:
        """Let the process go on, with overdue timers. The event loop carries out `first` before all other
        input.
        """
        if not self.paused:
            return
        self.paused = False
        self._clock.resume()
        if not self.up:
            # The frozen process was killed, or its machine has lost power.
            self._missed.clear()
            return
        self.world.note(f"{self.name} wakes up")
        if first is not None:
            self.input(first)
        elif self._missed:
            self._wake()
        self._catching_up = True
        while self._missed:
            self._do(self._missed.popleft()[1])
        self._catching_up = False

    def _wake(self) -> None:
        """Have timers run before the sockets are read, after all of them are read, or in between."""
        draw = self._random.random()
        if draw < 0.5:
            self.broker.tick(self.clock())
        elif draw < 0.75:
            self._missed = deque(sorted(self._missed, key=itemgetter(0)))

    def suspend(self) -> None:
        """Suspend the whole machine: its processes, and the clocks that do not count suspensions."""
        self.pause()
        self._clock.suspend()

    def step(self, seconds: float) -> None:
        """Set the time of day forward or back. Other clocks do not change."""
        self.world.note(f"{self.name}'s time of day is set by {seconds:+.1f} s")
        self._wall_offset_ms += int(seconds * 1000)
        self.stepped = True

    # -- the event loop -------------------------------------------------------------------------

    def after(self, delay: float, action: Action) -> None:
        """A timer of the present process."""
        life = self.life

        def due() -> None:
            if self.life == life:
                self.input(action, timer=True)

        self.world.after(self._clock.true_time(delay), due)

    def input(self, action: Action, *, timer: bool = False) -> None:
        """Do something on the event loop, when it runs."""
        if self.paused or self._catching_up:
            # A client's new input is behind the input that waits in its socket.
            life = self.life
            self._missed.append((timer, lambda: action() if self.life == life else None))
        else:
            self._do(action)

    def _do(self, action: Action) -> None:
        if self.up:
            try:
                action()
            except (JournalError, OSError) as error:
                self._fail_stop(error)

    def _fail_stop(self, error: JournalError | OSError) -> None:
        """End the scope of an uncaught exception, as `cluster.process.fail_stop` does."""
        if self.rotten and isinstance(error, DamagedEntryError):
            try:
                self.broker.host.repair.found(error, self.clock())
            except DamagedEntryError:
                self.world.note(f"{self.name} ends: no replica has the entry")
                self.stop(power=False)
        elif self.rotten or (isinstance(error, OSError) and self.disk.faulty):
            self.world.note(f"{self.name} ends: {error!r}")
            self.stop(power=False)
        else:
            raise error

    def _mended(self, work: Callable[[], Any]) -> Any:
        """Do work outside of sessions. An entry that cannot be read must not end the node there, unless no
        replica has the entry.
        """
        try:
            return work()
        except DamagedEntryError as error:
            self.broker.host.repair.found(error, self.clock())
            raise AssertionError(f"{self.name} would end for {error}") from error

    def _damage_found(self, error: DamagedEntryError) -> None:
        self._disturb(f"finds {error}")

    def _disturb(self, what: str) -> None:
        self.world.note(f"{self.name} {what}")
        self.world.disturbed = self.world.now

    def wanted(self) -> None:
        """Schedule a turn of the event loop."""
        if not self._turning:
            self._turning = True
            busy_s = self.slowness_s * self._random.random() if self.slowness_s else 0.0
            self.after(TURN_S * (0.5 + self._random.random()) + busy_s, self._turn)

    def _turn(self) -> None:
        self._turning = False
        more = self._mended(partial(self.broker.turn, self.clock()))
        if self.lost_disk and self.ready and self.broker.partitions.whole:
            self.world.note(f"{self.name} is rebuilt")
            self.broker.host.rebuilt()
            self.lost_disk = False
        self.transport.flush()
        self.after_turn(self)
        if more:
            self.wanted()

    def _tick(self) -> None:
        self.broker.tick(self.clock())
        self.after(TICK_S * (0.9 + 0.2 * self._random.random()), self._tick)

    def _collect(self) -> None:
        self.journal.collect(self._settings.segment_bytes)
        self.copied = self.copied or self.broker.copies.complete
        self.wanted()
        self.after(COLLECT_S, self._collect)

    def sealed_segments(self) -> list[str]:
        """The journal's files that are not written any more."""
        segments = [one for one in self.journal._segments.values() if one.sealed]
        return sorted({segment_name(one.number) for one in segments}.intersection(self.disk.names()))

    def sync_time(self) -> float:
        """The duration of the next sync, in seconds."""
        return (FAST_SYNC_S + self.disk.sync_seconds) * (0.5 + self._random.random())

    def disk_recovers(self) -> None:
        """Syncs take no longer than usual any more."""
        self.disk.sync_seconds = 0.0
        if self.up:
            self.writer.hurry()

    def durable(self, results: list[tuple[int, int, int]]) -> None:
        """The writer has finished."""
        self.broker.durable(results, self.clock())

    # -- calls of the transport (tests.simulation.network.Process) ------------------------------

    def message(self, peer: str, parts: list[bytes]) -> None:
        self._mended(partial(self.broker.receive, peer, parts, self.clock()))
        self.after_message(self)

    def peer_up(self, peer: str) -> None:
        self._mended(partial(self.broker.peer_up, peer, self.clock()))

    def peer_down(self, peer: str) -> None:
        self._disturb(f"loses its connection to {peer}")
        self.broker.peer_down(peer, self.clock())

    def peer_gap(self, peer: str) -> None:
        self._disturb(f"sees a gap from {peer}")
        self._mended(partial(self.broker.peer_gap, peer, self.clock()))


def _unheard() -> None:
    """Clients of the simulation hear at the end of a turn, and links settle by the clock."""
