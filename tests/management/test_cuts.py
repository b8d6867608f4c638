"""A cut is taken where the owners of all partitions confirm it, each in the term of its position (X9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cluster.admin.api.cuts import BEGIN_CUT, END_CUT, CutAnswers, CutError, take_cut
from cluster.owner.cuts import Position
from node.queue.delivery_state import Tally
from tests.inquiries import inquiries

pytestmark = pytest.mark.requirement("X9.2")


class Owner:
    """A replica that owns its partition. It answers unless told otherwise."""

    def __init__(self, partition: int, term: int = 1) -> None:
        self.partition, self.term, self.active = partition, term, True
        self.queues: dict[int, Any] = {}
        self.past = Tally()
        self.reaches = self.confirms = True
        self.cut = 0

    def begin_cut(self, number: int, reached: Callable[[Position], None]) -> None:
        self.cut = number
        if self.reaches:
            reached(Position(self.partition, self.term, 10 * self.partition, 100))

    def end_cut(self, number: int, confirmed: Callable[[], None]) -> None:
        assert number == self.cut
        self.cut = 0
        if self.confirms:
            confirmed()


class Nodes:
    """Inquiries of nodes that ask each other without a network."""

    def __init__(self, **owners: list[Owner]) -> None:
        self.inquiries = inquiries(owners)
        self.turns = 0
        for name, owned in owners.items():
            by_partition = {owner.partition: owner for owner in owned}
            answers = CutAnswers(by_partition, self._wanted)
            self.inquiries[name].answer(BEGIN_CUT, answers.begin)
            self.inquiries[name].answer(END_CUT, answers.end)

    def _wanted(self) -> None:
        self.turns += 1

    def cut(self, *partitions: int) -> list[tuple[str, Position]]:
        return asyncio.run(take_cut(self.inquiries["n1"], partitions))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.admin.api.cuts.OWNERS_ANSWER_S", 0.01)


def test_the_positions_of_all_nodes_are_one_cut() -> None:
    nodes = Nodes(n1=[Owner(2), Owner(5)], n2=[Owner(3)], n3=[])
    assert nodes.cut(2, 3, 5) == [
        ("n1", Position(2, 1, 20, 100)),
        ("n2", Position(3, 1, 30, 100)),
        ("n1", Position(5, 1, 50, 100)),
    ]
    assert nodes.turns == 6, "owners propose and apply in turns"


def test_only_partitions_of_the_cut_hold_still() -> None:
    memory = Owner(7)
    assert [one.partition for _, one in Nodes(n1=[Owner(2), memory]).cut(2)] == [2]
    assert memory.cut == 0


@pytest.mark.parametrize("silent", ["reaches", "confirms", "active"])
def test_an_owner_that_is_lost_spoils_the_cut_and_others_go_on(silent: str) -> None:
    one, other = Owner(2), Owner(3)
    setattr(other, silent, False)
    with pytest.raises(CutError, match=r"no owner held partitions 3$"):
        Nodes(n1=[one], n2=[other]).cut(2, 3)
    assert (one.cut, other.cut) == (0, 0)


def test_the_word_of_a_deposed_owner_does_not_count() -> None:
    """Both nodes think that they own the partition; a majority confirms one of them."""
    deposed, owner = Owner(2, term=4), Owner(2, term=5)
    deposed.confirms = False
    assert Nodes(n1=[deposed], n2=[owner]).cut(2) == [("n2", Position(2, 5, 20, 100))]


def test_an_owner_of_a_later_term_does_not_confirm_an_earlier_position() -> None:
    nodes = Nodes(n1=[], n2=[])
    nodes.inquiries["n2"].answer(BEGIN_CUT, lambda _: [Position(2, 4, 20, 100)])
    nodes.inquiries["n2"].answer(END_CUT, lambda _: [(2, 5)])
    with pytest.raises(CutError):
        nodes.cut(2)
