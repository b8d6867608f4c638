"""The errors that the journal raises."""

from __future__ import annotations

import errno
from typing import Final

LOST_BY_DISK: Final = (errno.EIO, errno.EBADMSG)
"""Error numbers of read(2) where a sector is bad, or its checksum is: damage like octets that have
changed."""

REMEDY = (
    "Stop the node, remove its data directory and start it again: it rebuilds its replicas from its peers. "
    "Queues that are not replicated lose their contents."
)


class JournalError(Exception):
    """The base of the errors that the journal raises on purpose, `JournalFailedError` aside."""


class DamagedJournalError(JournalError):
    """Durable content of the journal cannot be read back. Names the file, the offset in octets and the
    remedy.
    """

    def __init__(self, file: str, offset: int, damage: str) -> None:
        super().__init__(f"{file} is damaged at offset {offset}: {damage}. {REMEDY}")
        self.file = file
        self.offset = offset
        self.damage = damage


class DamagedEntryError(DamagedJournalError):
    """One entry does not read back as it was written; a replica on another node may have it whole."""

    def __init__(self, file: str, offset: int, damage: str, index: int, term: int) -> None:
        super().__init__(file, offset, damage)
        self.partition = 0
        """Set by the log that was read."""
        self.index = index
        self.term = term


class UnsupportedJournalError(JournalError):
    """The file was written in a format that this release does not know."""

    def __init__(self, file: str, offset: int, reason: str) -> None:
        super().__init__(
            f"{file} at offset {offset}: {reason}. Start the release that wrote it, or a newer one."
        )
        self.file = file
        self.offset = offset


class JournalInUseError(JournalError):
    """Another process has the directory open."""


class JournalFailedError(OSError):
    """An earlier write or sync failed, and nothing more is written.

    After a failed fsync the kernel may have dropped the dirty pages and marked them clean, so that a
    second fsync would report a success that never happened.
    """
