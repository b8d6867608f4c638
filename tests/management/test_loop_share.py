"""Work that may wait gets a part of the event loop's time, one piece after the other."""

from __future__ import annotations

import asyncio

import pytest

from cluster.admin.api.loop_share import RESTS, WORK_S, LoopShare
from node.queue.filtering import IDLE_S, IDLE_TURNS

pytestmark = pytest.mark.requirement("F8.3")


WORK = 0.26 * WORK_S
BUSY_S = 2 * IDLE_TURNS * IDLE_S
"""Other work of so long makes a loop busy at once, also for the mean."""


class Time:
    """A clock that work and pauses move on. `other_s`: of other work, each time that it is let."""

    def __init__(self, other_s: float) -> None:
        self.now, self.other_s = 100.0, other_s
        self.paused, self.pauses = 0.0, 0
        self.share = LoopShare(self._pause, lambda: self.now)
        self._let = 0

    async def _pause(self, seconds: float) -> None:
        if not seconds:
            self._let += 1
            seconds = self.other_s if self._let % 2 else 0.0
        else:
            self.pauses += 1
        self.now += seconds
        self.paused += seconds
        await asyncio.sleep(0)

    async def long_work(self) -> None:
        async with self.share.turn():
            for _ in range(100):
                self.now += WORK
                await self.share.breath()

    async def short_work(self, _: int = 0) -> None:
        async with self.share.turn():
            self.now += WORK_S / 10


def test_a_long_piece_of_work_is_interrupted_and_rests() -> None:
    time = Time(0.9 * RESTS * WORK_S)
    asyncio.run(time.long_work())
    assert time.paused == pytest.approx(RESTS * 100 * WORK)
    assert time.pauses == 25


def test_short_pieces_rest_as_much_as_a_long_one() -> None:
    time = Time(0.9 * RESTS * WORK_S / 10)
    time.share._busy_s = BUSY_S

    async def all_at_once() -> None:
        await asyncio.gather(*map(time.short_work, range(10)))

    asyncio.run(all_at_once())
    assert time.paused == pytest.approx(RESTS * 9 * WORK_S / 10)
    assert time.share.waiting == 0
    time.now += 1.0
    before = time.paused
    asyncio.run(time.short_work())
    assert time.paused == before


def test_other_work_that_takes_longer_than_the_rest_is_all_that_work_waits_for() -> None:
    time = Time(2 * RESTS * WORK_S)
    asyncio.run(time.long_work())
    assert (time.paused, time.pauses) == (pytest.approx(25 * 2 * RESTS * WORK_S), 0)


def test_an_idle_loop_gives_work_nearly_all_of_its_time() -> None:
    time = Time(0.05 * WORK_S)
    asyncio.run(time.long_work())
    assert time.pauses == 0
    assert time.paused < 0.06 * 100 * WORK


def test_a_loop_is_busy_once_other_work_takes_long_and_idle_once_it_does_not() -> None:
    """By the mean of a few times: neither one long time nor one short time tells."""
    time = Time(0.05 * WORK_S)
    asyncio.run(time.long_work())
    time.other_s = 1.5 * IDLE_S
    asyncio.run(time.long_work())
    assert 25 - IDLE_TURNS <= time.pauses < 25
    time.other_s, before = 0.0, time.pauses
    asyncio.run(time.long_work())
    assert 0 < time.pauses - before < IDLE_TURNS


def test_work_that_fails_leaves_its_turn() -> None:
    time = Time(0.0)

    async def fail() -> None:
        async with time.share.turn():
            raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            asyncio.run(fail())
    assert time.share.waiting == 0
