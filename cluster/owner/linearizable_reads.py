"""Answers of an owner that no entry confirms, and deeds on the word that it leads: counts, pages, that a
queue is empty, and the messages of a link. Pure.

A successor may commit while this owner still has its lease. So the owner goes on only once a majority has
confirmed, in a round of heartbeats that began after the question came, that this owner leads (Raft thesis
§6.4): no successor had committed anything when the question came.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cluster.owner.proposal import FrontEnds


class LinearizableReads:
    """The answers of one owner that are not confirmed yet."""

    def __init__(
        self, partition: int, confirm_leading: Callable[[int, int], bool], front_ends: FrontEnds
    ) -> None:
        """`confirm_leading`: see `cluster.owner.context.OwnerContext`."""
        self._partition, self._confirm_leading, self._front_ends = partition, confirm_leading, front_ends
        self._waiting: dict[int, Callable[[], None]] = {}
        self._last = 0

    def clear(self) -> None:
        """The owner does not lead any more: front ends ask its successor."""
        self._waiting.clear()

    def answer(self, front_end: int, request: int, value: Any) -> None:
        """Answer a front end's request once a majority has confirmed that this owner leads. A front end that
        has been lost or has greeted again meanwhile gets no answer.
        """
        epoch = self._front_ends.epoch(front_end)
        if epoch is not None:
            self.when_confirmed(partial(self._answer, front_end, epoch, request, value))

    def _answer(self, front_end: int, epoch: int, request: int, value: Any) -> None:
        # A front end that has greeted again has sent its request again.
        if self._front_ends.greeted(front_end, epoch):
            self._front_ends.answer(front_end, request, value)

    def when_confirmed(self, leads: Callable[[], None]) -> None:
        """Call `leads` once a majority has confirmed that this owner leads."""
        # A number is used once: a confirmation that comes after `clear` finds no callback.
        self._last += 1
        self._waiting[self._last] = leads
        if self._confirm_leading(self._partition, self._last):
            self.confirmed(self._last)

    def confirmed(self, number: int) -> None:
        """A majority has confirmed that this replica led after callback number `number` was given."""
        leads = self._waiting.pop(number, None)
        if leads is not None:
            leads()
