"""Where each message of a queue is, as the queue's owner knows, as plain data: what features look at."""

from __future__ import annotations

from dataclasses import dataclass, fields

from node.message.reason import Reason
from node.queue.annotations import Annotations
from node.queue.consumers import Consumers
from node.queue.leases import Leases
from node.queue.operations import Aspect
from node.queue.order import Order, ReadyByAge
from node.queue.queue import QueueState
from node.queue.schedule import Schedule
from node.queue.settings import QueueSettings
from node.queue.transient import SoftMessages
from node.ranges.range_map import Span
from node.ranges.range_set import Range, RangeSet


@dataclass(slots=True)
class Tally:
    """Messages by what was done with them. Counted by range, never one by one.

    What left by basic.get is counted apart from deliveries, and so is what needs no acknowledgement.
    """

    published: int = 0
    delivered: int = 0
    delivered_no_ack: int = 0
    got: int = 0
    got_no_ack: int = 0
    redelivered: int = 0
    acknowledged: int = 0
    got_empty: int = 0
    """Times that basic.get found nothing."""
    duplicates: int = 0
    """Messages dropped because their id had been seen (queue argument x-deduplication-window)."""

    refused: int = 0
    """Messages that the queue did not take because it was full (queue argument x-overflow)."""
    dead_rejected: int = 0
    dead_expired: int = 0
    dead_maxlen: int = 0
    dead_delivery_limit: int = 0
    """Given up, and moved to the dead-letter exchange: by reason."""
    discarded_rejected: int = 0
    discarded_expired: int = 0
    discarded_maxlen: int = 0
    discarded_delivery_limit: int = 0
    """Given up for good: by reason."""

    def add(self, other: Tally) -> None:
        """Take over the counts of a queue that is gone."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def discarded(self, reason: Reason, count: int, *, dead_letters: bool) -> None:
        """The queue discards `count` messages, which are dead letters or gone."""
        name = f"{'dead' if dead_letters else 'discarded'}_{reason.name.lower()}"
        setattr(self, name, getattr(self, name) + count)

    def served(self, count: int, *, by_get: bool, no_ack: bool, redelivered: bool) -> None:
        """`count` messages went to one consumer."""
        if redelivered:
            self.redelivered += count
        if by_get:
            self.got += 0 if no_ack else count
            self.got_no_ack += count if no_ack else 0
        elif no_ack:
            self.delivered_no_ack += count
        else:
            self.delivered += count


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
