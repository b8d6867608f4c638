"""Which consumer of a queue with a single active one is active, where owners lose consumers for a while."""

from __future__ import annotations

import pytest

from node.queue.consumers import Consumer
from node.queue.features.single_active import SingleActiveConsumers

pytestmark = pytest.mark.requirement("A24.12", "D2.2")

FIRST, SECOND = 1, 2
"""The front ends of two consumers."""


def attached(owner: SingleActiveConsumers, front_end: int, known: Consumer | None = None) -> Consumer:
    """Attach a consumer, with the numbers that its front end has kept."""
    joined, activated = (known.joined, known.activated) if known is not None else (0, 0)
    return owner.attach(front_end, 7, joined=joined, activated=activated)


def replaced() -> tuple[SingleActiveConsumers, Consumer, Consumer]:
    """An owner that has lost the first consumer, made the second one active, and lost that one too."""
    owner = SingleActiveConsumers(1, ())
    first, second = attached(owner, FIRST), attached(owner, SECOND)
    owner.elect({})
    owner.detach(FIRST, 7)
    owner.elect({})
    owner.detach(SECOND, 7)
    assert 0 < first.activated < second.activated
    return owner, first, second


def test_a_consumer_that_comes_back_later_than_another_is_not_active() -> None:
    """Its front end learns that, so that the next owner learns it too."""
    owner, first, second = replaced()
    first = attached(owner, FIRST, first)
    owner.elect({})
    second = attached(owner, SECOND, second)
    assert second in owner.elect({})
    assert (first.active, second.active, second.activated) == (True, False, 0)


@pytest.mark.parametrize("same_owner", [True, False])
def test_the_active_consumer_stays_active_with_the_next_owner(same_owner: bool) -> None:
    """The other one was active in between, and comes back to the next owner with its number of that time."""
    owner, first, second = replaced()
    if not same_owner:
        owner = SingleActiveConsumers(2, ())
    first = attached(owner, FIRST, first)
    assert first in owner.elect({})
    following = SingleActiveConsumers(3, (FIRST, SECOND))
    second, first = attached(following, SECOND, second), attached(following, FIRST, first)
    following.resume_others(())
    following.elect({})
    assert (first.active, second.active) == (True, False)
