"""Finds the queue that keeps the messages of a link, whose client does not name the queue."""

from __future__ import annotations

from typing import Any

from cluster.catalog.definitions import PartitionKind
from cluster.catalog.state import CatalogState
from cluster.gateway.link import Links
from cluster.peers.link_messages import NOTHING_TO_GET, Delivery
from node.session.link_port import LinkFound


class FindingLinks:
    """Asks the owners of all partitions whose queues may keep messages for links. A `LinkPort`."""

    def __init__(self, state: CatalogState, links: Links) -> None:
        self._state, self._links = state, links

    def find(self, vhost: str, identity: bytes, answer: LinkFound) -> None:
        """See `node.session.link_port.LinkPort`."""
        asked = [
            number
            for number, partition in self._state.partitions.items()
            if partition.kind is not PartitionKind.TRANSIENT
        ]
        _Search(self._state, vhost, len(asked), answer).ask(self._links, asked, identity)


class _Search:
    """One search. The first owner that has the link ends it."""

    def __init__(self, state: CatalogState, vhost: str, left: int, answer: LinkFound) -> None:
        self._state, self._vhost, self._left, self._answer = state, vhost, left, answer

    def ask(self, links: Links, partitions: list[int], identity: bytes) -> None:
        if not partitions:
            self._answer(None, 0)
        for number in partitions:
            # An owner of an earlier release answers that there is no such queue.
            links.request(links.to(number), "find_link", [*NOTHING_TO_GET, 0, identity], self._told)

    def _told(self, value: Any, _: Delivery | None) -> None:
        if self._left <= 0:
            return
        self._left -= 1
        found = self._state.queues_by_id.get(value[0]) if isinstance(value, list | tuple) else None
        if found is not None and found.vhost == self._vhost:
            self._left = 0
            self._answer(found.name, value[1])
        elif not self._left:
            self._answer(None, 0)
