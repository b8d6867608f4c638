"""Where each message of a queue is, as the queue's owner knows, as plain data: what features look at."""

from __future__ import annotations

from node.queue.annotations import Annotations
from node.queue.consumers import Consumers
from node.queue.counters import Tally
from node.queue.leases import Leases
from node.queue.operations import Aspect
from node.queue.order import Order, ReadyByAge
from node.queue.queue import QueueState
from node.queue.schedule import Schedule
from node.queue.settings import QueueSettings
from node.queue.transient import SoftMessages
from node.ranges.range_map import Span
from node.ranges.range_set import Range, RangeSet


class DeliveryState:
    """One queue's messages by place, and its consumers. `node.queue.life` has the transitions.

    `leases` by front end; `timed` are leases with tokens and deadlines, None where no feature asks for such,
    and `now` is then the time of the turn that hands messages out: wall clock, in milliseconds. `awaited` are
    the front ends that may hold what is `held`; `granted` is the newest message that was ever given out.
    `term` is the owner's; `fresh`: nothing of the queue can have been leased
    before this owner.
    """

    __slots__ = (
        "annotations", "awaited", "consumers", "fresh", "granted", "held", "leases", "now", "ready",
        "redelivered", "scheduled", "settings", "soft", "state", "tally", "term", "timed",
    )  # fmt: skip

    def __init__(self, state: QueueState, settings: QueueSettings, term: int, fresh: bool) -> None:
        self.state, self.settings = state, settings
        self.term, self.fresh = term, fresh
        self.soft = SoftMessages()
        self.annotations = Annotations(state.annotations, self.soft.values)
        self.consumers = Consumers()
        self.ready: Order = ReadyByAge(RangeSet())
        self.scheduled: Schedule | None = None
        self.held = RangeSet()
        self.leases: dict[int, RangeSet] = {}
        self.timed: Leases | None = None
        self.now = 0
        self.awaited: set[int] = set()
        self.redelivered = state.returned.copy()
        self.granted = 0
        self.tally = Tally()

    def living(self, first: int, last: int) -> RangeSet:
        """Messages that are alive and not about to go elsewhere."""
        dead = self.annotations.logged(Aspect.DEATH).spans(first, last)
        return self.state.shown(first, last).without((start, end) for start, end, _ in dead)

    @property
    def scheduled_count(self) -> int:
        return 0 if self.scheduled is None else len(self.scheduled)

    @property
    def waiting_count(self) -> int:
        """Messages that are with no consumer, as far as is known, and wait for no time: ready ones, and held
        ones.
        """
        return len(self.ready) + len(self.held)

    @property
    def leased_count(self) -> int:
        """Messages given to consumers and not settled."""
        return sum(map(len, self.leases.values()))

    def lease_of(self, front_end: int) -> RangeSet:
        """The messages that the front end has; the caller may change them."""
        lease = self.leases.get(front_end)
        if lease is None:
            lease = self.leases[front_end] = RangeSet()
        return lease

    def leased(self, front_end: int, first: int, last: int) -> list[Range]:
        """Those of the range that the front end has, or may have."""
        lease = self.leases.get(front_end)
        return (lease.intersection(first, last) if lease else []) + self.held.intersection(first, last)

    def failures(self, first: int, last: int) -> list[Span]:
        """How often delivery of the messages has failed; of a range that is soft throughout, or nowhere."""
        if self.soft.numbers.intersection(first, last):
            return self.soft.failures.cover(first, last)
        return self.state.failure_spans(first, last)
