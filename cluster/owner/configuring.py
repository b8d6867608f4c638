"""What a queue is asked for changes while it is there: policies have changed, or an owner has."""

from __future__ import annotations

from functools import partial

from cluster.owner.feature_context import QueueContext
from cluster.owner.state import OwnerState
from node.queue.dispatch import QueueOwner
from node.queue.settings import QueueSettings


def configure(owner: OwnerState, number: int, settings: QueueSettings) -> None:
    """Policies have changed what is asked of a queue, or may have.

    Messages that were taken before, and are not in the queue yet, are treated like those that are.
    """
    known = owner.known_settings(number)
    if not owner.active or known is None or known == settings:
        return
    owner.set_settings(number, settings)
    owner.unused_queues.watch(number, owner.described(number).unused_ms, owner.now)
    owner.after_proposed(partial(_reconfigure, owner, number))


def _reconfigure(owner: OwnerState, number: int) -> None:
    queue = owner.queues.get(number)
    if queue is not None and owner.known_settings(number) is not None:
        queue.lifecycle.reconfigure(owner.settings_of(number))
        take_over(owner, number, queue)
        owner.serve_again(number)


def take_over(owner: OwnerState, number: int, queue: QueueOwner) -> None:
    """Messages are there that came in when the queue was asked for something else."""
    for feature in queue.lifecycle.hooks.take_over:
        feature.take_over(QueueContext(owner, number))
