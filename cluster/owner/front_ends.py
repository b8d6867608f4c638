"""The front ends that have greeted a partition's owner, and what the owner knows of each. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from cluster.owner.proposal import FrontEndState, TakenBatches
from cluster.peers.ports import Delivery


class FrontEnds:
    """`taken` is of all front ends that have greeted and may greet again; `joining` counts, by queue, the
    consumers that wait until the log knows of their front ends. `expected` are front ends that may have had
    consumers of former owners and have not greeted yet.
    """

    def __init__(self) -> None:
        self.greeting: dict[int, FrontEndState] = {}
        self.taken: dict[int, TakenBatches] = {}
        self.joining: Counter[int] = Counter()
        self.expected: set[int] = set()
        self._postponed: list[Callable[[], None]] = []

    def clear(self) -> None:
        """The owner leads no more: whoever leads next is greeted anew."""
        self.greeting, self.taken = {}, {}
        self.expected.clear()
        self._postponed.clear()
        self.joining.clear()

    def known(self) -> set[int]:
        """The front ends that have greeted, also those that are out of reach by now."""
        return set(self.taken)

    def current(self, front_end: int) -> FrontEndState | None:
        """What is known of a front end that has greeted."""
        return self.greeting.get(front_end)

    def state(self, front_end: int, epoch: int) -> FrontEndState | None:
        """The same, if this is the front end's present epoch."""
        state = self.greeting.get(front_end)
        return state if state is not None and state.epoch == epoch else None

    def epoch(self, front_end: int) -> int | None:
        """The present epoch of a front end that has greeted."""
        state = self.greeting.get(front_end)
        return None if state is None else state.epoch

    def greeted(self, front_end: int, epoch: int) -> bool:
        """Whether this is the front end's present epoch."""
        return self.state(front_end, epoch) is not None

    def answer(self, front_end: int, request: int, value: Any, delivery: Delivery | None = None) -> None:
        """Answer a front end's request, if it is still there."""
        state = self.greeting.get(front_end)
        if state is not None:
            state.port.result(state.epoch, request, value, delivery)

    # -- greetings that are awaited -------------------------------------------------------------

    def expect_no_more(self, front_ends: Iterable[int]) -> None:
        """These have greeted, or are given up."""
        self.expected.difference_update(front_ends)
        if not self.expected:
            postponed, self._postponed = self._postponed, []
            for each in postponed:
                each()

    def after_greetings(self, callback: Callable[[], None]) -> None:
        """Call back once the consumers that former owners had are here again, those that there are.

        A new consumer is not let in before: one that comes back may be exclusive.
        """
        if self.expected:
            self._postponed.append(callback)
        else:
            callback()
