"""Correct passwords are remembered, and equal ones that come together are hashed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.catalog.access.password_checks import WAITING_OF_ORIGIN, PasswordChecks, Remembered
from cluster.catalog.access.records import User


@dataclass(eq=False)
class Question:
    stored: str | None
    password: str
    origin: str
    user: str
    answer: Callable[[bool], None]


KEY = b"of one process"


class Hashing:
    """Holds questions until the test answers them. A password is correct where it is the hash's text."""

    key = KEY

    def __init__(self) -> None:
        self.waiting: list[Question] = []
        self.hashed = 0

    def hash(self, password: str, scram: bool, answer: Callable[[str], None]) -> None:
        raise AssertionError

    def compare(
        self, stored: str | None, password: str, origin: str, user: str, answer: Callable[[bool], None]
    ) -> Callable[[], None]:
        question = Question(stored, password, origin, user, answer)
        self.waiting.append(question)
        return lambda: self.waiting.remove(question) if question in self.waiting else None

    def work(self, place: int = 0) -> None:
        """Hash one of the waiting passwords."""
        question = self.waiting.pop(place)
        self.hashed += 1
        question.answer(question.stored == question.password)


class Desk:
    def __init__(self) -> None:
        self.hashing = Hashing()
        self.checks = PasswordChecks(self.hashing)
        self.answers: list[bool | None] = []

    def ask(self, password: str, *, user: str = "alice", origin: str = "a", stored: str = "wonder") -> None:
        self.checks.check(user, stored or None, password, origin, self.answers.append)


def test_a_thousand_clients_that_come_together_cost_one_hash() -> None:
    desk = Desk()
    for _ in range(1000):
        desk.ask("wonder")
    desk.hashing.work()
    assert desk.answers == [True] * 1000
    assert not desk.hashing.waiting
    desk.ask("wonder")
    assert (len(desk.answers), desk.hashing.hashed) == (1001, 1)


def test_a_password_from_several_origins_is_hashed_at_the_first_turn_of_any() -> None:
    desk = Desk()
    for number in range(5):
        desk.ask(f"wrong {number}", origin="flooded")
    desk.ask("wonder", origin="flooded")
    desk.ask("wonder", origin="calm")
    assert desk.hashing.waiting[-1].origin == "calm"
    desk.hashing.work(-1)
    assert desk.answers == [True, True]
    assert [question.password for question in desk.hashing.waiting] == [f"wrong {n}" for n in range(5)]


def test_a_late_answer_of_another_origin_is_dropped() -> None:
    desk = Desk()
    desk.ask("wonder", origin="a")
    desk.ask("wonder", origin="b")
    # Both are being hashed: the threads have taken them out of the queue.
    first, second = desk.hashing.waiting
    desk.hashing.waiting.clear()
    first.answer(True)
    second.answer(True)
    assert desk.answers == [True, True]


def test_a_wrong_password_is_hashed_each_time() -> None:
    desk = Desk()
    for _ in range(3):
        desk.ask("wrong")
        desk.hashing.work()
    assert desk.answers == [False] * 3
    assert desk.hashing.hashed == 3


def test_the_password_of_another_user_or_hash_is_not_known() -> None:
    desk = Desk()
    desk.ask("wonder")
    desk.hashing.work()
    desk.ask("wonder", user="bob")
    desk.ask("wonder", stored="land")
    desk.ask("wonder", stored="")
    assert len(desk.hashing.waiting) == 3


def test_an_origin_may_have_so_many_passwords_wait_and_no_more() -> None:
    desk = Desk()
    for number in range(WAITING_OF_ORIGIN + 1):
        desk.ask(f"wrong {number}")
    assert desk.answers == [None]
    assert len(desk.hashing.waiting) == WAITING_OF_ORIGIN
    desk.ask("wonder", origin="b")
    desk.hashing.work(-1)
    assert desk.answers == [None, True]
    desk.hashing.work()
    desk.ask("wonder")
    assert desk.answers == [None, True, False, True]


def test_no_more_users_are_remembered_than_there_is_room_for() -> None:
    remembered = Remembered(KEY, largest=2)
    digests = {user: remembered.digest(user, "hash", "wonder") for user in "abc"}
    for user, digest in digests.items():
        remembered.remember(user, "hash", digest)
    assert [remembered.knows(user, digest) for user, digest in digests.items()] == [False, True, True]
    assert len(remembered) == 2


def test_users_that_are_gone_or_changed_are_forgotten() -> None:
    remembered = Remembered(KEY)
    for user in "abc":
        remembered.remember(user, "hash", remembered.digest(user, "hash", "wonder"))
    remembered.forget_changed({"a": User("a", "hash"), "b": User("b", "another")})
    assert remembered.knows("a", remembered.digest("a", "hash", "wonder"))
    assert len(remembered) == 1


def test_digests_tell_user_hash_and_password_apart_and_hold_in_one_process_only() -> None:
    remembered = Remembered(KEY)
    parts = [("ab", "c", "d"), ("a", "bc", "d"), ("ab", "cd", ""), ("ab", "c", "e")]
    assert len({remembered.digest(*one) for one in parts}) == len(parts)
    assert remembered.digest("a", "b", "c") != Remembered(b"another").digest("a", "b", "c")
