"""The thread that stores segments in an archive: a copy to another disk must hold up neither the event loop
nor the writer of the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final, NamedTuple

from replication.archive.archive import Archive
from replication.archive.decisions import ArchiveLimits

PRUNE_S: Final = 60.0
"""Seconds between two looks for segments that have become too old."""


CLOSE_S: Final = 5.0
"""Seconds for which the end of a process waits for a disk."""


class StoreOutcome(NamedTuple):
    """The outcome of one look at the archive. number: the segment that was to be stored, 0 without one.
    octets: of all segments in the archive. removed: segments that had no place any more.
    """

    number: int
    error: str | None
    octets: int
    removed: int


class Archiver:
    """Stores one segment at a time, and removes what has no place any more.

    open_archive: opens the archive, which may fail, and is tried again. post: runs a function on the event
    loop's thread. wall_s: the time of day in seconds since the epoch. Every method is for the event loop's
    thread.
    """

    def __init__(
        self,
        open_archive: Callable[[], Archive],
        limits: ArchiveLimits,
        post: Callable[[Callable[[], None]], object],
        on_outcome: Callable[[StoreOutcome], None],
        wall_s: Callable[[], float],
        prune_s: float = PRUNE_S,
    ) -> None:
        self._open_archive = open_archive
        self._limits = limits
        self._post = post
        self._on_outcome = on_outcome
        self._wall_s = wall_s
        self._prune_s = prune_s
        self._archive: Archive | None = None
        self._jobs: SimpleQueue[int | None] = SimpleQueue()
        self._worker = Thread(target=self._run, name="archive", daemon=True)
        self._worker.start()

    def store(self, number: int) -> None:
        """Begin to store a segment; the outcome is posted. Never blocks."""
        self._jobs.put(number)

    def close(self) -> None:
        """Stop the thread after the segment in hand. Blocks until then, but not for longer than `CLOSE_S`: a
        segment that is not stored by then is stored after the next start.
        """
        self._jobs.put(None)
        self._worker.join(CLOSE_S)

    def _run(self) -> None:
        while (number := self._wait()) is not None:
            self._post(partial(self._on_outcome, self._look(number)))
        if self._archive is not None:
            self._archive.close()

    def _wait(self) -> int | None:
        """The next segment, 0 when it is time to prune; None at the end."""
        try:
            return self._jobs.get(timeout=self._prune_s)
        except Empty:
            return 0

    def _look(self, number: int) -> StoreOutcome:
        """Store a segment, and prune. After an error the archive is opened anew: its disk may be back."""
        try:
            if self._archive is None:
                self._archive = self._open_archive()
            archive = self._archive
            if number:
                archive.store(number)
            removed = len(archive.prune(self._limits, self._wall_s()))
            return StoreOutcome(number, None, archive.octets(), removed)
        except Exception as error:
            failed, self._archive = self._archive, None
            if failed is not None:
                failed.close()
            return StoreOutcome(number, str(error) or repr(error), 0, 0)
