"""Ends the node when an exception has left shared state in the middle of a change.

From that moment the node sends no decision: no answer to a client, no vote, acknowledgement or confirm to
another node, no octet to the journal. The node hands its partitions over, by asking other nodes to stand for
election: that is safe from any state, since an election rests on the voters (Raft thesis §3.10).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from threading import Timer
from typing import Any, Final, Protocol

from cluster.log.event_log import EventLog
from cluster.process.scopes import ExitCode, FailureScope, Origin, ending_of, scope_of
from replication.host import Host
from replication.journal import DamagedEntryError, JournalError
from replication.resigning import resign
from replication.transport import PeerTransport, UndecodableError

STOP_S: Final = 5.0
"""Seconds for the orderly end of the process, after which the process exits at once."""


class NodeFailedError(Exception):
    """The node has ended by itself; the text names the error, the place and the remedy."""

    def __init__(self, error: BaseException, where: str, remedy: str, code: ExitCode) -> None:
        super().__init__(f"{where}: {error_text(error)}. What to do: {remedy}.")
        self.error = error
        self.code = code


class Abortable(Protocol):
    """A connection of a client."""

    def abort(self) -> None:
        """Close the socket at once."""


class FailStop:
    """Decides by the table of `scopes` which part of the node an exception ends. Ends the node if it must."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: EventLog,
        damaged: Callable[[DamagedEntryError], None],
        end: Callable[[BaseException], None],
    ) -> None:
        """`damaged` is called with entries that cannot be read. `end` makes the node fall silent and stop."""
        self.failure: NodeFailedError | None = None
        self.log = log
        self._damaged = damaged
        self._end = end
        loop.set_exception_handler(self._uncaught)

    # -- calls of exception handlers --------------------------------------------------------------

    def spares_node(self, error: BaseException, origin: Origin) -> bool:
        """Handle an exception. Returns whether the node goes on; otherwise its end has begun."""
        scope = scope_of(error, origin)
        if scope is FailureScope.PARTITION and isinstance(error, DamagedEntryError):
            try:
                self._damaged(error)
            except DamagedEntryError:
                # No replica can ever mend the entry.
                scope = FailureScope.NODE
        if scope is not FailureScope.NODE:
            return True
        self.end(error, origin.value)
        return False

    def of_message(self, error: Exception, peer: str, tag: bytes) -> None:
        """A peer's message has raised `error`. Raises UndecodableError where only the connection to the peer
        has to end.
        """
        if self.spares_node(error, Origin.PEER_MESSAGE):
            text = f"a message of kind {tag!r} cannot be decoded: {error_text(error)}"
            self.log.error("peer_message_refused", error, peer=peer, reason=text)
            raise UndecodableError(text) from error

    def of_hashing(self, error: Exception) -> None:
        """A thread that hashes passwords has raised `error`."""
        if self.spares_node(error, Origin.HASHING):
            self.log.error("password_not_hashed", error, what=error_text(error))

    def _uncaught(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take an exception that no callback, protocol or task of the event loop has caught."""
        error = context.get("exception")
        if not isinstance(error, Exception):
            loop.default_exception_handler(context)
            return
        at_socket = any(context.get(key) is not None for key in ("transport", "protocol", "socket"))
        if isinstance(error, OSError) and at_socket:
            # Errors of a peer's connection, or of the kernel's sockets, concern no state of the node.
            loop.default_exception_handler(context)
        elif self.spares_node(error, Origin.CONNECTION if at_socket else Origin.NODE):
            self.log.error("connection_failed", error, reason=str(context.get("message", "")))
            transport = context.get("transport")
            if transport is not None:
                transport.abort()

    # -- the end ----------------------------------------------------------------------------------

    def end(self, error: BaseException, where: str) -> None:
        """Log the exception and begin the end of the node. Later exceptions are ignored."""
        if self.failure is not None:
            return
        ending = ending_of(error)
        self.failure = NodeFailedError(error, where, ending.remedy, ending.code)
        watchdog = Timer(STOP_S, os._exit, (ending.code,))
        watchdog.daemon = True
        watchdog.start()
        told = {
            "where": where,
            "what": error_text(error),
            "exit_code": int(ending.code),
            "remedy": ending.remedy,
        }
        if ending.code is ExitCode.DISK_FAILED:
            self.log.error("journal_failed", error, **told)
        elif ending.code is ExitCode.DAMAGED:
            self.log.error("journal_damaged", error, **told)
        else:
            self.log.error("node_failed", error, **told)
        self._end(error)


def fall_silent(
    error: BaseException, host: Host, transport: PeerTransport, clients: Iterable[Abortable]
) -> None:
    """Send no decision any more: have other nodes lead, and cut every connection."""
    host.fail(error)
    transport.discard()
    resign(host.groups.values(), transport.send)
    transport.flush()
    transport.close()
    for client in list(clients):
        client.abort()


def unreadable(error: JournalError) -> NodeFailedError:
    """Log that the journal cannot be read at the start; returns the error that ends the process."""
    ending = ending_of(error)
    text, code = error_text(error), int(ending.code)
    EventLog("node").error(
        "journal_damaged", where="the start", what=text, exit_code=code, remedy=ending.remedy
    )
    return NodeFailedError(error, "the start of the node", ending.remedy, ending.code)


def error_text(error: BaseException) -> str:
    """The text of an exception, with its type where the text alone says too little."""
    text = str(error)
    if isinstance(error, OSError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
