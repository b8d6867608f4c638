"""The states of a connection, with the transitions between them (part 2, section 2.4.6), and of a session."""

from __future__ import annotations

from enum import Enum
from typing import Final


class SessionState(Enum):
    """The table in `node.wire.amqp10.session_endpoint` says what each state means."""

    MAPPED = 1
    END_SENT = 2
    ENDED = 3


class ConnectionState(Enum):
    """The table in `node.wire.amqp10.connection` says what each state means."""

    HEADER = 1
    SASL = 2
    LOG_IN = 3
    CHALLENGED = 4
    LOGGED_IN = 5
    OPENING = 6
    ENTERING = 7
    OPEN = 8
    CLOSING = 9
    PARTED = 10
    PAUSED = 11
    CLOSED = 12


_S = ConnectionState

NEXT: Final[dict[ConnectionState, frozenset[ConnectionState]]] = {
    _S.HEADER: frozenset((_S.SASL, _S.PAUSED, _S.CLOSED)),
    _S.SASL: frozenset((_S.LOG_IN, _S.PAUSED, _S.CLOSED)),
    _S.LOG_IN: frozenset((_S.CHALLENGED, _S.LOGGED_IN, _S.PAUSED, _S.CLOSED)),
    _S.CHALLENGED: frozenset((_S.LOG_IN, _S.PAUSED, _S.CLOSED)),
    _S.LOGGED_IN: frozenset((_S.OPENING, _S.PAUSED, _S.CLOSED)),
    _S.OPENING: frozenset((_S.ENTERING, _S.CLOSING, _S.PAUSED, _S.CLOSED)),
    _S.ENTERING: frozenset((_S.OPEN, _S.CLOSING, _S.PAUSED, _S.CLOSED)),
    _S.OPEN: frozenset((_S.CLOSING, _S.PARTED, _S.CLOSED)),
    _S.CLOSING: frozenset((_S.CLOSED,)),
    _S.PARTED: frozenset((_S.CLOSED,)),
    _S.PAUSED: frozenset((_S.CLOSED,)),
    _S.CLOSED: frozenset(),
}

DEAF: Final = frozenset((_S.PARTED, _S.PAUSED, _S.CLOSED))
"""States that discard all input of the peer."""

AWAITING_ANSWER: Final = frozenset((_S.LOG_IN, _S.ENTERING))
"""States in which the input waits for an answer of the session code."""

NOT_OPEN_YET: Final = frozenset(
    (_S.HEADER, _S.SASL, _S.LOG_IN, _S.CHALLENGED, _S.LOGGED_IN, _S.OPENING, _S.ENTERING)
)


def check_next(before: ConnectionState, after: ConnectionState) -> None:
    """Raises AssertionError for a transition that is not in the table: a defect of the machine."""
    if after not in NEXT[before]:
        raise AssertionError(f"{before.name} to {after.name}")
