"""A queue's limit on octets counts the messages that may still be delivered (A24)."""

from __future__ import annotations

import pytest

from node.message.deaths import encode_death
from node.message.reason import Reason
from node.queue.dispatch import QueueOwner
from node.queue.features.limits import FEATURE, Limits
from node.queue.operations import Aspect
from node.queue.queue import QueueState
from node.queue.settings import PLAIN, QueueSettings
from tests.queue.owners import A, attach, noted, owner_of, state_with

LIMITED = QueueSettings(max_length_bytes=1000)
SIZE = 60


def limits_of(owner: QueueOwner) -> Limits:
    found = owner.lifecycle.shares[FEATURE]
    assert isinstance(found, Limits)
    return found


def state(*, sized: bool) -> QueueState:
    """Three messages: one is a dead letter that waits to be moved, one is in a transaction without an
    outcome.
    """
    made = state_with(3)
    owner = owner_of(made)
    if sized:
        noted(owner, Aspect.SIZE, [SIZE] * 3)
    noted(owner, Aspect.DEATH, [encode_death(Reason.REJECTED, 1)])
    made.withhold(2, 2)
    return made


def test_a_new_owner_counts_neither_dead_letters_nor_withheld_messages() -> None:
    owner = owner_of(state(sized=True), settings=LIMITED)
    assert limits_of(owner).ready_octets() == SIZE


def test_a_limit_that_comes_later_counts_the_same() -> None:
    owner = owner_of(state(sized=True), settings=PLAIN)
    owner.lifecycle.reconfigure(LIMITED)
    assert limits_of(owner).ready_octets() == SIZE


def test_only_what_counts_is_weighed_later() -> None:
    owner = owner_of(state(sized=False), settings=PLAIN)
    owner.lifecycle.reconfigure(LIMITED)
    weights = limits_of(owner).weights
    assert weights is not None
    assert list(weights.unknown.ranges()) == [(3, 3)]


def test_what_is_shown_by_a_commit_counts_once() -> None:
    owner = owner_of(state(sized=True), settings=LIMITED)
    for first, last in owner.delivery.state.release(2, 2):
        owner.lifecycle.append(first, last)
    assert limits_of(owner).ready_octets() == 2 * SIZE


@pytest.mark.parametrize("purged", [True, False])
def test_what_has_left_is_not_weighed_any_more(purged: bool) -> None:
    """Also before the operation is committed."""
    owner = owner_of(state_with(2), fresh=True)
    owner.lifecycle.reconfigure(LIMITED)
    weights = limits_of(owner).weights
    assert weights is not None and len(weights.unknown) == 2
    if purged:
        owner.lifecycle.purge()
    else:
        attach(owner, A)
        owner.dispatch(9)
        owner.lifecycle.settle(A, [(1, 2)])
    assert not weights.unknown
