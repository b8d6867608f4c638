"""Answers of an owner that rest on no entry of the log: counts, pages, and that a queue has nothing. Pure.

A successor may commit while this owner still has its lease. So each answer leaves once a majority has
confirmed, in a round of heartbeats that began after the answer was found, that this owner leads (Raft thesis
§6.4): no successor had committed anything by then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cluster.owner.proposal import FrontEnds


class Found(NamedTuple):
    """What to answer to a front end's request of an epoch."""

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
        """The owner leads no more: front ends ask its successor."""
        self._waiting.clear()

    def answer(self, front_end: int, request: int, value: Any) -> None:
        """Answer a front end's request, if it is still there, once it is certain that this owner led."""
        epoch = self._front_ends.epoch(front_end)
        if epoch is None:
            return
        # A number is never given again: what is confirmed late finds nothing.
        self._last += 1
        self._waiting[self._last] = Found(front_end, epoch, request, value)
        if self._confirm_leading(self._partition, self._last):
            self.confirmed(self._last)

    def confirmed(self, number: int) -> None:
        """A majority took this replica for the leader after `answer` was called for the `number`th time."""
        found = self._waiting.pop(number, None)
        # A front end that has greeted again has asked again.
        if found is not None and self._front_ends.greeted(found.front_end, found.epoch):
            self._front_ends.answer(found.front_end, found.request, found.value)
