"""Drains the credit of consumers (AMQP 1.0, part 2 §2.6.7).

The owner delivers the messages that are ready, takes the credit away that is left, and then answers. A new
owner gets the question again, like every request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cluster.gateway.link import Links, PartitionLink
from cluster.gateway.state import LinkConsumer
from cluster.peers.link_messages import NOT_FOUND, NOTHING_TO_GET

Drained = Callable[[], None]


class Drains:
    """The drains of one front end's consumers."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._last = 0

    def drain(self, link: PartitionLink, queue: int, consumer: int, limit: int, done: Drained) -> None:
        """See `node.session.ports.BrokerPort.drain`."""
        attached = link.consumers.get(consumer)
        if attached is None:
            done()
            return
        link.credit(consumer, limit)
        self._last += 1
        attached.drain = self._last
        answered = partial(self._answered, link, attached, self._last, done)
        if link.unreachable:
            answered()
            return
        # The link has nothing left to tell the owner of this consumer, which could undo the drain.
        link.flush_waiting()
        self._links.request(link, "drain", [*NOTHING_TO_GET, queue, consumer, limit], answered)

    def _answered(
        self,
        link: PartitionLink,
        attached: LinkConsumer,
        drain: int,
        done: Drained,
        value: Any = None,
        _: object = None,
    ) -> None:
        ended = partial(_ended, link, attached, drain, done)
        if value != NOT_FOUND or attached.drain != drain:
            ended()
            return
        # An owner of the release before does not know the question. The owner counts the queue's messages
        # after it has taken the credit away, and answers behind all deliveries.
        link.credit(attached.id, attached.delivered)
        attached.drain = drain
        link.flush_waiting()
        self._links.request(link, "count", [attached.queue], ended)


def _ended(
    link: PartitionLink,
    attached: LinkConsumer,
    drain: int,
    done: Drained,
    _value: object = None,
    _delivery: object = None,
) -> None:
    """The owner has taken the credit away. The consumer's session may have given credit meanwhile, which the
    owner then has to be told again.
    """
    if attached.drain == drain:
        attached.drain = 0
        attached.limit = attached.told = attached.delivered
    elif not attached.drain:
        wanted, attached.limit = attached.limit, attached.delivered
        attached.told = attached.delivered
        link.credit(attached.id, wanted)
    done()
