"""The directory of a node's journal, with the files beside it by which a start treats a damaged journal.

A journal that cannot be read is as a disk that was lost (docs/decisions/0025-damage-at-the-start.md). The
other nodes give everything back, where they have everything; a file beside the journal says whether they do.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from cluster.log.event_log import EventLog
from replication.journal import DamagedJournalError, DirectoryFiles, Journal, JournalConfig
from replication.journal.collection import Rewrite

JOURNAL_NAME: Final = "journal"
ASIDE_NAME: Final = "journal.damaged"
COPIED_NAME: Final = "copied"
"""Name of a file that exists while the other nodes have all entries of the journal (see `JournalCopies`)."""

REBUILDING_NAME: Final = "rebuilding"
"""A file that says that this node's disk is not whole yet: until then it gives no votes. In it stands which
partition was the newest when the disk was lost, once that is known."""

EMPTY_DISK: Final = "this node's disk is empty, but the cluster is not new"
DAMAGED: Final = f"this node's journal was damaged, and lies in {ASIDE_NAME}"

NOT_COPIED: Final = "other nodes do not have everything that this one holds"
DAMAGED_AGAIN: Final = (
    f"an earlier one that was damaged lies in {ASIDE_NAME}, and not everything is back from the other nodes"
)


class JournalDirectory:
    """The journal of a node's data directory. `path`: the data directory.

    Each change of a file beside the journal is durable when the method that made it returns.
    """

    def __init__(self, path: Path, log: EventLog) -> None:
        self._path = path
        self.log = log
        self._aside = path / ASIDE_NAME
        self._copied = path / COPIED_NAME
        self._rebuilding = path / REBUILDING_NAME

    def open(self, config: JournalConfig, rewrite: Rewrite) -> Journal:
        """The journal, or an empty one where it is damaged and the other nodes have everything.

        Raises DamagedJournalError, UnsupportedJournalError, OSError.
        """
        self._forget_aside()
        try:
            journal = self._open(config, rewrite)
        except DamagedJournalError as error:
            self._set_aside(error)
            journal = self._open(config, rewrite)
        counters = journal.counters
        seconds = round(counters.recovery_seconds, 3)
        self.log.info("journal_opened", bytes=counters.bytes_recovered, seconds=seconds)
        return journal

    @property
    def copied(self) -> bool:
        """Whether the other nodes are known to have everything."""
        return self._copied.exists()

    def note_copied(self) -> None:
        """The other nodes have everything."""
        self._copied.touch()
        self._sync()

    def note_needed(self) -> None:
        """This node is about to hold entries of which the other nodes have too few copies."""
        if self.copied:
            self._copied.unlink()
            self._sync()

    @property
    def set_aside(self) -> bool:
        """Whether a damaged journal is kept."""
        return self._aside.exists()

    @property
    def rebuilding(self) -> bool:
        """Whether this node's disk was not whole when the last process ended."""
        return self._rebuilding.exists()

    def begin_rebuilding(self, joins: bool) -> None:
        """Before anything is written: a restart must not take the new journal for the lost one.

        `joins`: the disk of a node that is to be added is empty by right.
        """
        damaged = self._aside.exists()
        if damaged or not joins:
            self.log.warning("rebuilding", reason=DAMAGED if damaged else EMPTY_DISK)
        if not self.rebuilding:
            self._note_rebuilding()

    @property
    def newest_lost(self) -> int | None:
        """The number that was noted last; None where none was noted since the disk was lost."""
        noted = self._rebuilding.read_text("ascii") if self.rebuilding else ""
        return int(noted) if noted else None

    def note_newest_lost(self, partition: int) -> None:
        """Partitions of higher numbers lack nothing, also after a restart."""
        self._note_rebuilding(str(partition))

    def end_rebuilding(self) -> None:
        """Everything lost is back: this node votes again, also after a restart."""
        self._rebuilding.unlink()
        self.log.info("rebuilt")

    def _note_rebuilding(self, newest_lost: str = "") -> None:
        scratch = self._rebuilding.with_suffix(".new")
        with scratch.open("w", encoding="ascii") as file:
            file.write(newest_lost)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(self._rebuilding)
        self._sync()

    def _open(self, config: JournalConfig, rewrite: Rewrite) -> Journal:
        files = DirectoryFiles(self._path / JOURNAL_NAME)
        try:
            return Journal.open(files, config, rewrite)
        except BaseException:
            files.close()
            raise

    def _set_aside(self, error: DamagedJournalError) -> None:
        """Put the damaged journal out of the way, if nothing is lost with it. Raises DamagedJournalError."""
        if reason := self._keeps():
            what = f"{error.what}; the node does not set it aside, because {reason}"
            raise DamagedJournalError(error.file, error.offset, what) from error
        # A restart in between must not take an empty journal for all there ever was.
        self._note_rebuilding()
        (self._path / JOURNAL_NAME).rename(self._aside)
        self._sync()
        self.log.error("journal_set_aside", file=error.file, offset=error.offset, what=error.what)

    def _keeps(self) -> str:
        """Why a damaged journal stays where it is; empty if it does not."""
        if not self.copied:
            return NOT_COPIED
        return DAMAGED_AGAIN if self._aside.exists() else ""

    def _forget_aside(self) -> None:
        """Remove a journal that was damaged once all of it is back: it was kept until the next start."""
        if self._aside.exists() and not self.rebuilding:
            shutil.rmtree(self._aside)
            self.log.info("damaged_journal_removed", path=str(self._aside))

    def _sync(self) -> None:
        directory = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
