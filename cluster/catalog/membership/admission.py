"""Whether a node that starts with an empty disk founds a cluster, or has lost its disk. Pure.

A node that lost its disk may have forgotten votes and entries that it had acknowledged, so it must
not vote until it has caught up (`HardState.joining`). A node of a cluster that never ran has
forgotten nothing. An empty node asks the founders to learn which of the two it is: where no founder has
anything on disk, the cluster never ran.

The answers of a majority of the founders are not enough. The cluster may have grown since, so that founders
that lost their disks are a minority of its members; cut off from the others they would found the cluster
anew. The answer of one founder with its disk prevents that. If all founders lost their disks at once, no
founder can tell.

A node that founds the cluster counts on certain processes of the other founders, which were empty then. When
such a process asks later, the node answers that it is empty itself: the process has forgotten nothing since.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

ASK_INTERVAL_S: Final = 0.1


class Admission(Enum):
    """The state of a node when it starts. UNKNOWN becomes one of the other two, which do not change."""

    UNKNOWN = auto()
    """The node's disk is empty, and not all founders have answered."""
    WHOLE = auto()
    """The node has all that it ever had, or has never run before."""
    REBUILDING = auto()
    """The node lost its disk."""


class AdmissionDesk:
    """Collects the answers of the other founders."""

    def __init__(self, node: str, members: Sequence[str], *, empty: bool, rebuilding: bool) -> None:
        """`empty`: nothing is on this node's disk. `rebuilding`: the node lost its disk, and has not got
        everything back yet.
        """
        self.state = Admission.UNKNOWN if empty else Admission.WHOLE
        if rebuilding:
            self.state = Admission.REBUILDING
        self._members = tuple(members)
        self._empty = {node: 0}
        self._ask_at = 0.0
        self._consider()

    def ask_due(self, now: float) -> bool:
        """Whether this node should ask the other members now."""
        if self.state is not Admission.UNKNOWN or now < self._ask_at:
            return False
        self._ask_at = now + ASK_INTERVAL_S
        return True

    def counted(self, peer: str, process: int) -> bool:
        """Whether this node founds the cluster and counts on this process of a member, which was empty."""
        return self.state is Admission.WHOLE and process != 0 and self._empty.get(peer) == process

    def told(self, peer: str, empty: bool, process: int = 0) -> None:
        """A member answers whether its disk is empty.

        `process` is the number of the front end there, which no two processes share; 0: not known.
        """
        if self.state is not Admission.UNKNOWN:
            return
        if empty:
            self._empty[peer] = process
            self._consider()
        else:
            self.state = Admission.REBUILDING

    @property
    def awaited(self) -> list[str]:
        """The founders that have not answered, while the state is UNKNOWN."""
        if self.state is not Admission.UNKNOWN:
            return []
        return [member for member in self._members if member not in self._empty]

    def _consider(self) -> None:
        """Found the cluster once all founders have answered that they are empty."""
        if self.state is Admission.UNKNOWN and not self.awaited:
            self.state = Admission.WHOLE
