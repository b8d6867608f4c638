"""Whether a node that starts with an empty disk founds a cluster, or has lost its disk. Pure.

A node that lost its disk may have forgotten votes and entries that it had acknowledged, so it must
not vote until it has caught up (`RaftConfig.may_vote`). A node of a cluster that never ran has
forgotten nothing. They are told apart by asking: where a majority of the members, this one among
them, has nothing on disk, nothing can have been committed that matters.

Founders wait a while for the last members: whoever comes after the first commit is taken for a node
that lost its disk, and until it has caught up the cluster cannot lose another one. Not so a process that
the founders have heard of: what it had when they counted on it, it has still.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

TAG: Final = b"J"
ASK_INTERVAL_S: Final = 0.1
PATIENCE_S: Final = 2.0
"""How long a majority of founders waits for the members that have not answered."""


class Admission(Enum):
    """What a node is when it starts; UNKNOWN becomes either of the others, which stay."""

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
        self._majority = len(members) // 2 + 1
        self._members = len(members)
        self._empty = {node: 0}
        self._ask_at = 0.0
        self._found_at: float | None = None
        self._found_if(self._members)

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
            self._found_if(self._members)
        else:
            self.state = Admission.REBUILDING

    def tick(self, now: float) -> None:
        """Let founders that wait for the others go on in the end."""
        if self.state is not Admission.UNKNOWN or len(self._empty) < self._majority:
            return
        if self._found_at is None:
            self._found_at = now + PATIENCE_S
        if now >= self._found_at:
            self._found_if(self._majority)

    def _found_if(self, empty: int) -> None:
        if self.state is Admission.UNKNOWN and len(self._empty) >= empty:
            self.state = Admission.WHOLE
