"""Writes and syncs the journal: in a thread, or at once where that is quicker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Final

from replication.journal.batch import WriteBatch
from replication.journal.errors import JournalFailedError
from replication.journal.journal import Journal

Durable = list[tuple[int, int, int]]
"""Partition, last durable index and its term."""

QUICK_S: Final = 0.001
"""A disk whose syncs take less on average may be waited for: waking a thread and being woken by it, with the
interpreter's lock to get each time, takes as long.
"""


class JournalWriter:
    """Writes one batch at a time while the next one is staged.

    A small batch for a quick disk is held until `write_held`, which the event loop calls once everything
    of its turn has been sent; every other batch goes to the thread. So a lone message does not wait for
    two threads to wake each other, and a busy or slow disk never holds up the event loop for long.

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
        self._held: WriteBatch | None = None
        self._worker = Thread(target=self._run, name="journal", daemon=True)
        self._worker.start()

    @property
    def busy(self) -> bool:
        """Whether a batch is being written, or the disk failed."""
        return self._busy

    def kick(self) -> None:
        """Begin to write the staged records, unless a batch is being written already. Never blocks."""
        if self._busy:
            return
        batch = self._journal.take_batch()
        if batch is not None:
            self._busy = True
            if batch.brief and batch.disk.sync_seconds < QUICK_S:
                self._held = batch
            else:
                self._batches.put(batch)

    def write_held(self) -> bool:
        """Write and sync the batch that is held, and tell the outcome; whether there was one. Blocks."""
        batch, self._held = self._held, None
        if batch is None:
            return False
        self._outcome(batch)()
        return True

    def close(self) -> None:
        """Stop the thread after the batch in hand, whose outcome may still be posted. Blocks until then."""
        if self._held is not None:
            self._batches.put(self._held)
            self._held = None
        self._batches.put(None)
        self._worker.join()

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            self._post(self._outcome(batch))

    def _outcome(self, batch: WriteBatch) -> Callable[[], None]:
        """Write and sync the batch. Returns the call by which the event loop's thread learns the outcome."""
        try:
            batch.write()
        except OSError as error:
            return partial(self._on_failure, error)
        except Exception as defect:
            failed = JournalFailedError(f"writing the journal failed: {defect!r}")
            failed.__cause__ = defect
            batch.disk.failure = failed
            return partial(self._on_failure, failed)
        return partial(self._finished, batch)

    def _finished(self, batch: WriteBatch) -> None:
        durable = self._journal.complete(batch)
        self._busy = False
        self._on_durable(durable)
