"""Work that may wait gets a part of the event loop's time, one piece after the other."""

from __future__ import annotations

import asyncio

import pytest

from cluster.admin.api.loop_share import RESTS, WORK_S, LoopShare

pytestmark = pytest.mark.requirement("F8.3")


WORK = 0.26 * WORK_S


class Time:
    """A clock that work and pauses move on."""

    def __init__(self) -> None:
        self.now = 100.0
        self.paused, self.pauses = 0.0, 0
        self.share = LoopShare(self._pause, lambda: self.now)

    async def _pause(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        self.paused += seconds
        self.pauses += 1
        await asyncio.sleep(0)


def test_a_long_piece_of_work_is_interrupted_and_rests() -> None:
    time = Time()

    async def work() -> None:
        async with time.share.turn():
            for _ in range(100):
                time.now += WORK
                await time.share.breath()

    asyncio.run(work())
    assert time.paused == pytest.approx(RESTS * 100 * WORK)
    assert time.pauses == 25


def test_short_pieces_rest_as_much_as_a_long_one() -> None:
    time = Time()

    async def work(_: int) -> None:
        async with time.share.turn():
            time.now += WORK_S / 10

    async def all_at_once() -> None:
        await asyncio.gather(*map(work, range(10)))

    asyncio.run(all_at_once())
    assert time.paused == pytest.approx(RESTS * 9 * WORK_S / 10)
    assert time.share.waiting == 0
    time.now += 1.0
    before = time.paused
    asyncio.run(work_alone(time))
    assert time.paused == before


async def work_alone(time: Time) -> None:
    async with time.share.turn():
        time.now += WORK_S / 10


def test_work_that_fails_leaves_its_turn() -> None:
    time = Time()

    async def fail() -> None:
        async with time.share.turn():
            raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            asyncio.run(fail())
    assert time.share.waiting == 0
