"""The requests of one front end that the catalog has carried out lately. Pure and deterministic."""

from __future__ import annotations

from collections import deque
from typing import Final

RECENT_REQUESTS: Final = 1024
"""The latest requests of each front end that are remembered, to carry out once a command that comes twice.
All replicas remember the same number, whatever their releases."""


class RecentRequests:
    """The numbers of the latest `RECENT_REQUESTS` requests, in the order in which they came."""

    __slots__ = ("_known", "_order")

    def __init__(self) -> None:
        self._order: deque[int] = deque()
        self._known: set[int] = set()

    def add(self, request: int) -> bool:
        """Remember a request. Returns False, and changes nothing, where the request is known."""
        if request in self._known:
            return False
        self._known.add(request)
        self._order.append(request)
        if len(self._order) > RECENT_REQUESTS:
            self._known.remove(self._order.popleft())
        return True

    def to_plain(self) -> list[int]:
        return list(self._order)
