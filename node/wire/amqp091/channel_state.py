"""The states of a channel (§2.3.7, §4.8).

    state     Close received        Close-Ok received    other frames      on an exception
    OPEN      PARTED                command invalid      handled           FAILED
    CLOSING   Close-Ok, CLOSING     CLOSED               discarded         -

A PARTED or FAILED channel is held. It sends Close-Ok, and is CLOSED, or sends Close, and is CLOSING, once
other clients see what the end of its consumers does; without consumers at once.

A channel that is held takes no frames in any state: the connection parks them.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from node.wire.amqp091.methods import ChannelClose, ChannelCloseOk
from node.wire.amqp091.primitives import SHORT, Method


class ChannelState(Enum):
    OPEN = 1
    CLOSING = 2
    """We sent Close."""
    CLOSED = 3
    PARTED = 4
    """The client sent Close."""
    FAILED = 5
    """We are about to send Close."""


def _encoded_ids(kind: type[Method]) -> bytes:
    return SHORT.pack(kind.CLASS_ID) + SHORT.pack(kind.METHOD_ID)


CLOSE_IDS: Final = _encoded_ids(ChannelClose)
CLOSE_OK_IDS: Final = _encoded_ids(ChannelCloseOk)
