"""The thread that stores segments in an archive."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest

from replication.archive import (
    Archive,
    Archiver,
    StoreOutcome,
)
from tests.journal.test_archive import PATIENCE_S, UNLIMITED, Machine


class Loop:
    """The event loop's part."""

    def __init__(self, open_archive: Callable[[], Archive], prune_s: float = 60.0) -> None:
        self.outcomes: list[StoreOutcome] = []
        self._posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.archiver = Archiver(
            open_archive, UNLIMITED, self._posted.put, self.outcomes.append, lambda: 0.0, prune_s
        )

    def outcome(self) -> StoreOutcome:
        self._posted.get(timeout=PATIENCE_S)()
        return self.outcomes[-1]


@pytest.fixture
def loop_of() -> Iterator[Callable[..., Loop]]:
    made: list[Loop] = []

    def make(*arguments: Any) -> Loop:
        made.append(Loop(*arguments))
        return made[-1]

    yield make
    for loop in made:
        loop.archiver.close()


def test_the_thread_tells_what_came_of_each_segment(loop_of: Callable[..., Loop]) -> None:
    machine = Machine(1, links=False)
    machine.fill()
    machine.fill()
    loop = loop_of(lambda: machine.archive)
    (number, octets), *_ = machine.journal.unarchived()
    loop.archiver.store(number)
    assert loop.outcome() == StoreOutcome(number, None, octets, 0)
    machine.other.capacity = 100
    (second, _), *_ = [one for one in machine.journal.unarchived() if one[0] != number]
    loop.archiver.store(second)
    assert loop.outcome() == StoreOutcome(
        second, "[Errno 28] No space left on the simulated disk: '0000000002.new'", 0, 0
    )


def test_the_thread_opens_the_archive_anew_after_an_error(loop_of: Callable[..., Loop]) -> None:
    machine = Machine(1, links=False)
    machine.fill()
    machine.fill()
    tries: list[int] = []

    def open_archive() -> Archive:
        tries.append(1)
        if len(tries) == 1:
            raise FileNotFoundError(errno.ENOENT, "No such directory", "/archive")
        return machine.archive

    loop = loop_of(open_archive)
    (number, _), *_ = machine.journal.unarchived()
    loop.archiver.store(number)
    assert loop.outcome().error == "[Errno 2] No such directory: '/archive'"
    loop.archiver.store(number)
    assert loop.outcome().error is None


def test_the_thread_prunes_while_nothing_is_stored(loop_of: Callable[..., Loop]) -> None:
    machine = Machine(1, links=False)
    loop = loop_of(lambda: machine.archive, 0.01)
    assert loop.outcome() == StoreOutcome(0, None, 0, 0)


@pytest.mark.interpreted
def test_the_end_of_a_process_does_not_wait_for_a_disk_that_hangs(
    loop_of: Callable[..., Loop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replication.archive.archiver.CLOSE_S", 0.01)
    hanging, go_on = Event(), Event()

    def open_archive() -> Archive:
        hanging.set()
        assert go_on.wait(PATIENCE_S)
        raise FileNotFoundError(errno.ENOENT, "No such directory", "/archive")

    loop = loop_of(open_archive)
    loop.archiver.store(1)
    assert hanging.wait(PATIENCE_S)
    loop.archiver.close()
    assert loop.outcomes == []
    go_on.set()
