"""Requests about the parts of queues with several owners, of front ends and of other parts' owners. Pure."""

from __future__ import annotations

from typing import Any, Final

from cluster.owner.closing_parts import ClosingParts
from cluster.owner.loans import Loans

NO_ROOM: Final = (0, 0, 0)
"""In the place of the partition, the queue and the room of the owner that asks: it takes its question back.
"""


class PartRequests:
    """The requests to the owner of one partition."""

    def __init__(self, loans: Loans, closing: ClosingParts) -> None:
        self._loans, self._closing = loans, closing

    def take(self, front_end: int, epoch: int, request: int, name: str, arguments: list[Any]) -> bool:
        """Carry a request out, if it is such a one. Returns whether it is."""
        match name:
            case "lend":
                self._loans.asked(front_end, request, *arguments)
            case "lend_nothing":
                self._loans.asked(front_end, request, arguments[0], *NO_ROOM)
            case "lend_by_filter":
                self._loans.by_filter.asked(front_end, request, *arguments)
            case "publishes_no_more":
                self._closing.publishes_no_more(front_end, epoch, request, *arguments)
            case "tell_transfers":
                self._closing.tell_transfers(front_end, request, *arguments)
            case "barrier_placed" | "barrier_settled" | "barrier_released":
                self._loans.barriers.asked(name, front_end, request, *arguments)
            case _:
                return False
        return True
