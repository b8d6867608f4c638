"""Replicas in simulated time, on disks that lose what is not synced and a network that loses, doubles,
delays and reorders messages. Everything follows from one seed.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from replication.raft import (
    Entry,
    HardState,
    Membership,
    MembershipChange,
    MembershipChangeError,
    Message,
    NotLeaderError,
    Raft,
    RaftConfig,
    Ready,
    Role,
    UnknownPeerError,
    decode_message,
    encode_message,
)
from replication.raft.messages import SnapshotRequest
from tests.raft.checker import Checker, require
from tests.raft.memory_log import MemoryLog

Operation = Callable[[MemoryLog], None]


@dataclass(frozen=True)
class Faults:
    """Probabilities a message; the mean distance of incidents in seconds, and their kinds, by weight."""

    loss: float = 0.02
    duplicate: float = 0.03
    delay: float = 0.05
    incident_every_s: float = 0.35
    incidents: str = "crash crash partition one_way pause compact compact transfer campaign change"
    append_bytes: int = 200
    election_timeout_s: float = 0.3
    fall: float = 0.2
    """The probability that a new leader crashes, or is cut off, within its first 40 ms."""


class NoProgress(AssertionError):
    """The group does not agree although nothing fails any more."""


class SimulatedNode:
    """One replica, its disk and its state machine, which is a digest of all that was applied."""

    def __init__(self, name: str, simulation: Simulation, initial: Membership) -> None:
        self.name = name
        self.simulation = simulation
        self.initial = initial
        self.disk = MemoryLog()
        self.up = False
        self.paused = False
        self.life = 0
        self.start()

    def start(self) -> None:
        """Come up with what the disk holds."""
        self.up = True
        self.life += 1
        self.log = self.disk.copy()
        self.staged: list[Operation] = []
        self.waiting: list[Message] = []
        self.syncing = False
        self.tick_at = math.inf
        snapshot = self.log.snapshot()
        self.digest = int(snapshot.data) if snapshot is not None else 0
        self.reads: dict[bytes, int] = {}
        simulation = self.simulation
        config = RaftConfig(
            self.name,
            election_timeout_s=simulation.faults.election_timeout_s,
            heartbeat_interval_s=simulation.faults.election_timeout_s / 5,
            max_append_bytes=simulation.faults.append_bytes,
            max_inflight_bytes=600,
            max_committed_bytes=500,
        )
        self.raft = Raft(config, self.log, self.initial, simulation.now, simulation.random.random)
        self.turn()

    def crash(self) -> None:
        """Lose everything in memory, and of what is on its way to the disk all but some first part."""
        self.up = self.paused = False
        self.life += 1
        survived = self.simulation.random.randint(0, len(self.staged))
        for operation in self.staged[:survived]:
            self._write(operation)

    def lose_disk(self) -> None:
        """Crash and come back with nothing but that this happened."""
        self.crash()
        self.disk = MemoryLog()
        self.disk.set_hard_state(HardState(joining=True))
        self.simulation.checker.lost_disk(self.name)

    @property
    def rebuilding(self) -> bool:
        """Whether its disk does not have back all that it lost."""
        return self.disk.hard_state().joining

    def _write(self, operation: Operation) -> None:
        operation(self.disk)
        last = self.disk.last_index()
        if last >= self.disk.first_index():
            before = self.disk.term(last - 1) if last > 1 else 0
            self.simulation.checker.shown(self.name, self.disk.entries(last, last + 1, 0), before)
        self.simulation.checker.durable_hard_state(self.name, self.disk.hard_state())

    def stage(self, operation: Operation) -> None:
        operation(self.log)
        self.staged.append(operation)

    def turn(self) -> None:
        """Do what the core says until it has nothing more to say."""
        while self.raft.has_ready():
            self._carry_out(self.raft.ready())
        self._start_sync()
        deadline = self.raft.next_deadline()
        if deadline < self.tick_at:
            self.tick_at = deadline
            self.simulation.at(deadline, self, self._tick)

    def _carry_out(self, ready: Ready) -> None:
        simulation = self.simulation
        if ready.hard_state is not None:
            hard_state = ready.hard_state
            self.stage(lambda log: log.set_hard_state(hard_state))
        if ready.snapshot is not None:
            snapshot = ready.snapshot
            self.stage(lambda log: log.install(snapshot))
            self.digest = int(snapshot.data)
            simulation.checker.digest(self.name, snapshot.index, self.digest)
        for entry in ready.entries:
            self.stage(partial(_append, entry=entry))
        if simulation.checker.role(self.name, self.raft, self.log):
            simulation.elected(self)
        for message in ready.messages:
            simulation.send(message)
        self.waiting += ready.messages_after_sync
        # A lost disk counts as a copy, because the loss of one disk is the failure that the group must
        # survive.
        disks = {node.name: node.disk for node in simulation.nodes.values() if not node.rebuilding}
        for entry in ready.committed:
            self.digest = simulation.checker.applied(self.name, self.digest, entry, self.raft, disks)
        for read in ready.reads:
            floor = self.reads.pop(read.context, 0)
            require(
                read.index >= floor, f"{self.name} reads at {read.index}, but {floor} was committed before"
            )

    def _start_sync(self) -> None:
        if self.syncing:
            return
        if not self.staged:
            self._release(self.waiting)
            self.waiting = []
            return
        self.syncing = True
        batch, messages, self.waiting = len(self.staged), self.waiting, []
        last = self.log.last_index()
        mark = (last, self.log.term(last)) if last else None
        delay = self.simulation.random.uniform(0.0005, 0.02)
        self.simulation.at(self.simulation.now + delay, self, lambda: self._synced(batch, mark, messages))

    def _synced(self, batch: int, mark: tuple[int, int] | None, messages: list[Message]) -> None:
        for operation in self.staged[:batch]:
            self._write(operation)
        del self.staged[:batch]
        self.syncing = False
        self._release(messages)
        if mark is not None:
            self.raft.persisted(*mark, self.simulation.now)

    def _release(self, messages: list[Message]) -> None:
        for message in messages:
            self.simulation.send(message)

    def _tick(self) -> None:
        self.tick_at = math.inf
        self.raft.tick(self.simulation.now)

    def receive(self, parts: list[bytes]) -> None:
        self.raft.step(decode_message(parts), self.simulation.now)

    def compact(self) -> None:
        """Take a snapshot of what is applied."""
        index = self.raft.applied_index
        if index >= self.log.first_index():
            membership, data = self.raft.membership_at(index), str(self.digest).encode()
            self.stage(lambda log: log.compact(index, membership, data))


def _append(log: MemoryLog, entry: Entry) -> None:
    log.append([entry])


class Simulation:
    """A group of replicas, the network between them and the clock."""

    def __init__(
        self, seed: int, names: str = "abcde", voters: str = "abc", faults: Faults | None = None
    ) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.checker = Checker()
        self.faults = faults if faults is not None else Faults()
        self.healed = False
        self.blocked: set[tuple[str, str]] = set()
        self._events: list[tuple[float, int, SimulatedNode | None, int, Callable[[], None]]] = []
        self._sequence = 0
        self.proposed = 0
        self.nodes: dict[str, SimulatedNode] = {}
        membership = Membership(frozenset(voters))
        for name in names:
            self.nodes[name] = SimulatedNode(name, self, membership if name in voters else Membership())

    # Events

    def at(self, time: float, node: SimulatedNode | None, action: Callable[[], None]) -> None:
        """Do `action` at `time`, unless `node` crashes before."""
        self._sequence += 1
        life = node.life if node is not None else 0
        heapq.heappush(self._events, (time, self._sequence, node, life, action))

    def run(self, until: float) -> None:
        """Let the time pass."""
        while self._events and self._events[0][0] <= until:
            time, _, node, life, action = heapq.heappop(self._events)
            self.now = max(self.now, time)
            if node is None:
                action()
            elif node.life == life and node.up:
                if node.paused:
                    self.at(time + 0.05, node, action)
                    continue
                action()
                node.turn()
        self.now = until

    def send(self, message: Message) -> None:
        """Carry a message, or not, or twice, or late."""
        self.checker.sent(message)
        chance = self.random.random
        if (message.sender, message.to) in self.blocked:
            self._undelivered(message)
            return
        if not self.healed and chance() < self.faults.loss:
            self._undelivered(message)
            return
        copies = 2 if not self.healed and chance() < self.faults.duplicate else 1
        for _ in range(copies):
            delay = self.random.uniform(0.0005, 0.004)
            if not self.healed and chance() < self.faults.delay:
                delay = self.random.uniform(0.01, 0.5)
            self._deliver(message, delay)

    def _deliver(self, message: Message, delay: float) -> None:
        node = self.nodes[message.to]
        if node.up:
            parts = encode_message(message)
            self.at(self.now + delay, node, lambda: node.receive(parts))
        if isinstance(message, SnapshotRequest):
            self._report_snapshot(message, node.up, delay)

    def _undelivered(self, message: Message) -> None:
        if isinstance(message, SnapshotRequest):
            self._report_snapshot(message, False, 0.05)

    def _report_snapshot(self, message: SnapshotRequest, ok: bool, delay: float) -> None:
        sender = self.nodes[message.sender]
        self.at(self.now + delay, sender, lambda: sender.raft.report_snapshot(message.to, ok, self.now))

    # Load and incidents

    def load(self, until: float) -> None:
        """Propose and read at random nodes, and let things go wrong, until then."""
        time = self.now
        while time < until:
            time += self.random.uniform(0.005, 0.06)
            self.at(time, None, self._request)
        time = self.now
        while time < until:
            time += self.random.expovariate(1 / self.faults.incident_every_s)
            self.at(min(time, until), None, self._incident)

    def _live_nodes(self) -> list[SimulatedNode]:
        return [node for node in self.nodes.values() if node.up and not node.paused]

    def leader(self) -> SimulatedNode | None:
        """The leader of the newest term, if one is up."""
        leaders = [node for node in self._live_nodes() if node.raft.role is Role.LEADER]
        return max(leaders, key=lambda node: node.raft.term, default=None)

    def _request(self) -> None:
        live = self._live_nodes()
        if not live:
            return
        leaders = [node for node in live if node.raft.role is Role.LEADER]
        node = self.random.choice(leaders if leaders and self.random.random() < 0.7 else live)
        try:
            if self.random.random() < 0.1:
                context = str(self._sequence).encode()
                node.reads[context] = max(self.checker.committed, default=0)
                node.raft.read_index(context, self.now)
            else:
                for _ in range(self.random.choice((1, 1, 3))):
                    self.proposed += 1
                    node.raft.propose(b"%d" % self.proposed * self.random.choice((1, 30)), self.now)
        except NotLeaderError:
            pass
        node.turn()

    def _incident(self) -> None:
        if self.healed:
            return
        getattr(self, f"_{self.random.choice(self.faults.incidents.split())}")()

    def _crash(self) -> None:
        live = self._live_nodes()
        if live:
            self._crash_node(self.random.choice(live))

    def _lose_disk(self) -> None:
        """One disk is lost for good, if no other one is being rebuilt."""
        live = self._live_nodes()
        if live and not any(node.rebuilding for node in self.nodes.values()):
            node = self.random.choice(live)
            node.lose_disk()
            self.at(self.now + self.random.uniform(0.02, 1.0), None, partial(self._restart, node))

    def elected(self, node: SimulatedNode) -> None:
        """`node` has just become a leader."""
        if self.healed or self.random.random() >= self.faults.fall:
            return
        delay = max(0.0, self.random.uniform(-0.04, 0.04))
        if self.random.random() < 0.5:
            self.at(self.now + delay, None, partial(self._crash_life, node, node.life))
        elif delay:
            self.at(self.now + delay, None, partial(self._mute, node))
        else:
            self._mute(node)

    def _mute(self, node: SimulatedNode) -> None:
        self._block({(node.name, other) for other in self.nodes if other != node.name})

    def _crash_life(self, node: SimulatedNode, life: int) -> None:
        if node.up and node.life == life:
            self._crash_node(node)

    def _crash_node(self, node: SimulatedNode) -> None:
        node.crash()
        restart = partial(self._restart, node)
        self.at(self.now + self.random.uniform(0.02, 5 * self.faults.election_timeout_s), None, restart)
        for other in self._live_nodes():
            if self.random.random() < 0.7:
                other.raft.peer_lost(node.name, self.now)
                other.turn()

    def _restart(self, node: SimulatedNode) -> None:
        if not node.up:
            node.start()
            for other in self._live_nodes():
                if self.random.random() < 0.5:
                    other.raft.peer_up(node.name, self.now)
                    other.turn()

    def _partition(self) -> None:
        names = list(self.nodes)
        self.random.shuffle(names)
        cut = self.random.randint(1, len(names) - 1)
        pairs = {(a, b) for a in names[:cut] for b in names[cut:]}
        self._block(pairs | {(b, a) for a, b in pairs})

    def _one_way(self) -> None:
        a, b = self.random.sample(list(self.nodes), 2)
        self._block({(a, b)})

    def _block(self, pairs: set[tuple[str, str]]) -> None:
        self.blocked |= pairs
        self.at(self.now + self.random.uniform(0.1, 2.5), None, lambda: self.blocked.difference_update(pairs))

    def _pause(self) -> None:
        live = self._live_nodes()
        if live:
            node = self.random.choice(live)
            node.paused = True
            self.at(self.now + self.random.uniform(0.1, 3.0), None, partial(setattr, node, "paused", False))

    def _compact(self) -> None:
        for node in self._live_nodes():
            if self.random.random() < 0.5:
                node.compact()
                node.turn()

    def _transfer(self) -> None:
        node = self.leader()
        if node is not None:
            try:
                node.raft.transfer_leadership(self.random.choice(list(self.nodes)), self.now)
            except (UnknownPeerError, NotLeaderError):
                return
            node.turn()

    def _campaign(self) -> None:
        live = self._live_nodes()
        if live:
            node = self.random.choice(live)
            node.raft.campaign(self.now)
            node.turn()

    def _change(self) -> None:
        node = self.leader()
        if node is None:
            return
        roles = {name: self.random.choice("vvvlr-") for name in self.nodes}
        groups = [frozenset(name for name, role in roles.items() if role == kind) for kind in "vlr"]
        try:
            node.raft.propose_membership(MembershipChange(*groups), self.now)
        except (MembershipChangeError, NotLeaderError):
            return
        node.turn()

    # The end

    def heal(self) -> None:
        """Everything runs and every message arrives from now on."""
        self.healed = True
        self.blocked.clear()
        for node in self.nodes.values():
            node.paused = False
            self._restart(node)

    def settle(self, patience_s: float = 20.0) -> None:
        """After `heal`: a leader appears, and a new entry reaches the state machine of every member."""
        deadline = self.now + patience_s
        target = None
        while self.now < deadline:
            self.run(self.now + 0.25)
            leader = self.leader()
            if leader is None:
                continue
            if target is None or leader.raft.term != target[0]:
                try:
                    target = (leader.raft.term, leader.raft.propose(b"last", self.now))
                except NotLeaderError:
                    continue
                leader.turn()
            members = leader.raft.membership
            if not members.outgoing and leader.name in members.voters:
                replicas = [self.nodes[name] for name in members.members]
                if all(replica.raft.applied_index >= target[1] for replica in replicas):
                    return
        states = {n.name: (n.raft.role.value, n.raft.term, n.raft.commit_index) for n in self.nodes.values()}
        raise NoProgress(f"no progress within {patience_s} s after healing: {states}")


def run_seed(
    seed: int, faults: Faults | None = None, voters: str = "abc", seconds: float = 5.0
) -> Simulation:
    """One simulation with faults, then without, to agreement."""
    simulation = Simulation(seed, voters=voters, faults=faults)
    simulation.load(seconds)
    simulation.run(seconds)
    simulation.heal()
    simulation.settle()
    return simulation
