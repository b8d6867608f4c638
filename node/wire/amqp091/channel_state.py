"""The states of a channel (§2.3.7, §4.8).

    state     Close received        Close-Ok received    other frames      on an exception
    OPEN      PARTED                command invalid      handled           FAILED
    CLOSING   Close-Ok, CLOSING     CLOSED               discarded         -

A PARTED or FAILED channel is held until the session has ended its consumers for all clients. Then a PARTED
channel sends Close-Ok, and is CLOSED; a FAILED one sends Close, and is CLOSING. Without consumers it does so
at once.

A held channel takes no frames in any state: the connection parks them.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from node.wire.amqp091.methods import ChannelClose, ChannelCloseOk
from node.wire.amqp091.primitives import SHORT, Method


class ChannelState(Enum):
    OPEN = 1
    CLOSING = 2
    """The server has sent Close."""
    CLOSED = 3
    PARTED = 4
    """The client has sent Close."""
    FAILED = 5
    """The server is about to send Close."""


def _encoded_ids(kind: type[Method]) -> bytes:
    return SHORT.pack(kind.CLASS_ID) + SHORT.pack(kind.METHOD_ID)


CLOSE_IDS: Final = _encoded_ids(ChannelClose)
CLOSE_OK_IDS: Final = _encoded_ids(ChannelCloseOk)
