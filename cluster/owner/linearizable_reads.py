"""Answers of an owner that no entry confirms: counts, pages, and that a queue is empty. Pure.

A successor may commit while this owner still has its lease. So the owner sends such an answer only once a
majority has confirmed, in a round of heartbeats that began after the answer was found, that this owner leads
(Raft thesis §6.4): no successor had committed anything when the answer was found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cluster.owner.proposal import FrontEnds


class Found(NamedTuple):
    """The answer to a front end's request in an epoch."""

    front_end: int
    epoch: int
    request: int
    value: Any


class LinearizableReads:
    """The answers of one owner that are not confirmed yet."""

    def __init__(
        self, partition: int, confirm_leading: Callable[[int, int], bool], front_ends: FrontEnds
    ) -> None:
        """`confirm_leading`: see `cluster.owner.context.OwnerContext`."""
        self._partition, self._confirm_leading, self._front_ends = partition, confirm_leading, front_ends
        self._waiting: dict[int, Found] = {}
        self._last = 0

    def clear(self) -> None:
        """The owner does not lead any more: front ends ask its successor."""
        self._waiting.clear()

    def answer(self, front_end: int, request: int, value: Any) -> None:
        """Answer a front end's request once a majority has confirmed that this owner leads. A front end that
        has been lost or has greeted again meanwhile gets no answer.
        """
        epoch = self._front_ends.epoch(front_end)
        if epoch is None:
            return
        # A number is used once: a confirmation that comes after `clear` finds no answer.
        self._last += 1
        self._waiting[self._last] = Found(front_end, epoch, request, value)
        if self._confirm_leading(self._partition, self._last):
            self.confirmed(self._last)

    def confirmed(self, number: int) -> None:
        """A majority has confirmed that this replica led after `answer` number `number` was found."""
        found = self._waiting.pop(number, None)
        # A front end that has greeted again has sent its request again.
        if found is not None and self._front_ends.greeted(found.front_end, found.epoch):
            self._front_ends.answer(found.front_end, found.request, found.value)
