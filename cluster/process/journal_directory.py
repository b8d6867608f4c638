"""The directory of a node's journal, with the files beside it by which a start treats a damaged journal.

A journal that cannot be read counts as a lost disk (docs/decisions/0025-damage-at-the-start.md), if the other
nodes have everything that was in it. A file beside the journal tells whether they have.
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
"""Name of a file that exists while this node's disk is not whole: the node gives no votes then. The file has
the number of the newest partition when the disk was lost, once that is known."""

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
        """Open the journal. A damaged one is set aside for an empty one, if the other nodes have everything.

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
        """Note that the other nodes have everything."""
        self._copied.touch()
        self._sync()

    def note_needed(self) -> None:
        """Note that this node is about to hold entries of which the other nodes have too few copies."""
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
        """Note that the disk was lost. Call it before anything is written to the new journal: a restart must
        not take the new journal for a whole one.

        `joins`: an administrator adds this node, so its disk may be empty without a loss.
        """
        damaged = self._aside.exists()
        if damaged or not joins:
            self.log.warning("rebuilding", reason=DAMAGED if damaged else EMPTY_DISK)
        if not self.rebuilding:
            self._note_rebuilding()

    @property
    def newest_lost(self) -> int | None:
        """The partition that was noted last; None where none was noted since the disk was lost."""
        noted = self._rebuilding.read_text("ascii") if self.rebuilding else ""
        return int(noted) if noted else None

    def note_newest_lost(self, partition: int) -> None:
        """Note that partitions with higher numbers are not lost, for this process and later ones."""
        self._note_rebuilding(str(partition))

    def end_rebuilding(self) -> None:
        """Note that everything lost is back: this node votes again, also after a restart."""
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
        """Rename the damaged journal, if nothing is lost with it. Raises DamagedJournalError otherwise."""
        if reason := self._keeps():
            damage = f"{error.damage}; the node does not set it aside, because {reason}"
            raise DamagedJournalError(error.file, error.offset, damage) from error
        # A restart in between must not take the empty journal for that of a new node.
        self._note_rebuilding()
        (self._path / JOURNAL_NAME).rename(self._aside)
        self._sync()
        self.log.error("journal_set_aside", file=error.file, offset=error.offset, what=error.damage)

    def _keeps(self) -> str:
        """The reason why a damaged journal is not set aside; empty if it is."""
        if not self.copied:
            return NOT_COPIED
        return DAMAGED_AGAIN if self._aside.exists() else ""

    def _forget_aside(self) -> None:
        """Remove the journal that an earlier start has set aside, once everything in it is back."""
        if self._aside.exists() and not self.rebuilding:
            shutil.rmtree(self._aside)
            self.log.info("damaged_journal_removed", path=str(self._aside))

    def _sync(self) -> None:
        directory = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
