"""The socket, as a session sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol


class Transport(Protocol):
    """What a session asks of its socket."""

    remote: str
    certified_name: str
    """Who the client is by its certificate; empty where it has shown none that is valid."""

    def wanted(self) -> None:
        """There is output; `flush` will be called at the end of the turn."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close_after_flush(self) -> None: ...
    def log(self, event: str, fields: Mapping[str, str | int]) -> None: ...

    def entered(self) -> None:
        """The connection is open: the client is no stranger any more."""

    def negotiation_failed(self, reason: str) -> None:
        """To be logged, and counted against the address that the client is at."""

    def session_failed(self, error: Exception) -> None:
        """A defect ended the session: to be logged. The socket is to be closed, without a word."""


class NoTransport:
    """Of a session whose socket is gone: nothing more happens."""

    remote = ""
    certified_name = ""

    def wanted(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close_after_flush(self) -> None: ...
    def log(self, event: str, fields: Mapping[str, str | int]) -> None: ...
    def entered(self) -> None: ...
    def negotiation_failed(self, reason: str) -> None: ...
    def session_failed(self, error: Exception) -> None: ...


NO_TRANSPORT: Final = NoTransport()
