"""Which links have something to send: in this turn, or a few milliseconds later at the latest."""

from __future__ import annotations

from collections.abc import Callable

from cluster.gateway.link import PartitionLink


class LinkTurns:
    """The links of a node that have something for their owners."""

    def __init__(self, wanted: Callable[[], None], waiting: Callable[[], None]) -> None:
        """`wanted` is called when `flush` should be called in this turn, `waiting` when something begins to
        wait for `flush_waiting`.
        """
        self._wanted = wanted
        self._begins_to_wait = waiting
        self._dirty: dict[int, PartitionLink] = {}
        self._waiting: dict[int, PartitionLink] = {}

    def __bool__(self) -> bool:
        return bool(self._dirty)

    def mark_dirty(self, link: PartitionLink) -> None:
        if not self._dirty:
            self._wanted()
        self._dirty[link.partition] = link

    def mark_waiting(self, link: PartitionLink) -> None:
        if not self._waiting:
            self._begins_to_wait()
        self._waiting[link.partition] = link

    def flush(self) -> None:
        """Send what this turn brought."""
        links, self._dirty = self._dirty, {}
        for link in links.values():
            link.flush()

    def flush_waiting(self) -> None:
        """Send what links have kept for something to ride with."""
        links, self._waiting = self._waiting, {}
        for link in links.values():
            link.flush_waiting()
