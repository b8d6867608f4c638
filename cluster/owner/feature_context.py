"""The owner as features of one queue see it. Pure."""

from __future__ import annotations

from collections.abc import Callable

from cluster.owner.barriers import release_barrier, show_barrier
from cluster.owner.discarding import discard, remove_replaced
from cluster.owner.readers import held_from
from cluster.owner.state import OwnerState
from node.message.reason import Reason
from node.message.run import Run
from node.queue.consumers import Consumer
from node.ranges.range_set import Range

Act = Callable[[int], None]
"""Does something for a queue, by its number."""


class QueueContext:
    """Implements `node.queue.feature.FeatureContext` for a queue in `OwnerState.queues`."""

    def __init__(
        self, owner: OwnerState, number: int, lend: Act = lambda number: None, feed: Act = lambda number: None
    ) -> None:
        """`lend`, `feed`: see `cluster.owner.serving.serve`; they do nothing but behind a dispatch."""
        self._owner, self._number, self._lend, self._feed = owner, number, lend, feed

    @property
    def number(self) -> int:
        return self._number

    def wall_ms(self) -> int:
        return self._owner.wall_ms()

    def settings_fresh(self) -> bool:
        fresh = self._owner.catalog_fresh()
        if not fresh:
            self._owner.stale.add(self._number)
        return fresh

    def log(self, operation: bytes) -> None:
        self._owner.operation(operation)

    def log_behind(self, operation: bytes) -> None:
        self._owner.proposal.add_decision(operation)

    def wake(self, at_ms: int) -> None:
        self._owner.alarms.set(self._number, at_ms)

    def serve_again(self) -> None:
        self._owner.serve_again(self._number)

    def discard(self, ranges: list[Range], reason: Reason) -> None:
        discard(self._owner, self._number, self._owner.queues[self._number], ranges, reason)

    def held_from(self) -> int:
        return held_from(self._owner, self._number)

    def remove_replaced(self, ranges: list[Range]) -> None:
        remove_replaced(self._owner, self._number, self._owner.queues[self._number], ranges)

    def contents(self, first: int, last: int) -> list[tuple[int, Run]]:
        return self._owner.contents(first, last)

    def release_barrier(self, number: int) -> None:
        release_barrier(self._owner, self._number, number)

    def show_to_all(self, number: int) -> None:
        show_barrier(self._owner, self._number, number)

    def lend(self) -> None:
        self._lend(self._number)

    def feed(self) -> None:
        self._feed(self._number)

    def tell_activity(self, consumer: Consumer) -> None:
        state = self._owner.front_ends.current(consumer.front_end)
        if state is not None:
            state.port.activity(state.epoch, consumer.number, consumer.joined, consumer.activated)
