"""The archive of this node's journal: which segments go there, and what log and metrics tell of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from cluster.admin.views import ArchiveFigures
from cluster.config.models import NodeConfig
from cluster.log.event_log import EventLog
from cluster.process.journal_directory import JOURNAL_NAME
from replication.archive import Archive, ArchiveDirectory, ArchiveLimits, Archiver, Archiving, StoreOutcome
from replication.journal import Journal

ARCHIVE_RETRY_S: Final = 30.0
"""Seconds between two tries to store a segment while the archive fails."""


def open_archive(path: Path, journal: Path, min_free_octets: int, newest: Callable[[], int]) -> Archive:
    """Open the archive in the directory `path`. Raises JournalInUseError, OSError."""
    directory = ArchiveDirectory(path, journal, min_free_octets)
    try:
        return Archive(directory, newest())
    except BaseException:
        directory.close()
        raise


class JournalArchive:
    """Hands the segments in which nothing is alive to the archive, and gives them back to the journal. Does
    nothing where the configuration has no archive.

    post: runs a function on the event loop's thread. wanted: has the event loop run a turn. wall_ms: the time
    of day in milliseconds since the epoch. Every method is for the event loop's thread.
    """

    def __init__(
        self,
        config: NodeConfig,
        journal: Journal,
        log: EventLog,
        post: Callable[[Callable[[], None]], object],
        wanted: Callable[[], None],
        clock: Callable[[], float],
        wall_ms: Callable[[], int],
    ) -> None:
        self.figures = ArchiveFigures()
        self.log = log
        self._journal = journal
        self._wanted = wanted
        self._clock = clock
        limits = ArchiveLimits(
            config.archive_max_age_s, config.archive_max_bytes, config.archive_waiting_bytes
        )
        self._archiving = Archiving(limits, ARCHIVE_RETRY_S)
        self._archiver: Archiver | None = None
        if config.archive_directory is None:
            return
        self._path = config.archive_directory / config.name
        opening = partial(
            open_archive,
            self._path,
            config.data_dir / JOURNAL_NAME,
            # The archive gives way before publishers are held back.
            2 * config.cluster.alarms.disk_free_limit_bytes,
            lambda: journal.newest,
        )
        self._archiver = Archiver(opening, limits, post, self._told, lambda: wall_ms() / 1000)

    def tick(self, now: float) -> None:
        """Hand over the next segment; called several times a second."""
        if self._archiver is None:
            return
        archiving = self._archiving
        for number, octets in self._journal.unarchived():
            archiving.offer(number, octets)
        if (due := archiving.next(now)) is not None:
            self._archiver.store(due)
        for given_up in archiving.given_up():
            self.log.error("segment_not_archived", segment=given_up)
            self._release(given_up)
        self._count()

    def close(self) -> None:
        """End the thread after the segment in hand. Blocks until then, for some seconds at most."""
        archiver, self._archiver = self._archiver, None
        if archiver is not None:
            archiver.close()

    def _told(self, outcome: StoreOutcome) -> None:
        if self._archiver is None:
            # The process ends, and writes nothing more to its journal.
            return
        archiving, was_failing = self._archiving, self._archiving.failing
        if outcome.error is not None:
            if not was_failing:
                self.log.warning("archive_failed", path=str(self._path), error=outcome.error)
            archiving.failed(outcome.number, self._clock())
        else:
            self.figures.octets = outcome.octets
            self.figures.removed += outcome.removed
            if outcome.number:
                archiving.done(outcome.number)
                self._release(outcome.number)
                if was_failing:
                    self.log.info("archive_works", path=str(self._path))
        self._count()

    def _release(self, number: int) -> None:
        self._journal.release(number)
        self._wanted()

    def _count(self) -> None:
        archiving, figures = self._archiving, self.figures
        figures.stored, figures.lost = archiving.stored, archiving.lost
        figures.waiting_octets, figures.failing = archiving.waiting_octets, archiving.failing
