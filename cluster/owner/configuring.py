"""Gives an existing queue new settings, when policies change or an owner takes over."""

from __future__ import annotations

from functools import partial

from cluster.owner.feature_context import QueueContext
from cluster.owner.state import OwnerState
from node.queue.dispatch import QueueOwner
from node.queue.settings import QueueSettings


def configure(owner: OwnerState, number: int, settings: QueueSettings) -> None:
    """Give a queue its settings, which policies may have changed.

    The queue changes once all messages that the owner has taken before are in it: it treats all of them
    alike.
    """
    owner.paging.settings_known(number, settings)
    known = owner.known_settings(number)
    if not owner.active or known is None or known == settings:
        return
    owner.set_settings(number, settings)
    owner.unused_queues.watch(number, owner.described(number).unused_ms, owner.now)
    owner.after_proposed(partial(reconfigure, owner, number))


def reconfigure(owner: OwnerState, number: int) -> None:
    """Have the features of a queue look at its settings, and at all its messages, anew."""
    queue = owner.queues.get(number)
    if queue is not None and owner.known_settings(number) is not None:
        queue.lifecycle.reconfigure(owner.settings_of(number))
        take_over(owner, number, queue)
        owner.serve_again(number)


def take_over(owner: OwnerState, number: int, queue: QueueOwner) -> None:
    """Let features work on the messages that came in under other settings, or under a former owner."""
    for feature in queue.lifecycle.hooks.take_over:
        feature.take_over(QueueContext(owner, number))
