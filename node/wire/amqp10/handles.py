"""The handles that the node gives to the links of a session (part 2, section 2.6.2)."""

from __future__ import annotations

from node.wire.amqp10.errors import HandleInUseError


class NodeHandles:
    """The handles of the links from which the node has not sent a detach. `highest` is the peer's handle-max.

    A link gets the peer's handle. But a peer may detach a link and attach another one to the handle at once,
    when the node has still to answer the detach: then the link gets the lowest free handle.
    """

    __slots__ = ("_highest", "_used")

    def __init__(self, highest: int) -> None:
        self._highest = highest
        self._used: set[int] = set()

    def take(self, wanted: int) -> int:
        """The handle for a link that the peer attaches to the handle `wanted`. Raises HandleInUseError."""
        if wanted in self._used:
            free = [one for one in range(len(self._used) + 1) if one not in self._used]
            wanted = free[0]
            if wanted > self._highest:
                raise HandleInUseError("no handle of the node is free")
        self._used.add(wanted)
        return wanted

    def free(self, handle: int) -> None:
        """The node has detached the link with the handle."""
        self._used.discard(handle)
