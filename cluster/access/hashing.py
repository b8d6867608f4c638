"""Hashes passwords in threads of their own: the event loop never waits for what is slow on purpose.

Few hashes are made at a time, as each takes 16 MiB, and origins take turns: whoever sends a thousand
wrong passwords at once waits for them, and nobody else does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from cluster.access.passwords import PasswordHash, parse_hash

THREADS: Final = 2
"""scrypt lets other threads run."""


class Turns:
    """What waits, by origin: each origin is served once before any is served again."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Any]] = {}

    def add(self, origin: str, work: Any) -> None:
        self._waiting.setdefault(origin, deque()).append(work)

    def take(self) -> Any:
        """The next one; None when nothing waits."""
        if not self._waiting:
            return None
        origin = next(iter(self._waiting))
        waiting = self._waiting.pop(origin)
        work = waiting.popleft()
        if waiting:
            self._waiting[origin] = waiting
        return work


class HashingThreads:
    """Implements `cluster.access.control.Hasher`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="passwords")
        self._decoy = str(PasswordHash.of(""))
        self._turns = Turns()
        self._busy = 0

    def hash(self, password: str, answer: Callable[[str], None]) -> None:
        self._wait("", lambda: str(PasswordHash.of(password)), answer)

    def compare(self, stored: str | None, password: str, origin: str, answer: Callable[[bool], None]) -> None:
        self._wait(origin, lambda: _matches(stored, self._decoy, password), answer)

    def _wait(self, origin: str, work: Callable[[], Any], answer: Callable[[Any], None]) -> None:
        self._turns.add(origin, (work, answer))
        self._begin()

    def _begin(self) -> None:
        while self._busy < THREADS and (waiting := self._turns.take()) is not None:
            self._busy += 1
            work, answer = waiting
            self._loop.run_in_executor(self._threads, work).add_done_callback(self._ended(answer))

    def _ended(self, answer: Callable[[Any], None]) -> Callable[[asyncio.Future[Any]], None]:
        def ended(done: asyncio.Future[Any]) -> None:
            self._busy -= 1
            if not done.cancelled():
                self._begin()
                answer(done.result())

        return ended

    def close(self) -> None:
        """Drop what waits; what runs is not answered any more."""
        self._turns = Turns()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _matches(stored: str | None, decoy: str, password: str) -> bool:
    """Whether the stored hash is the password's.

    Without one, or with one that is quick to check, it takes as long as with any: names must not be guessed.
    """
    found = None if stored is None else parse_hash(stored)
    if not isinstance(found, PasswordHash):
        parse_hash(decoy).matches(password)
    return found is not None and found.matches(password)
