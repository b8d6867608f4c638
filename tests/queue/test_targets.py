"""The targets that a queue keeps for links of clients that send: what each step does, on every replica and in
snapshots, and whose steps an owner takes.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.delivery.link_terms import LinkTerms
from node.queue.attached_targets import TARGETS_OCTETS, AttachedTargets
from node.queue.decision_format import encode_target
from node.queue.entry_format import EntryFormatError, encode_forget, read_operations
from node.queue.operations import Semantics
from node.queue.queue import PLAIN_VERSION, WITH_TARGETS, QueueState
from node.queue.targets import TargetStates, TargetStep, UpdateTarget
from tests.queue.building import one_batch
from tests.queue.test_partition import machine_with

FRONT_END, OTHER = 5, 6
LINK = LinkTerms(b"container\0link", 30)


def step(
    what: TargetStep, *tags: bytes, front_end: int = FRONT_END, number: int = 1, link: LinkTerms = LINK
) -> UpdateTarget:
    return UpdateTarget(1, front_end, number, what, link.encode(), tags)


ATTACHED = step(TargetStep.ATTACHED)


def tags_of(targets: TargetStates | None) -> list[list[bytes]]:
    return [] if targets is None else [list(one.tags) for one in targets.all()]


def test_tags_are_kept_until_they_are_settled_or_the_target_is_closed() -> None:
    state = QueueState(Semantics.AT_LEAST_ONCE)
    for one in (ATTACHED, step(TargetStep.RECEIVED, b"a", b"b"), step(TargetStep.RECEIVED, b"c", b"a")):
        state.update_target(one)
    state.update_target(step(TargetStep.SETTLED, b"b", b"unknown"))
    assert tags_of(state.targets) == [[b"a", b"c"]]
    state.update_target(step(TargetStep.DETACHED))
    assert tags_of(state.targets) == [[b"a", b"c"]]
    state.update_target(step(TargetStep.ATTACHED, front_end=OTHER))
    state.update_target(step(TargetStep.CLOSED, front_end=OTHER))
    assert state.targets is None


UNDER_A_LINK = [one for one in TargetStep if one not in (TargetStep.ATTACHED, TargetStep.COMMITTED)]


@pytest.mark.parametrize("what", UNDER_A_LINK)
def test_a_step_of_a_link_that_has_lost_its_target_has_no_effect(what: TargetStep) -> None:
    targets = TargetStates()
    targets.update(ATTACHED)
    targets.update(step(TargetStep.RECEIVED, b"a"))
    targets.update(step(TargetStep.ATTACHED, number=2))
    before = targets.encode()
    targets.update(step(what, b"a", b"b"))
    assert targets.encode() == before


def test_deliveries_of_a_transaction_come_whichever_link_has_the_target_at_its_commit() -> None:
    targets = TargetStates()
    committed = step(TargetStep.COMMITTED, b"a", b"b")
    targets.update(committed)
    assert not len(targets), "the target is closed"
    for one in (ATTACHED, step(TargetStep.RECEIVED, b"a"), step(TargetStep.DETACHED), committed):
        targets.update(one)
    assert tags_of(targets) == [[b"a", b"b"]]
    for one in (step(TargetStep.ATTACHED, number=2), step(TargetStep.COMMITTED, b"c")):
        targets.update(one)
    assert tags_of(targets) == [[b"a", b"b", b"c"]]


def test_an_owner_takes_deliveries_of_a_transaction_while_their_link_has_its_target() -> None:
    targets = AttachedTargets(QueueState(Semantics.AT_LEAST_ONCE))
    targets.takes(ATTACHED)
    assert targets.takes(step(TargetStep.COMMITTED, b"a"))
    targets.takes(step(TargetStep.DETACHED))
    assert not targets.takes(step(TargetStep.COMMITTED, b"a"))


def test_links_of_a_dead_front_end_are_gone_and_their_targets_stay() -> None:
    machine = machine_with(1)
    other = LinkTerms(b"another", 0)
    steps = [
        ATTACHED,
        step(TargetStep.RECEIVED, b"a"),
        step(TargetStep.ATTACHED, front_end=OTHER, link=other),
    ]
    machine.apply(2, one_batch([encode_target(one) for one in steps], FRONT_END, 1))
    machine.apply(3, one_batch([encode_forget(FRONT_END)]))
    targets = machine.queues[1].targets
    assert targets is not None
    assert [(one.attached, list(one.tags)) for one in targets.all()] == [((0, 0), [b"a"]), ((OTHER, 1), [])]


_tags = st.binary(max_size=32)
_steps = st.builds(
    UpdateTarget,
    st.just(1),
    st.sampled_from((0, FRONT_END)),
    st.integers(0, 2),
    st.sampled_from(TargetStep),
    st.sampled_from((LINK.encode(), LinkTerms(b"l", 0).encode())),
    st.lists(_tags, max_size=4).map(tuple),
)


@given(st.lists(_steps))
def test_a_snapshot_has_the_targets(steps: list[UpdateTarget]) -> None:
    machine = machine_with(1)
    machine.apply(2, one_batch([encode_target(one) for one in steps], FRONT_END, 1))
    data = machine.snapshot()
    kept = machine.queues[1].targets
    assert data[0] == (PLAIN_VERSION if kept is None else WITH_TARGETS)
    again = machine_with()
    again.restore(data)
    assert again.snapshot() == data
    copied = again.queues[1].targets
    assert sorted(tags_of(copied)) == sorted(tags_of(kept))
    assert (0 if copied is None else copied.octets) == (0 if kept is None else kept.octets)


@given(_steps)
def test_a_step_is_read_as_it_was_written(one: UpdateTarget) -> None:
    octets = encode_target(one)
    assert list(read_operations(octets)) == [one]
    for size in range(1, len(octets)):
        with pytest.raises(EntryFormatError):
            list(read_operations(octets[:size]))


def test_an_owner_knows_by_which_link_a_target_is_attached_ahead_of_the_log() -> None:
    targets = AttachedTargets(QueueState(Semantics.AT_LEAST_ONCE))
    assert not targets.takes(step(TargetStep.RECEIVED, b"a"))
    assert targets.takes(ATTACHED) and targets.takes(step(TargetStep.RECEIVED, b"a"))
    assert targets.takes(step(TargetStep.ATTACHED, number=2))
    assert not targets.takes(step(TargetStep.RECEIVED, b"b")) and not targets.takes(step(TargetStep.CLOSED))
    assert targets.takes(step(TargetStep.CLOSED, number=2)) and not targets.any


def test_the_time_of_a_target_begins_when_its_link_is_gone() -> None:
    targets = AttachedTargets(QueueState(Semantics.AT_LEAST_ONCE))
    targets.takes(ATTACHED)
    assert not targets.overdue(1, 100_000)
    targets.lost(FRONT_END)
    assert not targets.overdue(1, 200_000) and targets.wake == 230_000
    targets.back(FRONT_END)
    assert not targets.overdue(1, 231_000)
    targets.takes(step(TargetStep.DETACHED))
    assert not targets.overdue(1, 300_000) and targets.wake == 330_000
    assert targets.overdue(1, 330_000) == [step(TargetStep.CLOSED, front_end=0, number=0)]
    assert not targets.any


def test_a_link_that_is_attached_again_has_its_whole_time_again() -> None:
    targets = AttachedTargets(QueueState(Semantics.AT_LEAST_ONCE))
    for one in (ATTACHED, step(TargetStep.DETACHED)):
        targets.takes(one)
    assert not targets.overdue(1, 100_000) and targets.wake == 130_000
    for one in (step(TargetStep.ATTACHED, number=2), step(TargetStep.DETACHED, number=2)):
        targets.takes(one)
    assert not targets.overdue(1, 129_000) and targets.wake == 159_000


def test_a_queue_keeps_no_target_without_room() -> None:
    state = QueueState(Semantics.AT_LEAST_ONCE)
    targets = AttachedTargets(state)
    targets.takes(ATTACHED)
    state.update_target(ATTACHED)
    assert state.targets is not None and targets.has_room(b"another")
    state.targets.octets = TARGETS_OCTETS
    assert targets.has_room(LINK.identity) and not targets.has_room(b"another")
