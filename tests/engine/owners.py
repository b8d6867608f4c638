"""Queue owners for the tests of dispatching."""

from __future__ import annotations

from node.engine.dispatch import QueueOwner
from node.engine.grants import Grant
from node.engine.operations import Semantics
from node.engine.queue import QueueState

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


def owner_with(messages: int, semantics: Semantics = Semantics.AT_LEAST_ONCE) -> QueueOwner:
    return QueueOwner(state_with(messages, semantics=semantics), fresh=True)


def attach(
    owner: QueueOwner, front_end: int, consumer: int = 1, limit: int = UNLIMITED, **terms: object
) -> None:
    owner.consumers.attach(front_end, consumer, **terms)
    owner.consumers.credit(front_end, consumer, limit)


def got(grants: list[Grant]) -> list[tuple[int, int, int, int]]:
    return [grant[:4] for grant in grants]
