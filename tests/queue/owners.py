"""Queue owners for the tests of dispatching."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from node.queue.dispatch import Grant, QueueOwner
from node.queue.features.file_backed import FILE_BACKED
from node.queue.features.registry import REGISTRY
from node.queue.operations import Annotate, Aspect, Semantics
from node.queue.queue import QueueState
from node.queue.settings import QueueSettings
from node.ranges.range_map import spans_of
from tests.queue.cold_octets import tiny_space

UNLIMITED = 1 << 62
A, B, C = 5, 6, 7
"""Front ends."""


def state_with(
    messages: int,
    mark: int = 10**9,
    semantics: Semantics = Semantics.AT_LEAST_ONCE,
    attached: tuple[int, ...] = (),
) -> QueueState:
    state = QueueState(semantics)
    if messages:
        state.append(1, messages)
    state.mark = mark
    state.attached.update(attached)
    return state


def owner_of(state: QueueState, **terms: Any) -> QueueOwner:
    """The owner of a queue, with the registry of all features. Hardly anything is in memory where the queue's
    settings have a file for ranges and annotations.
    """
    settings = terms.get("settings")
    if settings is not None and FILE_BACKED.of(settings):
        terms["space"] = tiny_space()
    return QueueOwner(state, REGISTRY, **terms)


def owner_with(messages: int, semantics: Semantics = Semantics.AT_LEAST_ONCE) -> QueueOwner:
    return owner_of(state_with(messages, semantics=semantics), fresh=True)


def noted(owner: QueueOwner, aspect: Aspect, values: Sequence[int], first: int = 1) -> None:
    """Annotate messages from `first` on in the log."""
    columns = (array("Q", numbers) for numbers in zip(*spans_of(values, first), strict=True))
    owner.delivery.state.annotate(Annotate(1, aspect, *columns))


def ordered_owner(
    settings: QueueSettings, values: Sequence[int], mark: int = 10**9, attached: tuple[int, ...] = ()
) -> QueueOwner:
    """An owner of messages with these priorities or groups; with attached front ends a new owner."""
    state = state_with(len(values), mark, attached=attached)
    aspect = Aspect.PRIORITY if "max_priority" in settings.asked else Aspect.GROUP
    noted(owner_of(state), aspect, values)
    return owner_of(state, fresh=not attached, settings=settings)


def attach(
    owner: QueueOwner, front_end: int, consumer: int = 1, limit: int = UNLIMITED, **terms: object
) -> None:
    owner.delivery.consumers.attach(front_end, consumer, **terms)
    owner.delivery.consumers.credit(front_end, consumer, limit)


def got(grants: list[Grant]) -> list[tuple[int, int, int, int]]:
    return [(grant.front_end, grant.consumer, *part) for grant in grants for part in grant.ranges]


def marked(grants: list[Grant]) -> list[tuple[int, int, bool]]:
    """(first, last, redelivered) of the grants."""
    return [(*part, grant.redelivered) for grant in grants for part in grant.ranges]
