"""Deltas: publishes that state what has changed alone (header x-delta, D16). The owner merges each into the
last value of its key, and the log has the whole, which all queues over the stream get.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cluster.owner.feature_context import QueueContext
from cluster.owner.state import OwnerState
from node.message.run import Run
from node.queue.feature import Incoming


class Whole(NamedTuple):
    """Messages of a run for `queues`, as the log is to have them. `refused`: deltas that cannot be merged."""

    queues: tuple[int, ...]
    run: Run
    refused: bool = False


def merges(owner: OwnerState, queues: Sequence[int]) -> bool:
    """Whether one of the queues merges deltas."""
    return any(owner.rules_of(number).merge for number in queues)


def has_deltas(owner: OwnerState, run: Run, queues: Sequence[int]) -> bool:
    """Whether one of the queues would merge a message of the run."""
    return any(rule.has_deltas(run) for number in queues for _, rule in owner.rules_of(number).merge)


def wholes(owner: OwnerState, run: Run, queues: tuple[int, ...]) -> Iterator[list[Whole]]:
    """The messages of a run for the queues, in order: a list for queues that get the same."""
    left = queues
    for number in sorted(queues):
        queue = owner.queues.get(number)
        if number not in left or queue is None:
            continue
        for feature, rule in owner.rules_of(number).merge:
            if not rule.has_deltas(run):
                continue
            kin = _kin(owner, number, left)
            left = tuple(one for one in left if one not in kin)
            share = queue.lifecycle.shares.get(feature)
            parts = rule.merge(share, QueueContext(owner, number), run)
            yield [Whole(kin, part, refused) for part, refused in parts]
            break
    if left:
        yield [Whole(left, run)]


def _kin(owner: OwnerState, number: int, queues: tuple[int, ...]) -> tuple[int, ...]:
    """Those of the queues that are over the same stream as one of them, with the stream, in their order."""
    topic = owner.topic_of(number)
    if topic is None:
        return (number,)
    return tuple(one for one in queues if one == topic or owner.topic_of(one) == topic)


def remember(owner: OwnerState, queues: Sequence[int], incoming: Incoming, first: int) -> None:
    """The queues take messages, numbered from `first` on, which later deltas are merged into."""
    for number in queues:
        for feature, rule in owner.rules_of(number).merge:
            queue = owner.queues.get(number)
            if queue is not None:
                rule.taken(queue.lifecycle.shares.get(feature), incoming, first)
