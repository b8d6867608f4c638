"""Targets that a queue keeps for the links of clients that send: which link has a target, and which
deliveries have come on it (docs/decisions/0048-targets-that-are-kept.md). Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cluster.owner.state import OwnerState
from cluster.peers.link_messages import FOR_LINK, NOT_FOUND
from node.delivery.link_terms import KEPT_S_OCTETS, link_terms
from node.queue.decision_format import encode_target
from node.queue.dispatch import QueueOwner
from node.queue.targets import TargetStep, UpdateTarget

WhenConcluded = Callable[[UpdateTarget, Callable[[], None]], None]
"""Calls back once no transaction with deliveries for the target of a step is prepared any more."""


def attach_target(
    owner: OwnerState, step: UpdateTarget, concluded: WhenConcluded, answer: Callable[[Any], None]
) -> None:
    """A link of a client that sends is attached. Answers `FOR_LINK` and the tags of the deliveries that have
    come on the link and that the client has not settled, or None where the queue keeps no target.

    Publishes on a link that had the target before are refused from now on. Those that the owner has taken are
    in the log in front of the step, and so among the tags. The answer waits for the outcomes of transactions
    that are prepared with deliveries of the link.
    """
    if step.queue not in owner.queues:
        answer(NOT_FOUND)
        return
    targets = owner.queues[step.queue].delivery.targets
    keeps = owner.durable and owner.knows_targets() and len(step.link) > KEPT_S_OCTETS
    # Publishes on the link go to whichever part is the nearest one.
    keeps = keeps and not owner.described(step.queue).shared
    if not keeps or not targets.has_room(link_terms(step.link).identity):
        answer(None)
        return
    former = targets.attached_by(link_terms(step.link).identity)
    targets.takes(step)
    if former != (step.front_end, step.number):
        _tell_lost(owner, *former)
    owner.decision(encode_target(step))
    attached = partial(owner.after_proposed, partial(_attached, owner, step, answer))
    owner.after_proposed(partial(concluded, step, attached))


def _attached(owner: OwnerState, step: UpdateTarget, answer: Callable[[Any], None]) -> None:
    """The log has the step, and the outcomes of earlier transactions."""
    state = owner.machine.queues.get(step.queue)
    targets = None if state is None else state.targets
    target = None if targets is None else targets.find(link_terms(step.link).identity)
    # A link that is attached elsewhere by now hears that with its first publish.
    answer(NOT_FOUND if target is None else [FOR_LINK, list(target.tags)])


def takes_step(owner: OwnerState, front_end: int, step: UpdateTarget) -> bool:
    """Whether the link of a front end's step has its target."""
    queue = owner.queues.get(step.queue)
    if queue is None or step.front_end != front_end or step.step is TargetStep.ATTACHED:
        return False
    owner.mark(step.queue)
    taken = queue.delivery.targets.takes(step)
    if not taken and step.step in (TargetStep.RECEIVED, TargetStep.COMMITTED):
        # The front end may have missed it. It must know before it hears that messages are refused.
        _tell_lost(owner, front_end, step.number)
    return taken


def _tell_lost(owner: OwnerState, front_end: int, number: int) -> None:
    """Tell a front end that a link has lost its target."""
    state = owner.front_ends.current(front_end)
    if state is not None:
        state.port.consumer_cancelled(state.epoch, number, stolen=True)


def close_overdue(owner: OwnerState, number: int, queue: QueueOwner, now: int) -> None:
    """Close the targets whose time is over; `now` is in milliseconds since the epoch."""
    for step in queue.delivery.targets.overdue(number, now):
        owner.decision(encode_target(step))
