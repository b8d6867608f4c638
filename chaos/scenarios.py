"""The scenarios: the fault and its nodes for each turn of a run, how long it lasts, and the pause
after it.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from chaos.faults import (
    BadDisk,
    Conditions,
    Degraded,
    Fault,
    FullDisk,
    Killed,
    LittleMemory,
    Partitioned,
    Paused,
    Restarted,
    Skew,
    SlowDisk,
    WrongClock,
    between,
    not_in_ring,
)


class Need(Enum):
    """Means that a target has to prepare before its nodes start."""

    NETWORK = "a network of their own for the nodes"
    SHIM = "a library between the nodes and the system's fsync and clocks"
    DISK = "a small disk for each node"
    MEMORY = "a control group for each node"


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts by which a scenario chooses nodes. `owner` owns one of the load's queues, another one each
    turn.
    """

    nodes: tuple[str, ...]
    owner: str
    turn: int
    chance: random.Random

    @property
    def anyone(self) -> str:
        return self.chance.choice(self.nodes)

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(node for node in self.nodes if node != self.owner)

    @property
    def next(self) -> str:
        return self.nodes[self.turn % len(self.nodes)]

    @property
    def ring(self) -> tuple[str, ...]:
        """The nodes in order, from another node on in each turn."""
        first = self.turn % len(self.nodes)
        return self.nodes[first:] + self.nodes[:first]


Choice = Callable[[Situation], Fault]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario. `lasts` is the duration of each fault, `peace` the pause after all nodes are ready again;
    both in seconds.
    """

    name: str
    about: str
    lasts: float
    peace: float
    choose: Choice
    needs: frozenset[Need] = frozenset()


def _halves(now: Situation) -> Fault:
    """The owner is on the smaller side every other turn."""
    nodes = list(now.others)
    now.chance.shuffle(nodes)
    nodes.insert(0 if now.turn % 2 == 0 else len(nodes), now.owner)
    cut = len(nodes) // 2
    return Partitioned(tuple(nodes[:cut]), between(nodes[:cut], nodes[cut:]))


def _ring(now: Situation) -> Fault:
    links = not_in_ring(now.ring)
    return Partitioned(tuple(sorted({node for link in links for node in link})), links)


def _one_way(now: Situation) -> Fault:
    """No node receives the owner's packets, or, every other turn, the owner receives no node's."""
    links = [(now.owner, other) for other in now.others]
    if now.turn % 2:
        links = [(there, here) for here, there in links]
    return Partitioned((now.owner,), tuple(links))


def _packets(conditions: Conditions) -> Choice:
    return lambda now: Degraded(now.nodes, conditions)


def _jump(now: Situation) -> Fault:
    """An hour forth or back, the owner or a follower."""
    node = now.owner if now.turn % 4 < 2 else now.anyone
    return WrongClock((node,), Skew(offset_s=3600.0 if now.turn % 2 == 0 else -3600.0))


def _drift(now: Situation) -> Fault:
    """A tenth faster or slower, the owner or a follower."""
    node = now.owner if now.turn % 4 < 2 else now.anyone
    return WrongClock((node,), Skew(rate=0.1 if now.turn % 2 == 0 else -0.1))


def _slow_disk(nodes: tuple[str, ...]) -> Fault:
    return SlowDisk(nodes, 0.1)


def _bad_disk(nodes: tuple[str, ...]) -> Fault:
    return BadDisk(nodes, errno.EIO)


def _of_owner(fault: Callable[[tuple[str, ...]], Fault]) -> Choice:
    return lambda now: fault((now.owner,))


def _rolling(now: Situation) -> Fault:
    return Restarted((now.next,))


def _isolated(now: Situation) -> Fault:
    return Partitioned((now.owner,), between([now.owner], now.others))


_NETWORK: Final = frozenset({Need.NETWORK})
_SHIM: Final = frozenset({Need.SHIM})
_DISK: Final = frozenset({Need.DISK})
_MEMORY: Final = frozenset({Need.MEMORY})

_LATE: Final = Conditions(delay_s=0.05, jitter_s=0.02)
_LOSSY: Final = Conditions(loss=0.1)
_DOUBLED: Final = Conditions(duplicate=0.3)
_REORDERED: Final = Conditions(reorder=0.25)

# fmt: off
_SINGLE: Final = tuple(Scenario(*row) for row in (
    ("kill", "SIGKILL of a queue's owner", 3, 6, _of_owner(Killed)),
    ("pause", "SIGSTOP of a queue's owner, then SIGCONT", 6, 6, _of_owner(Paused)),
    ("restart", "SIGTERM of a queue's owner, and a start", 1, 6, _of_owner(Restarted)),
    ("rolling-restart", "SIGTERM and a start of each node in turn", 0.5, 2, _rolling),
    ("partition-halves", "the nodes in two parts that cannot reach each other", 12, 8, _halves, _NETWORK),
    ("partition-ring", "each node reaches only its neighbours in a ring", 12, 8, _ring, _NETWORK),
    ("partition-one-way", "a queue's owner can only send, or only receive", 12, 8, _one_way, _NETWORK),
    ("isolated-owner", "a queue's owner reaches no node; clients reach all", 12, 8, _isolated, _NETWORK),
    ("latency", "50 ms each way between nodes, give or take 20", 10, 5, _packets(_LATE), _NETWORK),
    ("loss", "a tenth of the packets between nodes is lost", 10, 5, _packets(_LOSSY), _NETWORK),
    ("duplicate", "three packets of ten between nodes come twice", 10, 5, _packets(_DOUBLED), _NETWORK),
    ("reorder", "a quarter of the packets between nodes is late", 10, 5, _packets(_REORDERED), _NETWORK),
    ("slow-fsync", "each fsync of a queue's owner takes 100 ms longer", 8, 5, _of_owner(_slow_disk), _SHIM),
    ("failing-fsync", "each fsync of a queue's owner fails with EIO", 4, 6, _of_owner(_bad_disk), _SHIM),
    ("full-disk", "no room on the disk of a queue's owner", 6, 6, _of_owner(FullDisk), _DISK),
    ("clock-jump", "the time of day of a node is an hour off", 6, 4, _jump, _SHIM),
    ("clock-drift", "a node's clocks run a tenth faster or slower", 15, 5, _drift, _SHIM),
    ("memory-pressure", "a queue's owner gets hardly more memory", 8, 6, _of_owner(LittleMemory), _MEMORY),
))
# fmt: on


def _any(now: Situation) -> Fault:
    return now.chance.choice(_SINGLE).choose(now)


SCENARIOS: Final[dict[str, Scenario]] = {
    one.name: one
    for one in (
        *_SINGLE,
        Scenario("random", "one of the others each turn, as the seed has it", 6, 5, _any, frozenset(Need)),
    )
}
