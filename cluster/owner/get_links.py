"""The links of basic.get at a queue's owner: consumers that have credit while requests wait.

A front end has a link for each kind of get (`cluster.peers.link_messages.GET_LINK` and so on). Gets with a
filter have a link for each filter besides. Such a link stays when its requests are answered, so that the
owner looks at each message once for the next request; of many the owner keeps those used last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import MutableMapping
from typing import Final

from cluster.peers.link_messages import FIRST_CONSUMER, GET_LINK_KEPT, GET_LINK_NO_ACK
from node.expressions.nodes import TreeError
from node.expressions.selector import Selector
from node.queue.consumers import ConsumerKey
from node.queue.dispatch import QueueOwner

GET_KINDS: Final = 4
"""The links of gets without a filter have the numbers below. A link with a filter has a number that is
negative, and its kind as the remainder.
"""

KEPT_LINKS: Final = 8
"""A queue keeps so many links with filters for which no request waits."""


def kind_of_get(link: int) -> int:
    """The kind of a link of gets, by its number. A consumer has its own number."""
    return link if link >= FIRST_CONSUMER else link % GET_KINDS


GetLink = tuple[int, int, bytes]
"""(front end, kind, filter): what makes a link of a queue; the filter is empty for none."""

Waiting = MutableMapping[ConsumerKey, deque[int]]
"""The requests that wait at a queue, by front end and link."""


class GetLinks:
    """The links of gets with filters, by queue."""

    def __init__(self) -> None:
        self._links: dict[int, dict[GetLink, int]] = {}
        self._numbers = 0

    def clear(self) -> None:
        """The owner is deposed."""
        self._links.clear()

    def forget(self, queue: int) -> None:
        """The queue is gone."""
        self._links.pop(queue, None)

    def attached(self, owner: QueueOwner, queue: int, link: GetLink, waiting: Waiting) -> int | None:
        """The number of a link, which is among the queue's consumers. None where the queue has too many
        filters. `waiting` has the requests of the queue.
        """
        front_end, kind, filter = link
        if not filter:
            return _attached(owner, front_end, kind)
        links = self._links.setdefault(queue, {})
        number = links.pop(link, 0)
        if not number or owner.delivery.consumers.get(front_end, number) is None:
            self._make_room(owner, links, waiting)
            try:
                selector = Selector(filter)
            except TreeError:
                # The filter of a later release.
                return None
            if not owner.delivery.consumers.takes_filter(selector):
                return None
            self._numbers += 1
            number = _attached(owner, front_end, kind - GET_KINDS * self._numbers, selector)
        links[link] = number
        return number

    def _make_room(self, owner: QueueOwner, links: dict[GetLink, int], waiting: Waiting) -> None:
        """Detach the links that were used longest ago, but for those with requests."""
        for link, number in list(links.items()):
            key = link[0], number
            if len(links) >= KEPT_LINKS and not waiting.get(key):
                waiting.pop(key, None)
                del links[link]
                owner.delivery.consumers.detach(*key)


def _attached(owner: QueueOwner, front_end: int, link: int, selector: Selector | None = None) -> int:
    """Have a link among the queue's consumers; returns its number."""
    if owner.delivery.consumers.get(front_end, link) is None:
        kind = kind_of_get(link)
        owner.delivery.consumers.attach(
            front_end,
            link,
            no_ack=kind == GET_LINK_NO_ACK,
            counted=False,
            removes_soft=kind == GET_LINK_KEPT,
            selector=selector,
        )
    return link
