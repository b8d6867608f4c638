"""Hashes passwords in threads of their own: the event loop never waits for what is slow on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from cluster.passwords import PasswordHash, parse_hash

THREADS: Final = 2
"""Hashes made at a time: each takes 16 MiB, and scrypt lets other threads run."""


class HashingThreads:
    """Implements `cluster.access.Hasher`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="passwords")
        self._decoy = str(PasswordHash.of(""))

    def hash(self, password: str, answer: Callable[[str], None]) -> None:
        self._call(lambda: str(PasswordHash.of(password)), answer)

    def compare(self, stored: str | None, password: str, answer: Callable[[bool], None]) -> None:
        self._call(lambda: _matches(stored, self._decoy, password), answer)

    def _call(self, work: Callable[[], Any], answer: Callable[[Any], None]) -> None:
        done = self._loop.run_in_executor(self._threads, work)
        done.add_done_callback(lambda finished: None if finished.cancelled() else answer(finished.result()))

    def close(self) -> None:
        """Drop what waits; what runs is not answered any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _matches(stored: str | None, decoy: str, password: str) -> bool:
    """Whether the stored hash is the password's. Without one it takes as long: names must not be guessed."""
    if stored is None:
        parse_hash(decoy).matches(password)
        return False
    return parse_hash(stored).matches(password)
