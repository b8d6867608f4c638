"""The states of a channel (§2.3.7, §4.8).

    state     Close received        Close-Ok received    other frames      on an exception
    OPEN      PARTED                command invalid      handled           Close, CLOSING
    CLOSING   Close-Ok, CLOSING     CLOSED               discarded         -

A PARTED channel is held. It sends Close-Ok, and is CLOSED, once other clients see what the end of its
consumers does; without consumers at once.

A channel that is held takes no frames in any state: the connection parks them.
"""

from __future__ import annotations

from enum import Enum


class ChannelState(Enum):
    OPEN = 1
    CLOSING = 2
    """We sent Close."""
    CLOSED = 3
    PARTED = 4
    """The client sent Close."""
