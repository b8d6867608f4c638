"""The faults of a simulation: each seed chooses a few kinds of fault, and their frequency."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from cluster.broker.lost_nodes import FRONT_END_GRACE_S
from cluster.owner.proposal import RETRY_INTERVAL_S
from replication.raft import Role
from tests.simulation.cluster import NAMES, Cluster, Shape
from tests.simulation.departures import leave
from tests.simulation.network import NetworkFaults
from tests.simulation.node import NodeSettings, SimulatedNode
from tests.simulation.transactors import Transactor

CORNERED_S = 4.0
"""The duration of a sync on the disk that stands still."""

Incident = Callable[["Faults"], None]


class Faults:
    """Injects faults into a cluster until `stop`."""

    def __init__(self, cluster: Cluster, kinds: tuple[str, ...], interval_s: float) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.chance = cluster.world.chance("faults")
        self._kinds = kinds
        self._interval_s = interval_s
        self._mending: list[Callable[[], None]] = []
        self._over = False
        self._ambushes = 0
        self._rolling: list[str] = []
        cluster.agreement.on_election = self._on_election
        self._next()

    def _next(self) -> None:
        self.world.after(self.chance.expovariate(1 / self._interval_s), self._happen)

    def _happen(self) -> None:
        if not self._over:
            (INCIDENTS | OF_DISKS | OF_ANSWERS | OF_RESTARTS | OF_CONSUMERS)[self.chance.choice(self._kinds)](
                self
            )
            self._next()

    def stop(self) -> None:
        """Heal all faults, and inject no more."""
        self._over = True
        self.world.note("the faults are over")
        for mend in self._mending:
            mend()
        self.cluster.network.faults = NetworkFaults()
        for node in self.cluster.nodes.values():
            node.disk_recovers()
            node.disk.fail_sync_after = node.disk.capacity = None
            node.resume()
            self._restart(node)

    # -- choices --------------------------------------------------------------------------------

    def running(self) -> list[SimulatedNode]:
        return [node for node in self.cluster.nodes.values() if node.up and not node.paused]

    def some_node(self) -> SimulatedNode | None:
        """A running node, more often than not an owner."""
        running = self.running()
        owners = [node for node in running if leads_something(node)]
        if owners and self.chance.random() < 0.6:
            return self.chance.choice(owners)
        return self.chance.choice(running) if running else None

    def for_a_while(self, low: float, high: float, mend: Callable[[], None]) -> None:
        """Call `mend` once: later, or when the faults are over."""
        done: list[bool] = []

        def once() -> None:
            if not done:
                done.append(True)
                mend()

        self._mending.append(once)
        self.world.after(self.chance.uniform(low, high), once)

    def _restart(self, node: SimulatedNode) -> None:
        if not node.up:
            node.start()

    # -- processes and machines -----------------------------------------------------------------

    def kill(self) -> None:
        """Kill a process by SIGKILL, and restart it."""
        self._stop(self.some_node(), power=False)

    def cut_power(self) -> None:
        """Cut the power of one machine."""
        self._stop(self.some_node(), power=True)

    def cut_all_power(self) -> None:
        """Cut the power of all machines at once."""
        self.world.note("power fails everywhere")
        for node in self.cluster.nodes.values():
            self._stop(node, power=True)

    def _stop(self, node: SimulatedNode | None, *, power: bool) -> None:
        if node is not None and node.up:
            node.stop(power=power)
            self.for_a_while(0.02, 1.5, partial(self._restart, node))

    def lose_disk(self) -> None:
        """Replace the disk of a node that is not indispensable; the next node loses its disk only after this
        one is rebuilt.
        """
        indispensable = self.cluster.indispensable()
        names = [name for name in self.cluster.names if name not in indispensable]
        if not names or any(node.lost_disk or node.rotten for node in self.cluster.nodes.values()):
            return
        node = self.cluster.nodes[self.chance.choice(names)]
        self.world.note(f"{node.name} loses its disk")
        self._stop(node, power=True)
        node.lose_disk()

    def freeze(self) -> None:
        """Stop a process by SIGSTOP, and later let it go on by SIGCONT."""
        self._stand_still(SimulatedNode.pause)

    def suspend(self) -> None:
        """Suspend a whole machine, with its clocks that do not count suspensions."""
        self._stand_still(SimulatedNode.suspend)

    def _stand_still(self, stop: Callable[[SimulatedNode], None]) -> None:
        node = self.some_node()
        if node is None:
            return
        end = self.cluster.outages.begin([node.name], frozen=True)
        stop(node)

        def resume() -> None:
            end()
            node.resume()

        self.for_a_while(0.05, 2.5, resume)

    def step(self) -> None:
        """Set the time of day on a node, as a wrong time server does."""
        node = self.some_node()
        if node is not None:
            node.step(self.chance.choice((-3600.0, -5.0, -0.5, 0.5, 5.0, 3600.0)))

    def lie_in_ambush(self) -> None:
        """Lose a leader, and inject faults at critical moments of the elections that follow."""
        self._ambushes = 12
        leaders = [node for node in self.running() if leads_something(node)]
        if leaders:
            self._stop(self.chance.choice(leaders), power=self.chance.random() < 0.5)

    def _on_election(self, node: SimulatedNode, role: Role) -> None:
        if self._over or self._ambushes <= 0 or self.chance.random() < 0.2:
            return
        self._ambushes -= 1
        if role is Role.CANDIDATE:
            self._attack_voter(node)
        elif self.chance.random() < 0.5:
            self._silence(node)
        else:
            self.world.after(0.001 * self.chance.uniform(1.0, 8.0), lambda: self._mute(node))

    def _attack_voter(self, candidate: SimulatedNode) -> None:
        """Have a voter lose unsynced data, while a slow sync lets another candidate stand in the
        same term.
        """
        candidate.disk.sync_seconds = self.chance.choice((0.0, 0.01, 0.05))
        self.for_a_while(0.1, 0.5, candidate.disk_recovers)
        others = [other for other in self.cluster.nodes.values() if other is not candidate]
        delay = self.chance.choice((0.001, 0.005, 0.02)) * self.chance.random()
        self.world.after(delay, partial(self._strike, self.chance.choice(others)))

    def _silence(self, leader: SimulatedNode) -> None:
        """Have a leader append entries that no other node gets, and kill it."""
        mend = self.cluster.network.cut(self._from(leader))

        def die() -> None:
            self._strike(leader, (0.3, 1.0))
            mend()

        self.world.after(0.001 * self.chance.uniform(2.0, 15.0), die)

    def _mute(self, leader: SimulatedNode) -> None:
        """Have a leader receive the answers to its first appends, and drop everything that it sends after
        them.
        """
        if leader.up and not self._over:
            self._cut(self._from(leader))

    def _from(self, node: SimulatedNode) -> list[tuple[str, str]]:
        """The connections from a node to the founders."""
        return [(node.name, name) for name in self.cluster.names if name != node.name]

    def _strike(self, victim: SimulatedNode, away_s: tuple[float, float] = (0.001, 0.1)) -> None:
        if victim.up and not self._over:
            victim.stop(power=self.chance.random() < 0.5)
            self.for_a_while(*away_s, partial(self._restart, victim))

    def restart_in_order(self) -> None:
        """Stop and start one node after the other; each one leaves in order."""
        if not self._rolling:
            self._rolling = self.chance.sample(self.cluster.names, len(self.cluster.names))
            self._restart_next()

    def _restart_next(self) -> None:
        if self._over or not self._rolling:
            self._rolling = []
            return
        if not all(node.ready for node in self.cluster.nodes.values()):
            self.world.after(0.05, self._restart_next)
            return
        node = self.cluster.nodes[self._rolling.pop()]
        away_s = self.chance.uniform(0.01, 0.3)
        leave(node, lambda: self.world.after(away_s, partial(self._restart, node)))
        self.world.after(self.chance.uniform(0.05, 0.3), self._restart_next)

    def slow_down(self) -> None:
        """Delay the turns of a node, as other work of its machine does."""
        node = self.some_node()
        if node is not None:
            node.slowness_s = self.chance.choice((0.01, 0.05, 0.2))
            self.for_a_while(0.1, 1.0, lambda: setattr(node, "slowness_s", 0.0))

    # -- disks ----------------------------------------------------------------------------------

    def slow_disk(self) -> None:
        """Make each sync of a disk slow."""
        name = self.chance.choice(self.cluster.names)
        self._slow_down(name, self.chance.choice((0.005, 0.05, 0.3)), (0.2, 2.0))

    def _slow_down(self, name: str, sync_seconds: float, during_s: tuple[float, float]) -> None:
        node = self.cluster.nodes[name]
        node.disk.sync_seconds = sync_seconds
        self.for_a_while(*during_s, node.disk_recovers)

    def fail_disk(self) -> None:
        """Have a sync fail, so that the node stops."""
        node = self.some_node()
        if node is not None:
            node.disk.fail_sync_after = self.chance.randint(0, 5)
            self.for_a_while(0.5, 2.0, partial(self._recover_disk, node))

    def _recover_disk(self, node: SimulatedNode) -> None:
        node.disk.fail_sync_after = node.disk.capacity = None
        self._restart(node)

    def fill_disk(self) -> None:
        """Fill a disk, or nearly fill it, until an administrator frees space."""
        node = self.some_node()
        if node is not None:
            room = self.chance.choice((0, 1, 4)) * self.cluster.shape.settings.segment_bytes
            node.disk.capacity = node.disk.used() + room
            self.world.note(f"{node.name} has {room} octets of room on its disk")
            self.for_a_while(0.5, 2.0, partial(self._recover_disk, node))

    def rot(self) -> None:
        """Change one bit of a disk, or lose a sector, in a segment that is not written any more.

        Damage at the end of a journal is excluded: the journal cannot distinguish it from an unfinished
        write.
        """
        indispensable = self.cluster.indispensable()
        nodes = [node for node in self.cluster.nodes.values() if node.name not in indispensable]
        if not nodes or any(node.lost_disk or node.rotten for node in nodes):
            return
        node = self.chance.choice(nodes)
        found = node.sealed_segments()
        if found:
            name = self.chance.choice(found)
            offset = self.chance.randrange(len(node.disk.content(name)))
            if self.chance.random() < 0.5:
                self.world.note(f"a bit rots on {node.name}, in {name} at {offset}")
                node.disk.corrupt(name, offset, 1 << self.chance.randrange(8))
            else:
                self.world.note(f"a sector is lost on {node.name}, in {name} at {offset}")
                node.disk.lose_sector(name, offset)
            node.rotten = True

    # -- the network ----------------------------------------------------------------------------

    def reset(self) -> None:
        """Break a connection, which is made anew."""
        sender, receiver = self.chance.sample(self.cluster.names, 2)
        self.world.note(f"the connection {sender}->{receiver} is reset")
        self.cluster.network.break_connection(sender, receiver)

    def cut_in_halves(self) -> None:
        """Partition the nodes: a minority (of five nodes one or two) on one side, the others on the other."""
        names = self.cluster.names
        minority = [self.chance.choice(names)]
        if len(names) > len(NAMES) and self.chance.random() < 0.5:
            minority.append(self.chance.choice([name for name in names if name not in minority]))
        others = [name for name in names if name not in minority]
        self._cut([pair for one in minority for other in others for pair in ((one, other), (other, one))])

    def isolate_owner(self) -> None:
        """Cut a node that leads a group off from all others."""
        node = self.some_node()
        if node is not None:
            self.isolate(node)

    def depose_owner(self) -> None:
        """Cut off a node that leads a group, and reconnect it soon after its leases have ended. Other nodes
        become owners at once, because their connections to it break.
        """
        leaders = [node for node in self.running() if leads_something(node)]
        if leaders:
            self._disconnect(self.chance.choice(leaders).name, self.chance.uniform(0.2, 1.2))

    def isolate(self, node: SimulatedNode) -> None:
        others = [name for name in self.cluster.names if name != node.name]
        self._cut([(node.name, other) for other in others] + [(other, node.name) for other in others])

    def cut_one_way(self) -> None:
        """Drop all messages from one node to another, in one direction."""
        sender, receiver = self.chance.sample(self.cluster.names, 2)
        self._cut([(sender, receiver)])

    def cut_link(self) -> None:
        """Cut the connections between two nodes, both of which a third one reaches."""
        one, other = self.chance.sample(self.cluster.names, 2)
        self._cut([(one, other), (other, one)])

    def corner_owner(self) -> None:
        """Keep a leader from both committing and losing its proposals: the disk of one follower stands still.
        The other follower is cut off for longer than owners wait for its front end, and is back before the
        disk.
        """
        leaders = [node for node in self.running() if leads_something(node)]
        if not leaders:
            return
        leader = self.chance.choice(leaders).name
        slow, far = self.chance.sample([name for name in self.cluster.names if name != leader], 2)
        self._slow_down(slow, CORNERED_S, (CORNERED_S, CORNERED_S))
        away_s = FRONT_END_GRACE_S + self.chance.uniform(0.1, 0.5)
        # Messages of the follower that is cut off still arrive for a little longer: the leader proposes them,
        # and no other node gets the entries.
        for delay, pair in ((0.0, (leader, far)), (self.chance.uniform(0.001, 0.01), (far, leader))):
            self.world.after(delay, partial(self._sever, pair, away_s))

    def strand_transactor(self) -> None:
        """Cut off a client's node in the middle of a commit, until partitions ask each other for the outcome,
        and reconnect it.
        """
        committing = [one for one in self.cluster.sessions if isinstance(one, Transactor) and one.committing]
        if committing:
            name = self.chance.choice(committing).node.name
            self._disconnect(name, FRONT_END_GRACE_S + RETRY_INTERVAL_S + self.chance.uniform(0.1, 0.5))

    def lose_consumers(self) -> None:
        """Cut a node off until owners give up its consumers, and reconnect it, so that the consumers are
        back. No other node is cut off meanwhile: the others go on.
        """
        if not self.cluster.network.blocked:
            name = self.chance.choice(self.cluster.names)
            self._disconnect(name, FRONT_END_GRACE_S + self.chance.uniform(0.05, 0.5))

    def _disconnect(self, name: str, seconds: float) -> None:
        """Break a node's connections to all others, and cut the wires for so long."""
        for other in self.cluster.names:
            if other != name:
                self._sever((name, other), seconds)
                self._sever((other, name), seconds)

    def _sever(self, pair: tuple[str, str], seconds: float) -> None:
        if not self._over:
            self.for_a_while(seconds, seconds, self._interrupt([pair], reset=True))

    def _cut(self, pairs: list[tuple[str, str]]) -> None:
        mend = self._interrupt(pairs, reset=self.chance.random() < 0.5)
        self.for_a_while(0.05, self.chance.choice((0.5, 2.5, 7.0)), mend)

    def _interrupt(self, pairs: list[tuple[str, str]], *, reset: bool) -> Callable[[], None]:
        """Drop all messages from the first to the second node of each pair, until the result is called."""
        text = ", ".join(f"{sender}->{receiver}" for sender, receiver in pairs)
        self.world.note(f"cut{' and reset' if reset else ''}: {text}")
        end = self.cluster.outages.begin(dict.fromkeys(name for pair in pairs for name in pair))
        mend = self.cluster.network.cut(pairs)
        for pair in pairs if reset else ():
            self.cluster.network.break_connection(*pair)

        def mended() -> None:
            self.world.note(f"mended: {text}")
            end()
            mend()

        return mended

    # -- clients --------------------------------------------------------------------------------

    def cancel(self) -> None:
        """End a consumer with unsettled messages, and start another one."""
        self.cluster.close_some_consumer()


def leads_something(node: SimulatedNode) -> bool:
    return any(group.raft.role is Role.LEADER for group in node.broker.host.groups.values())


INCIDENTS: dict[str, Incident] = {
    "kill": Faults.kill,
    "power": Faults.cut_power,
    "blackout": Faults.cut_all_power,
    "lost disk": Faults.lose_disk,
    "freeze": Faults.freeze,
    "suspension": Faults.suspend,
    "time of day": Faults.step,
    "ambush": Faults.lie_in_ambush,
    "slow disk": Faults.slow_disk,
    "failing disk": Faults.fail_disk,
    "reset": Faults.reset,
    "cornered owner": Faults.corner_owner,
    "stranded transactor": Faults.strand_transactor,
    "halves": Faults.cut_in_halves,
    "isolated owner": Faults.isolate_owner,
    "one way": Faults.cut_one_way,
    "link": Faults.cut_link,
    "cancel": Faults.cancel,
}

OF_ANSWERS: dict[str, Incident] = {"deposed owner": Faults.depose_owner}
"""Only in seeds about answers."""

OF_CONSUMERS: dict[str, Incident] = {"lost consumers": Faults.lose_consumers}
"""Only in seeds about consumers."""

OF_RESTARTS: dict[str, Incident] = {
    "restarts in order": Faults.restart_in_order,
    "slow node": Faults.slow_down,
}
"""Only in seeds about restarts."""

OF_DISKS: dict[str, Incident] = {"full disk": Faults.fill_disk, "rot": Faults.rot}
"""Added to the other faults of a seed."""

ALL_INCIDENTS = INCIDENTS | OF_ANSWERS | OF_CONSUMERS | OF_RESTARTS | OF_DISKS


def shape_of(chance: random.Random, faultless: bool) -> Shape:
    """The sizes, rates and network conditions of a seed."""
    settings = NodeSettings(
        snapshot_bytes=chance.choice((4 << 10, 24 << 10, 1 << 20)),
        segment_bytes=chance.choice((8 << 10, 32 << 10)),
        cache_bytes=chance.choice((1 << 10, 64 << 10)),
        max_append_bytes=chance.choice((1, 1 << 20)),
        election_timeout_s=chance.choice((0.25, 0.6)),
        drift=chance.choice((0.0, 0.01, 0.05)),
    )
    network = NetworkFaults()
    if not faultless:
        network.late = chance.choice((0.0, 0.0, 0.05))
        network.doubled = chance.choice((0.0, 0.05))
        network.overflow = chance.choice((0.0, 0.0, 0.0, 0.01))
        network.raft_loss = chance.choice((0.0, 0.0, 0.02, 0.1))
    return Shape(settings, network, chance.choice((2, 4)), chance.choice((5, 8)), 3.0, faultless)


def disks_of(chance: random.Random) -> tuple[str, ...]:
    """The faults of disks in a seed that has such faults."""
    return chance.choice((("full disk",), ("rot",), tuple(OF_DISKS)))


def plan_of(chance: random.Random) -> tuple[tuple[str, ...], float]:
    """The kinds of faults of a seed, and the mean time between two faults in seconds."""
    if chance.random() < 0.25:
        return ("ambush",), 0.3
    kinds = chance.sample(sorted(INCIDENTS), chance.choice((1, 2, 4, len(INCIDENTS))))
    return tuple(kinds), chance.choice((0.2, 0.4, 0.8))
