"""Hashing off the event loop, in turns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.catalog.access.password_checks import DIGEST_KEY_BYTES, PasswordChecks
from cluster.config.passwords import PasswordHash
from cluster.process import hashing
from cluster.process.hashing import HashingThreads, Turns

HASH = str(PasswordHash.of("wonder"))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy"))))
def test_every_address_gets_its_turn_and_none_two_before_another(asked: list[tuple[str, str]]) -> None:
    turns = Turns()
    for number, (origin, name) in enumerate(asked):
        turns.add(origin, name, (number, origin, name))
    taken = []
    while (work := turns.take()) is not None:
        taken.append(work)
    assert sorted(taken) == [(number, *one) for number, one in enumerate(asked)]
    fair([origin for _, origin, _ in taken])
    for origin in "abc":
        fair([name for _, at, name in taken if at == origin])
        for name in "xy":
            numbers = [number for number, *one in taken if one == [origin, name]]
            assert numbers == sorted(numbers)


def fair(taken: list[str]) -> None:
    """None comes twice while another waits."""
    for place, one in enumerate(taken):
        later = taken[place + 1 :]
        if one in later:
            between = later[: later.index(one)]
            assert set(later) - {one} <= set(between), "one came twice while another waited"


def test_what_is_taken_back_has_no_turn() -> None:
    turns = Turns()
    for work in (1, 2, 3):
        turns.add("a", "x", work)
    turns.add("b", "x", 4)
    turns.remove("a", "x", 1)
    turns.remove("a", "x", 3)
    turns.remove("a", "x", 3)
    turns.remove("b", "x", 4)
    assert [turns.take(), turns.take()] == [2, None]


def raised(error: Exception) -> None:
    raise error


TURNS = 20
FLOOD = 200
"""At most so many more hashes are made for the loop to be seen turning: none where a processor is free."""


class UnderWay:
    """Numbers the calls that threads are in: the event loop sees which last from one turn to the next."""

    def __init__(self, intact: Callable[..., bool]) -> None:
        self.numbers: set[int] = set()
        self._intact = intact
        self._count = count()

    def __call__(self, *arguments: Any) -> bool:
        number = next(self._count)
        self.numbers.add(number)
        try:
            return self._intact(*arguments)
        finally:
            self.numbers.remove(number)


def test_the_event_loop_goes_on_while_passwords_are_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is: only those turns of the loop count that one hash outlasts.

    A hash that kept the interpreter for itself would let the loop turn before it and after it alone.
    """
    answers: list[tuple[str, bool]] = []
    threads: set[str] = set()
    under_way = UnderWay(hashing._matches)
    monkeypatch.setattr(hashing, "_matches", under_way)
    turned = 0

    def answered(password: str, good: bool | None) -> None:
        threads.add(threading.current_thread().name)
        assert good is not None
        answers.append((password, good))

    async def work() -> None:
        nonlocal turned
        hasher = HashingThreads(asyncio.get_running_loop(), raised)
        for _ in range(6):
            hasher.compare(None, "x", "flood", "u", lambda good: answered("flood", bool(good)))
        hasher.compare(HASH, "wonder", "calm", "u", lambda good: answered("right", good))
        hasher.compare(HASH, "wrong", "calm", "u", lambda good: answered("wrong", good))
        hasher.hash("new", False, lambda made: answered("", PasswordHash.parse(str(made)).matches("new")))
        more = 0
        while len(answers) < 9 + more or turned <= TURNS:
            if len(answers) == 9 + more and more < FLOOD:
                more += 1
                hasher.compare(None, "x", "flood", "u", lambda good: answered("flood", bool(good)))
            before = under_way.numbers.copy()
            await asyncio.sleep(0.001)
            turned += bool(before & under_way.numbers)
            if len(answers) == 9 + FLOOD:
                break
        hasher.close()

    asyncio.run(work())
    assert threads == {threading.current_thread().name}
    # Two threads may be done in either order.
    assert ("right", True) in answers and ("wrong", False) in answers
    assert [good for _, good in answers].count(True) == 2
    assert turned > TURNS, "the loop stood still"
    assert hashing.THREADS == 2


def test_what_waits_when_the_node_stops_is_not_answered() -> None:
    async def work() -> list[bool]:
        answers: list[bool] = []
        hasher = HashingThreads(asyncio.get_running_loop(), raised)
        for _ in range(5):
            hasher.compare(None, "x", "a", "u", answers.append)
        hasher.close()
        await asyncio.sleep(0.5)
        return answers

    assert len(asyncio.run(work())) <= hashing.THREADS


def test_wrong_passwords_do_not_starve_right_ones() -> None:
    """A flood at the same address, under many names: the right one waits for two hashes, and next time for
    none; a thousand of its clients wait for the same."""
    order: list[str] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        hasher = HashingThreads(loop, raised)
        checks = PasswordChecks(hasher)
        done = loop.create_future()

        def right(answer: bool | None) -> None:
            assert answer
            order.append("right")
            if order.count("right") == 1000:
                done.set_result(None)

        for number in range(200):
            checks.check("mallory", None, f"x{number}", "127.0.0.1", lambda _: order.append("wrong"))
        for _ in range(1000):
            checks.check("alice", HASH, "wonder", "127.0.0.1", right)
        await done
        # Three in turn, and few more where the thread that has the right one stands still.
        assert order.count("wrong") < 50
        checks.check("alice", HASH, "wonder", "10.0.0.1", lambda answer: order.append(f"again {answer}"))
        assert order[-1] == "again True", "not even a turn of the event loop"
        hasher.close()

    asyncio.run(work())


def test_a_hash_that_cannot_be_made_is_answered_and_the_next_one_is_made() -> None:
    """OpenSSL has no memory for scrypt: its exception never reaches the event loop's handler."""
    answers: list[bool | str | None] = []
    failures: list[Exception] = []
    uncaught: list[object] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: uncaught.append(context))
        hasher = HashingThreads(loop, failures.append)
        done = loop.create_future()

        def answered(answer: bool | str | None) -> None:
            answers.append(answer)
            if len(answers) == 4:
                done.set_result(None)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hashing, "_matches", out_of_memory)
            hasher.compare(HASH, "wonder", "a", "x", answered)
            hasher.compare(HASH, "wonder", "a", "y", answered)
            hasher.compare(HASH, "wonder", "a", "z", answered)
            while len(answers) < 3:
                await asyncio.sleep(0)
        hasher.compare(HASH, "wonder", "a", "x", answered)
        await done
        hasher.close()

    asyncio.run(work())
    assert answers == [None, None, None, True]
    assert [str(error) for error in failures] == ["[digital envelope routines] malloc failure"] * 3
    assert not uncaught


def test_each_process_has_a_key_of_its_own() -> None:
    async def keys() -> set[bytes]:
        loop = asyncio.get_running_loop()
        hashers = [HashingThreads(loop, raised) for _ in range(2)]
        for hasher in hashers:
            hasher.close()
        return {hasher.key for hasher in hashers}

    made = asyncio.run(keys())
    assert [len(key) for key in made] == [DIGEST_KEY_BYTES] * 2


def out_of_memory(*_: object) -> bool:
    raise ValueError("[digital envelope routines] malloc failure")
