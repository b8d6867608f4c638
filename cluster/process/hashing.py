"""Hashes passwords in threads of their own: the event loop never waits for a hash, which is slow on purpose.

Few hashes are made at a time, as each takes 16 MiB. Origins take turns, and so do the names at one origin:
a client that sends a thousand wrong passwords at once waits for them, and clients with other names do not.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from cluster.catalog.access.password_checks import DIGEST_KEY_BYTES
from cluster.config.passwords import PasswordHash, parse_hash

THREADS: Final = 2
"""Hashes made at a time; scrypt lets other threads run."""

NICENESS: Final = 10
"""The niceness of these threads: the event loop goes first where both want a processor."""


class Turns:
    """The passwords that wait, by origin and name: each origin is served once before any is served again, and
    each name at an origin."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, deque[Any]]] = {}

    def add(self, origin: str, name: str, work: Any) -> None:
        self._waiting.setdefault(origin, {}).setdefault(name, deque()).append(work)

    def remove(self, origin: str, name: str, work: Any) -> None:
        """Take out a password, if it still waits."""
        names = self._waiting.get(origin, {})
        if work in names.get(name, ()):
            names[name].remove(work)
            if not names[name]:
                del names[name]
            if not names:
                del self._waiting[origin]

    def take(self) -> Any:
        """Take the next password; None when none waits."""
        if not self._waiting:
            return None
        origin = next(iter(self._waiting))
        names = self._waiting.pop(origin)
        name = next(iter(names))
        waiting = names.pop(name)
        work = waiting.popleft()
        if waiting:
            names[name] = waiting
        if names:
            self._waiting[origin] = names
        return work


class Work(NamedTuple):
    """A hash to make, and the callback that takes the result."""

    run: Callable[[], Any]
    answer: Callable[[Any], None]


class HashingThreads:
    """Implements `cluster.catalog.access.password_checks.Hasher`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, failed: Callable[[Exception], None]) -> None:
        """`failed` takes the exception of a thread; the callback of the hash then gets None."""
        self.key = os.urandom(DIGEST_KEY_BYTES)
        self._loop = loop
        self._threads = ThreadPoolExecutor(THREADS, "passwords", _give_way)
        self._decoy = PasswordHash.decoy()
        self._failed = failed
        self._turns = Turns()
        self._busy = 0

    def hash(self, password: str, scram: bool, answer: Callable[[str | None], None]) -> None:
        self._wait("", "", Work(lambda: str(PasswordHash.of(password, scram)), answer))

    def compare(
        self, stored: str | None, password: str, origin: str, user: str, answer: Callable[[bool | None], None]
    ) -> Callable[[], None]:
        work = Work(lambda: _matches(stored, self._decoy, password), answer)
        self._wait(origin, user, work)
        return partial(self._turns.remove, origin, user, work)

    def _wait(self, origin: str, name: str, work: Work) -> None:
        self._turns.add(origin, name, work)
        self._begin()

    def _begin(self) -> None:
        while self._busy < THREADS and (work := self._turns.take()) is not None:
            self._busy += 1
            running = self._loop.run_in_executor(self._threads, work.run)
            running.add_done_callback(self._ended(work.answer))

    def _ended(self, answer: Callable[[Any], None]) -> Callable[[asyncio.Future[Any]], None]:
        def ended(done: asyncio.Future[Any]) -> None:
            self._busy -= 1
            if not done.cancelled():
                # The callback may withdraw passwords that wait.
                answer(None if self._unmade(done.exception()) else done.result())
                self._begin()

        return ended

    def _unmade(self, error: BaseException | None) -> bool:
        """Whether the thread raised an exception, for example for want of memory: only this hash is lost."""
        if error is None:
            return False
        if not isinstance(error, Exception):
            raise error
        self._failed(error)
        return True

    def close(self) -> None:
        """Drop waiting passwords. The callbacks of hashes that are being made are not called any more."""
        self._turns = Turns()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _give_way() -> None:
    """Lower the priority of this thread, where the system has one for each."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def _matches(stored: str | None, decoy: PasswordHash, password: str) -> bool:
    """Whether the stored hash is the password's.

    Without a hash, or with one that is quick to check, the check takes as long as with any other, so that its
    time does not tell which users exist.
    """
    found = None if stored is None else parse_hash(stored)
    if not isinstance(found, PasswordHash):
        decoy.matches(password)
    return found is not None and found.matches(password)
