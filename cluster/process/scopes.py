"""The table of the scope that an exception ends, and the exit codes of exceptions that end the node.

Every handler of an unexpected exception asks `scope_of`, and decides by its answer alone
(docs/decisions/0016-fail-stop.md).
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

from node.queue.partition import SequenceOrderError
from replication.journal.errors import DamagedEntryError, JournalError, JournalFailedError
from replication.raft import InvariantError, MessageError


class Origin(Enum):
    """Where the exception was caught."""

    SESSION = "a client's session"
    REQUEST = "an HTTP request"
    PEER_MESSAGE = "a message of another node"
    CONNECTION = "a socket of the event loop"
    HASHING = "the hashing of a password"
    NODE = "the node's own work"


class FailureScope(Enum):
    """The parts of a node that an exception may end."""

    CLIENT = "that client's connection, request or log-in"
    PEER = "that connection to another node"
    PARTITION = "the leadership of a partition, and the client or request that met the damage"
    NODE = "the node"


class ExitCode(IntEnum):
    """The exit code of a node that ends by itself; the numbers are those of BSD's sysexits.h.

    docs/deploy.md lists them; deploy/systemd/quorate.service uses them.
    """

    DAMAGED = 65
    """The journal cannot be read: another start would not help (EX_DATAERR)."""
    DEFECT = 70
    """The node cannot trust its state: it may start again from its journal (EX_SOFTWARE)."""
    DISK_FAILED = 74
    """The journal cannot be written: the node may start again once the disk takes writes (EX_IOERR)."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a node for an exception: the exit code, and the remedy for the operator."""

    code: ExitCode
    remedy: str


ALWAYS_THE_NODE: Final = (InvariantError, SequenceOrderError, JournalError, JournalFailedError)
"""Exceptions that report broken replicated state or a broken journal: they end the node wherever they are
caught."""

PRODUCT: Final = ("cluster.", "node.", "replication.")

SHARED: Final = ("replication.", "cluster.owner.", "cluster.broker.broker")
"""Modules that change what all clients share and other nodes rely on. An exception that came through one of
them has left it in the middle of a change.
"""

BY_ORIGIN: Final = {
    Origin.SESSION: FailureScope.CLIENT,
    Origin.REQUEST: FailureScope.CLIENT,
    Origin.CONNECTION: FailureScope.CLIENT,
    Origin.HASHING: FailureScope.CLIENT,
    Origin.PEER_MESSAGE: FailureScope.NODE,
    Origin.NODE: FailureScope.NODE,
}
"""The scope by the place where the exception was caught, if no rule above applies."""

DISK_FULL: Final = Ending(
    ExitCode.DISK_FAILED, "free space there and start the node: it goes on from its journal"
)

ENDINGS: Final = (
    (
        JournalFailedError,
        Ending(ExitCode.DISK_FAILED, "repair the disk, then start the node: it goes on from its journal"),
    ),
    (JournalError, Ending(ExitCode.DAMAGED, "the text above names the file, the offset and what to do")),
    (
        OSError,
        Ending(
            ExitCode.DISK_FAILED,
            "remove the cause that the system names, then start the node: it goes on from its journal",
        ),
    ),
    (
        Exception,
        Ending(
            ExitCode.DEFECT,
            "start the node again: it goes on from its journal, and gets missing entries from the other nodes"
            ". Report the traceback",
        ),
    ),
)
"""Exceptions with their endings; the first row whose type fits counts."""


def scope_of(error: BaseException, origin: Origin) -> FailureScope:
    """The part of the node that the exception ends."""
    if isinstance(error, DamagedEntryError) and origin in (Origin.SESSION, Origin.REQUEST):
        return FailureScope.PARTITION
    if isinstance(error, ALWAYS_THE_NODE):
        return FailureScope.NODE
    if origin is Origin.PEER_MESSAGE and isinstance(error, MessageError):
        # The decoder of messages has raised the exception, before any state has changed.
        return FailureScope.PEER
    if any(module.startswith(SHARED) for module in modules_passed(error)):
        return FailureScope.NODE
    return BY_ORIGIN[origin]


def ending_of(error: BaseException) -> Ending:
    """The node's ending for an exception."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DISK_FULL
    return next((ending for kind, ending in ENDINGS if isinstance(error, kind)), ENDINGS[-1][1])


def modules_passed(error: BaseException) -> list[str]:
    """The project's modules in the exception's traceback, from the handler to the line that raised it."""
    names = []
    step = error.__traceback__
    while step is not None:
        names.append(str(step.tb_frame.f_globals.get("__name__", "")))
        step = step.tb_next
    return [name for name in names if name.startswith(PRODUCT)]
