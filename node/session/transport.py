"""The socket, as a session sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol


class Transport(Protocol):
    """The socket of a session. `node.session.listener.Client` implements it."""

    remote: str
    """The client's IP address."""
    certified_name: str
    """The user name in the client's certificate; empty without a valid certificate."""

    @property
    def clients_waiting(self) -> int:
        """The number of the node's clients whose input waits for this turn: they divide the turn's work."""

    def wanted(self) -> None:
        """The session has output: the listener calls `take_output` at the end of the turn."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close_after_flush(self) -> None: ...
    def log(self, event: str, fields: Mapping[str, str | int]) -> None: ...

    def entered(self) -> None:
        """The client has logged in and opened its connection."""

    def negotiation_failed(self, reason: str) -> None:
        """The client has failed to log in: the listener logs it, and counts it against the client's
        address.
        """

    def session_failed(self, error: Exception) -> None:
        """A defect has ended the session: the listener logs it, and closes the socket with the session's
        `last_words`.
        """


class NoTransport:
    """Stands for the socket of a session after it is closed: ignores every call."""

    remote = ""
    certified_name = ""
    clients_waiting = 0

    def wanted(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close_after_flush(self) -> None: ...
    def log(self, event: str, fields: Mapping[str, str | int]) -> None: ...
    def entered(self) -> None: ...
    def negotiation_failed(self, reason: str) -> None: ...
    def session_failed(self, error: Exception) -> None: ...


NO_TRANSPORT: Final = NoTransport()
