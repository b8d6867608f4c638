"""The one thread that writes and syncs the journal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread

from replication.journal.batch import WriteBatch
from replication.journal.errors import JournalFailedError
from replication.journal.journal import Journal

Durable = list[tuple[int, int, int]]
"""Partition, last durable index and its term."""


class JournalWriter:
    """Writes one batch at a time while the next one is staged.

    post: runs a function on the event loop's thread (`loop.call_soon_threadsafe`). on_durable and
    on_failure are called there: with what `Journal.complete` returned, or, once and for good, with
    the error of a write or sync. Every method is for the event loop's thread.
    """

    def __init__(
        self,
        journal: Journal,
        post: Callable[[Callable[[], None]], object],
        on_durable: Callable[[Durable], None],
        on_failure: Callable[[OSError], None],
    ) -> None:
        self._journal = journal
        self._post = post
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._batches: SimpleQueue[WriteBatch | None] = SimpleQueue()
        self._busy = False
        self._thread = Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a batch is being written, or the disk failed."""
        return self._busy

    def kick(self) -> None:
        """Write what is staged, unless a batch is being written already. Never blocks."""
        if self._busy:
            return
        batch = self._journal.take_batch()
        if batch is not None:
            self._busy = True
            self._batches.put(batch)

    def close(self) -> None:
        """Stop the thread after the batch in hand, whose outcome may still be posted. Blocks until then."""
        self._batches.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            try:
                batch.write()
            except OSError as error:
                self._post(partial(self._on_failure, error))
            except Exception as error:
                failed = JournalFailedError(f"writing the journal failed: {error!r}")
                failed.__cause__ = error
                batch.disk.failure = failed
                self._post(partial(self._on_failure, failed))
            else:
                self._post(partial(self._finished, batch))

    def _finished(self, batch: WriteBatch) -> None:
        durable = self._journal.complete(batch)
        self._busy = False
        self._on_durable(durable)
