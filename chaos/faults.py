"""Faults: what a run does to nodes, and how the run heals it. A target provides the means.

A run injects and heals a fault once. `nodes` are the nodes whose clients may notice the fault. Clients must
not notice a fault that is not `excused`, and the checkers tolerate no effect of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar, Protocol

Link = tuple[str, str]
"""The direction from the first node to the second; the other direction is another link."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions for every packet between two nodes: times in seconds, the other values shares from 0 to
    1.

    A reordered packet waits for `reorder_s` while later packets pass.
    """

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_s: float = 0.02


@dataclass(frozen=True, slots=True)
class Fsync:
    """The fault of each fsync and fdatasync: it takes longer, or fails with this errno (0: none)."""

    delay_s: float = 0.0
    errno: int = 0


@dataclass(frozen=True, slots=True)
class Skew:
    """The error of a node's clocks: the time of day is off by `offset_s` seconds; all run faster by the share
    `rate`.
    """

    offset_s: float = 0.0
    rate: float = 0.0


class Means(Protocol):
    """The faults that a target can inject into its nodes."""

    @property
    def nodes(self) -> tuple[str, ...]: ...

    def kill(self, node: str) -> None:
        """SIGKILL; returns when the process is gone."""

    def terminate(self, node: str) -> None:
        """SIGTERM; returns when the process has ended by itself."""

    def start_again(self, node: str) -> None:
        """Start the node with its data, if it does not run."""

    def pause(self, node: str) -> None:
        """SIGSTOP: the node's connections stay open and silent."""

    def resume(self, node: str) -> None: ...

    def cut(self, links: Iterable[Link]) -> None:
        """Drop all packets on these links."""

    def mend(self, links: Iterable[Link]) -> None: ...

    def degrade(self, conditions: Conditions) -> None:
        """Apply these conditions to all links between nodes."""

    def sync(self, node: str, how: Fsync) -> None: ...

    def fill(self, node: str) -> None:
        """Fill the node's disk."""

    def free(self, node: str) -> None: ...

    def skew(self, node: str, by: Skew) -> None: ...

    def squeeze(self, node: str) -> None:
        """Limit the node's memory to little more than it uses."""

    def relax(self, node: str) -> None: ...


class Fault(Protocol):
    """See the module."""

    kind: ClassVar[str]
    excused: ClassVar[bool]

    @property
    def nodes(self) -> tuple[str, ...]: ...

    def inject(self, target: Means) -> None: ...

    def heal(self, target: Means) -> None: ...


@dataclass(frozen=True, slots=True)
class Killed:
    """The run kills nodes, and starts them again with their disks."""

    kind: ClassVar[str] = "killed"
    excused: ClassVar[bool] = True
    nodes: tuple[str, ...]

    def inject(self, target: Means) -> None:
        for node in self.nodes:
            target.kill(node)

    def heal(self, target: Means) -> None:
        for node in self.nodes:
            target.start_again(node)


@dataclass(frozen=True, slots=True)
class Paused:
    """Nodes hang, like a suspended machine, and go on."""

    kind: ClassVar[str] = "paused"
    excused: ClassVar[bool] = True
    nodes: tuple[str, ...]

    def inject(self, target: Means) -> None:
        for node in self.nodes:
            target.pause(node)

    def heal(self, target: Means) -> None:
        for node in self.nodes:
            target.resume(node)


@dataclass(frozen=True, slots=True)
class Restarted:
    """The run stops nodes in order, and starts them again."""

    kind: ClassVar[str] = "stopped"
    excused: ClassVar[bool] = True
    nodes: tuple[str, ...]

    def inject(self, target: Means) -> None:
        for node in self.nodes:
            target.terminate(node)

    def heal(self, target: Means) -> None:
        for node in self.nodes:
            target.start_again(node)


@dataclass(frozen=True, slots=True)
class Partitioned:
    """Some links between nodes drop all packets. Clients still reach every node."""

    kind: ClassVar[str] = "partitioned"
    excused: ClassVar[bool] = True
    nodes: tuple[str, ...]
    links: tuple[Link, ...]

    def inject(self, target: Means) -> None:
        target.cut(self.links)

    def heal(self, target: Means) -> None:
        target.mend(self.links)


@dataclass(frozen=True, slots=True)
class Degraded:
    """Packets between all nodes are late, lost, duplicated or out of order."""

    kind: ClassVar[str] = "network degraded"
    excused: ClassVar[bool] = True
    nodes: tuple[str, ...]
    conditions: Conditions

    def inject(self, target: Means) -> None:
        target.degrade(self.conditions)

    def heal(self, target: Means) -> None:
        target.degrade(Conditions())


@dataclass(frozen=True, slots=True)
class SlowDisk:
    """Each fsync takes longer. No connection may break because of it."""

    kind: ClassVar[str] = "fsync slow"
    excused: ClassVar[bool] = False
    nodes: tuple[str, ...]
    delay_s: float

    def inject(self, target: Means) -> None:
        for node in self.nodes:
            target.sync(node, Fsync(delay_s=self.delay_s))

    def heal(self, target: Means) -> None:
        for node in self.nodes:
            target.sync(node, Fsync())


@dataclass(frozen=True, slots=True)
class BadDisk:
    """Each fsync fails. The run starts a node that ends because of it again when the fault is healed."""

    kind: ClassVar[str] = "fsync fails"
    excused: ClassVar[bool] = True
    nodes: tuple[str, ...]
    errno: int

    def inject(self, target: Means) -> None:
        for node in self.nodes:
            target.sync(node, Fsync(errno=self.errno))

    def heal(self, target: Means) -> None:
        for node in self.nodes:
            target.sync(node, Fsync())
            target.start_again(node)


@dataclass(frozen=True, slots=True)
class FullDisk:
    """The disk is full. The run starts a node that ends because of it again when the fault is healed."""

    kind: ClassVar[str] = "disk full"
    excused: ClassVar[bool] = True
    nodes: tuple[str, ...]

    def inject(self, target: Means) -> None:
        for node in self.nodes:
            target.fill(node)

    def heal(self, target: Means) -> None:
        for node in self.nodes:
            target.free(node)
            target.start_again(node)


@dataclass(frozen=True, slots=True)
class WrongClock:
    """Clocks jump, or run faster or slower. No client may notice."""

    kind: ClassVar[str] = "clock wrong"
    excused: ClassVar[bool] = False
    nodes: tuple[str, ...]
    skew: Skew

    def inject(self, target: Means) -> None:
        for node in self.nodes:
            target.skew(node, self.skew)

    def heal(self, target: Means) -> None:
        for node in self.nodes:
            target.skew(node, Skew())


@dataclass(frozen=True, slots=True)
class LittleMemory:
    """Nodes get hardly any more memory. The run starts a node again that the system kills because of it."""

    kind: ClassVar[str] = "memory short"
    excused: ClassVar[bool] = True
    nodes: tuple[str, ...]

    def inject(self, target: Means) -> None:
        for node in self.nodes:
            target.squeeze(node)

    def heal(self, target: Means) -> None:
        for node in self.nodes:
            target.relax(node)
            target.start_again(node)


def between(some: Iterable[str], others: Iterable[str]) -> tuple[Link, ...]:
    """Both directions of every link between the two groups."""
    others = tuple(others)
    return tuple(link for one in some for other in others for link in ((one, other), (other, one)))


def not_in_ring(nodes: tuple[str, ...]) -> tuple[Link, ...]:
    """The links that a ring of the nodes, in their order, does not have.

    A ring of three nodes would have all links: there, the links between the first node and the last.
    """
    if len(nodes) <= 3:
        return between(nodes[:1], nodes[-1:])
    near = {1, len(nodes) - 1}
    return tuple(
        (one, other)
        for one, other in permutations(nodes, 2)
        if abs(nodes.index(one) - nodes.index(other)) not in near
    )
