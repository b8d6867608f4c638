"""The channels on which the node sends the frames of its sessions (part 2, section 2.5.1)."""

from __future__ import annotations

from node.wire.amqp10.errors import NoChannelError


class NodeChannels:
    """The channels of the sessions that the node has not ended.

    A session gets the peer's channel. Only the channel of a session that the node has begun may be in its
    way: then the session gets the highest free channel.
    """

    __slots__ = ("_used",)

    def __init__(self) -> None:
        self._used: set[int] = set()

    def take(self, wanted: int, highest: int) -> int:
        """The channel for a session; `highest` is the highest one that either peer takes. Raises
        NoChannelError.
        """
        if wanted in self._used:
            wanted = next((one for one in range(highest, -1, -1) if one not in self._used), -1)
            if wanted < 0:
                raise NoChannelError("no channel of the node is free")
        self._used.add(wanted)
        return wanted

    def free(self, channel: int) -> None:
        """The node has ended the session on the channel."""
        self._used.discard(channel)
