"""Hashing off the event loop, in turns."""

from __future__ import annotations

import asyncio
import threading

from hypothesis import given
from hypothesis import strategies as st

from cluster.access import hashing
from cluster.access.hashing import HashingThreads, Turns
from cluster.access.passwords import PasswordHash

HASH = str(PasswordHash.of("wonder"))


@given(st.lists(st.sampled_from("abc")))
def test_everything_gets_its_turn_and_nobody_two_before_another(origins: list[str]) -> None:
    turns = Turns()
    for number, origin in enumerate(origins):
        turns.add(origin, (number, origin))
    taken = []
    while (work := turns.take()) is not None:
        taken.append(work)
    assert sorted(taken) == list(enumerate(origins))
    for origin in "abc":
        assert [one for one in taken if one[1] == origin] == [
            (number, one) for number, one in enumerate(origins) if one == origin
        ]
    for place, (_, origin) in enumerate(taken):
        later = [one for _, one in taken[place + 1 :]]
        if origin in later:
            between = later[: later.index(origin)]
            assert set(later) - {origin} <= set(between), "an origin came twice while another waited"


def test_the_event_loop_goes_on_while_passwords_are_hashed() -> None:
    answers: list[tuple[str, bool]] = []
    threads: set[str] = set()
    turned = 0

    async def work() -> None:
        nonlocal turned
        loop = asyncio.get_running_loop()
        hasher = HashingThreads(loop)
        done = loop.create_future()

        def answered(origin: str, good: bool) -> None:
            threads.add(threading.current_thread().name)
            answers.append((origin, good))
            if len(answers) == 9:
                done.set_result(None)

        for _ in range(6):
            hasher.compare(None, "x", "flood", lambda good: answered("flood", good))
        hasher.compare(HASH, "wonder", "calm", lambda good: answered("calm", good))
        hasher.compare(HASH, "wrong", "calm", lambda good: answered("calm", good))
        hasher.hash("new", lambda made: answered("", PasswordHash.parse(made).matches("new")))
        while not done.done():
            turned += 1
            await asyncio.sleep(0.001)
        hasher.close()

    asyncio.run(work())
    assert threads == {threading.current_thread().name}
    assert [good for origin, good in answers if origin == "calm"] == [True, False]
    assert [good for origin, good in answers if origin != "calm"].count(True) == 1
    # Two of the flood were being hashed when the others came, one more is before each, and so is one beside.
    assert "calm" in [origin for origin, _ in answers[:6]]
    assert answers[-1][0] == "flood"
    assert turned > 20, "the loop stood still"
    assert hashing.THREADS == 2


def test_what_waits_when_the_node_stops_is_not_answered() -> None:
    async def work() -> list[bool]:
        answers: list[bool] = []
        hasher = HashingThreads(asyncio.get_running_loop())
        for _ in range(5):
            hasher.compare(None, "x", "a", answers.append)
        hasher.close()
        await asyncio.sleep(0.5)
        return answers

    assert len(asyncio.run(work())) <= hashing.THREADS
