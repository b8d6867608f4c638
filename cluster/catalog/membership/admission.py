"""Whether a node that starts with an empty disk founds a cluster, or has lost its disk. Pure.

A node that lost its disk may have forgotten votes and entries that it had acknowledged, so it must
not vote until it has caught up (`HardState.joining`). A node of a cluster that never ran has
forgotten nothing. They are told apart by asking: where no founder has anything on disk, the cluster
never ran.

A majority of the founders would not do. The cluster may have grown since, so that founders who lost their
disks are a minority of its members; cut off from the others they would found it anew. One founder with
its disk is enough to tell them. No founder can tell that all of them lost their disks at once.

A process that the founders have heard of is as empty for them later, when they have begun: what it had
when they counted on it, it has still.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

ASK_INTERVAL_S: Final = 0.1


class Admission(Enum):
    """The state of a node when it starts; UNKNOWN becomes either of the others, which stay."""

    UNKNOWN = auto()
    """Nothing is on its disk; the other members have not said enough."""
    WHOLE = auto()
    """It has all that it ever had; what has never run has forgotten nothing."""
    REBUILDING = auto()
    """It lost its disk."""


class AdmissionDesk:
    """Collects what the other members say of themselves."""

    def __init__(self, node: str, members: Sequence[str], *, empty: bool, rebuilding: bool) -> None:
        """`empty`: nothing is on this node's disk. `rebuilding`: it was lost, and is not whole yet."""
        self.state = Admission.UNKNOWN if empty else Admission.WHOLE
        if rebuilding:
            self.state = Admission.REBUILDING
        self._members = tuple(members)
        self._empty = {node: 0}
        self._ask_at = 0.0
        self._consider()

    def ask_due(self, now: float) -> bool:
        """Whether the other members are to be asked now."""
        if self.state is not Admission.UNKNOWN or now < self._ask_at:
            return False
        self._ask_at = now + ASK_INTERVAL_S
        return True

    def counted(self, peer: str, process: int) -> bool:
        """Whether this node founds the cluster with just that process of a member, which was empty then."""
        return self.state is Admission.WHOLE and process != 0 and self._empty.get(peer) == process

    def told(self, peer: str, empty: bool, process: int = 0) -> None:
        """A member says whether it has nothing on disk either.

        `process`: the number of the front end there, which no two processes share; 0: not known.
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
        """The founders that have not answered, while that matters."""
        if self.state is not Admission.UNKNOWN:
            return []
        return [member for member in self._members if member not in self._empty]

    def _consider(self) -> None:
        """Found the cluster once all founders have said that they are empty."""
        if self.state is Admission.UNKNOWN and not self.awaited:
            self.state = Admission.WHOLE
