"""A front end is given up only when no former owner can serve it any more (docs/decisions/0015-leases.md)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.owner.lost_front_ends import LostFrontEnds

pytestmark = pytest.mark.interpreted


class Scene:
    """An owner that records the front ends it has given up, the live front ends, and whether former leases
    are over.
    """

    def __init__(self) -> None:
        self.given_up: list[int] = []
        self.alive: set[int] = set()
        self.dead: set[int] = set()
        self.greeted: set[int] = set()
        self.asked: list[int] = []
        self.over = False
        greeting = SimpleNamespace(current=lambda one: one if one in self.greeted else None)
        owner: Any = SimpleNamespace(partition=4, active=True, front_ends=greeting)
        front_ends = SimpleNamespace(
            alive=lambda front_end: front_end in self.alive,
            dead=lambda front_end: front_end in self.dead,
            port=lambda partition, front_end: SimpleNamespace(resync=lambda: self.asked.append(front_end)),
        )
        context: Any = SimpleNamespace(front_ends=front_ends, former_leases_over=lambda partition: self.over)
        self.owner = owner
        self.lost = LostFrontEnds(owner, context, self.given_up.append)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_front_end_out_of_reach_is_given_up_once_former_leases_are_over(scene: Scene) -> None:
    scene.alive = {2}
    scene.lost.take_over([1, 2])
    scene.lost.lost(3)
    scene.lost.tick()
    assert not scene.lost.allowed()
    assert scene.given_up == []
    scene.over = True
    scene.lost.tick()
    assert scene.lost.allowed()
    assert scene.given_up == [1, 3]


def test_one_that_comes_back_meanwhile_is_not_given_up(scene: Scene) -> None:
    scene.lost.take_over([1])
    scene.alive = {1}
    scene.over = True
    scene.lost.tick()
    assert scene.given_up == []


def test_a_node_that_is_no_owner_gives_no_front_end_up(scene: Scene) -> None:
    scene.over = True
    scene.owner.active = False
    scene.lost.lost(1)
    scene.lost.tick()
    assert not scene.lost.allowed()
    assert scene.given_up == []


def test_one_that_was_given_up_is_asked_to_greet_once_it_is_there_again(scene: Scene) -> None:
    scene.over = True
    scene.lost.take_over([1, 2, 3])
    assert scene.given_up == [1, 2, 3]
    scene.alive, scene.greeted, scene.dead = {1, 2}, {2}, {3}
    scene.lost.tick()
    scene.lost.tick()
    assert scene.asked == [1], "1 has not greeted, 2 has, 3 never will"
