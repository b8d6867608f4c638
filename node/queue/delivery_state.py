"""The place of each message of a queue, as the queue's owner knows it: plain data, which features read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import Enum

from node.delivery.backlog import NO_BACKLOG
from node.delivery.settlements import NO_TOKEN
from node.message.reason import Reason
from node.queue.annotations import Annotations
from node.queue.attached_targets import AttachedTargets
from node.queue.consumers import Consumers
from node.queue.filtering import FilteredOrder
from node.queue.leases import TERM_SHIFT, Leases
from node.queue.link_leases import LinkLeases
from node.queue.lost_leases import LostLeases
from node.queue.operations import LINKS, OWNER, TAKES, Aspect, Semantics
from node.queue.order import Order, ReadyByAge
from node.queue.queue import QueueState
from node.queue.schedule import Schedule
from node.queue.settings import QueueSettings
from node.queue.transient import SoftMessages
from node.queue.viewed import ViewedMessages
from node.ranges.cold import ColdSpace
from node.ranges.range_map import ABOVE_ALL, Span
from node.ranges.range_set import Range, RangeSet


@dataclass(slots=True)
class Tally:
    """Counters of a queue's messages, by event. They count ranges, never single messages.

    Messages that left by basic.get, and messages without acknowledgement, have counters of their own.
    """

    published: int = 0
    delivered: int = 0
    delivered_no_ack: int = 0
    got: int = 0
    got_no_ack: int = 0
    redelivered: int = 0
    acknowledged: int = 0
    got_empty: int = 0
    """The number of times that basic.get found no message."""
    duplicates: int = 0
    """Messages dropped because the queue had seen their id (queue argument x-deduplication-window)."""

    left_out: int = 0
    """Messages that the queue's filter kept out (queue argument x-filter)."""
    unreadable: int = 0
    """Times that a filter asked for the body of a message and could not read it."""

    replaced: int = 0
    """Messages that left because a newer one has their key (queue argument x-key)."""
    refused: int = 0
    """Messages that the full queue refused (queue argument x-overflow)."""
    dead_rejected: int = 0
    dead_expired: int = 0
    dead_maxlen: int = 0
    dead_delivery_limit: int = 0
    """Messages discarded as dead letters, by reason."""
    discarded_rejected: int = 0
    discarded_expired: int = 0
    discarded_maxlen: int = 0
    discarded_delivery_limit: int = 0
    """Messages discarded without a dead-letter exchange, by reason."""

    def add(self, other: Tally) -> None:
        """Add the counts of a deleted queue."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def discarded(self, reason: Reason, count: int, *, dead_letters: bool) -> None:
        """The queue has discarded `count` messages, as dead letters or for good."""
        name = f"{'dead' if dead_letters else 'discarded'}_{reason.name.lower()}"
        setattr(self, name, getattr(self, name) + count)

    def served(self, count: int, *, by_get: bool, no_ack: bool, redelivered: bool) -> None:
        """The queue has delivered `count` messages to one consumer."""
        if redelivered:
            self.redelivered += count
        if by_get:
            self.got += 0 if no_ack else count
            self.got_no_ack += count if no_ack else 0
        elif no_ack:
            self.delivered_no_ack += count
        else:
            self.delivered += count


class Fairness(Enum):
    """Which consumer of a line gets the next message."""

    FAST = 1
    """The first one that is found to have room."""

    ROUND_ROBIN = 2
    """Each in turn, as far as it has room."""

    PROPORTIONAL = 3
    """The one with the largest unused share (`node.queue.fairness`)."""


class DeliveryState:
    """One queue's messages by place, and its consumers. `node.queue.life` has the transitions.

    `leases` has the leased messages by front end, `links` those of them that are leased to links, `lost` the
    messages of leases that were given to others while the front end was out of reach. `timed` has the leases
    with tokens and deadlines; None where no feature asks for them. `now` is the time of the current turn for
    their deadlines, in milliseconds since the epoch. `awaited` are the front ends that may have the messages
    in `held`. `granted` is the newest message that an owner has ever delivered. `token` is that of the newest
    lease in `timed`: the term of the owner, and below it a count. `filtered` is `ready` where a consumer has
    a filter, and None elsewhere. `views` are the views over the queue; None without one. `term` is the
    owner's term. `fresh`: no former owner can have leased a message of the queue. `backlog_cap` is the cap on
    the backlogs of consumers (`node.delivery.backlog`).
    `deepest` is the last message that the queue shows (`node.queue.features.target_depth`), and `offered_to`
    the last one that consumers may get (`node.queue.features.barrier`). `offered_beyond` are messages behind
    that one which they may get all the same (`node.queue.part_barriers`).
    """

    __slots__ = (
        "annotations",
        "awaited",
        "backlog_cap",
        "consumers",
        "deepest",
        "fairness",
        "filtered",
        "fresh",
        "granted",
        "held",
        "leases",
        "links",
        "lost",
        "now",
        "offered_beyond",
        "offered_to",
        "ready",
        "redelivered",
        "scheduled",
        "settings",
        "settling",
        "soft",
        "state",
        "tally",
        "targets",
        "term",
        "timed",
        "token",
        "views",
    )

    def __init__(
        self,
        state: QueueState,
        settings: QueueSettings,
        term: int,
        fresh: bool,
        space: ColdSpace | None = None,
    ) -> None:
        """`space`: see `Annotations.space`."""
        self.state, self.settings = state, settings
        self.term, self.fresh = term, fresh
        self.soft = SoftMessages()
        self.annotations = Annotations(state.annotations, self.soft.values, space)
        self.consumers = Consumers()
        self.fairness, self.backlog_cap = Fairness.ROUND_ROBIN, NO_BACKLOG
        self.deepest = self.offered_to = ABOVE_ALL
        self.offered_beyond: list[Range] = []
        self.ready: Order = ReadyByAge(RangeSet())
        self.filtered: FilteredOrder | None = None
        self.views: ViewedMessages | None = None
        self.scheduled: Schedule | None = None
        self.held = RangeSet()
        self.leases: dict[int, RangeSet] = {}
        self.links = LinkLeases(state.remarks, self.leases, self.consumers)
        self.lost = LostLeases()
        self.targets = AttachedTargets(state)
        self.settling = RangeSet()
        """Messages that are leased, and that a consumer which has lost them has settled: they do not go back
        to the queue, also where their settlement is applied later than their return.
        """
        self.timed: Leases | None = None
        self.token = term << TERM_SHIFT
        self.now = 0
        self.awaited: set[int] = set()
        self.redelivered = state.returned.copy()
        self.granted = 0
        self.tally = Tally()

    @property
    def scheduled_count(self) -> int:
        return 0 if self.scheduled is None else len(self.scheduled)

    @property
    def waiting_count(self) -> int:
        """The number of ready and held messages."""
        return len(self.ready) + len(self.held)

    @property
    def leased_count(self) -> int:
        """The number of leased messages, with those being removed before their delivery."""
        return sum(map(len, self.leases.values()))

    def offered(self) -> Iterator[Range]:
        """The ready messages that consumers may get, as far as barriers and the depth of the queue say."""
        if self.offered_to == ABOVE_ALL:
            yield from self.ready.ranges()
        else:
            yield from self.ready.intersection(0, self.offered_to)
            yield from self.ready_beyond()

    def ready_beyond(self) -> Iterator[Range]:
        """The ready messages of `offered_beyond`."""
        return (part for one in self.offered_beyond for part in self.ready.intersection(*one))

    def lease_of(self, front_end: int) -> RangeSet:
        """The messages leased to the front end. The caller may change the set."""
        lease = self.leases.get(front_end)
        if lease is None:
            lease = self.leases[front_end] = RangeSet()
        return lease

    def newest_delivered(self, parts: list[Range]) -> int:
        """The newest message that a consumer may have got, where the messages of the parts, which are the
        messages of a place in a range, have come to no consumer since their last return.
        """
        for first, last in parts:
            if first <= self.granted <= last:
                before = self.redelivered.intersection(first, self.granted)
                return before[-1][1] if before else first - 1
        return self.granted

    def given_out(self, last: int) -> None:
        """A former owner has leased message `last`, and all older ones where the queue's order is by age."""
        if self.ready.by_age and not self.annotations.logged(Aspect.DUE):
            self.granted = max(self.granted, last)

    def leased(self, front_end: int, first: int, last: int) -> list[Range]:
        """The messages of the range that are leased to the front end, or held."""
        lease = self.leases.get(front_end)
        return (lease.intersection(first, last) if lease else []) + self.held.intersection(first, last)

    @property
    def looks_at_settlements(self) -> bool:
        """Whether the owner has to look at each message that a front end settles or gives back: leases have
        tokens, messages have remarks, or will have, or are held for readers.
        """
        remarks = bool(self.state.remarks or self.links.leasing)
        return self.timed is not None or remarks or bool(self.leases.get(TAKES))

    def settleable(self, front_end: int, ranges: list[Range], token: int = NO_TOKEN) -> list[Range]:
        """The messages that the front end may settle: none that is held for a reader. Where leases have
        tokens, no message under a lease of another front end, or, with a `token`, under a lease with another
        token.
        """
        found = ranges if self.timed is None else self.timed.settleable(front_end, ranges, token)
        return self._untaken(front_end, found)

    def _untaken(self, front_end: int, ranges: list[Range]) -> list[Range]:
        """The messages of the ranges but those that are held for readers."""
        taken = self.leases.get(TAKES)
        if not taken or front_end == TAKES:
            return ranges
        held = [part for one in ranges for part in taken.intersection(*one)]
        return list(RangeSet(ranges).without(held).ranges()) if held else ranges

    def returnable(self, front_end: int, ranges: list[Range], token: int = NO_TOKEN) -> list[Range]:
        """The messages that the front end can give back. No message that is leased to a link which the front
        end has lost, or held for a reader. Where leases have tokens, no message under a lease with another
        token, and no message whose lease has lapsed: the owner gives these back itself, and counts the failed
        delivery itself.
        """
        ranges = self._untaken(front_end, ranges)
        if self.timed is None:
            return self.unlinked(front_end, ranges)
        mine = self.timed.settleable(front_end, ranges, token)
        parts = RangeSet(part for one in mine for part in self.leased(front_end, *one))
        return list(parts.without(self.timed.lapsing.ranges()).ranges())

    def unlinked(self, front_end: int, ranges: list[Range]) -> list[Range]:
        """The messages of the ranges but those that are leased to links, and that the front end has not. A
        return behind the lease of a message would end the lease in the log.
        """
        if not self.links.any():
            return ranges
        lost = RangeSet(self.links.promised(ranges))
        for one in ranges:
            lost.remove_all(self.had_by(front_end, *one))
        return list(RangeSet(ranges).without(lost.ranges()).ranges()) if lost else ranges

    def had_by(self, front_end: int, first: int, last: int) -> list[Range]:
        """The messages of the range that the front end has, also those of which this owner does not know yet
        that the front end has them.
        """
        return self.leased(front_end, first, last) + self.links.kept_for(front_end, first, last)

    def hold_taken(self) -> RangeSet:
        """Hold a new owner's messages for the readers that have taken them; returns these."""
        taken = self.state.taken()
        if taken:
            self.leases[TAKES] = taken.copy()
        return taken

    def keep_for_links(self, messages: RangeSet) -> list[Range]:
        """Keep those of a new owner's messages for their links that are leased to links; returns them."""
        if self.state.semantics is Semantics.AT_MOST_ONCE or not self.links.any():
            return []
        kept = [part for one in messages.ranges() for part in self.links.linked([one])]
        self.links.add_kept(kept)
        return kept

    def find_waiting(self, front_end: int, first: int, last: int) -> list[Range]:
        """Take messages that a front end reports as its leases out of held, ready and scheduled ones, and out
        of those that are kept for its links. Returns them.

        Held messages are ready, or leased to another front end, once the time limit is over. A message that
        was due by the former owner's clock is scheduled while it is not due by this owner's.
        """
        found = self.held.intersection(first, last) + self.ready.intersection(first, last)
        if self.scheduled is not None:
            found += self.scheduled.intersection(first, last)
        for part in found:
            self.held.remove(*part)
            self.ready.remove(*part)
            self.unschedule(*part)
        if found and front_end != OWNER:
            self.given_out(max(found)[1])
        mine = self.links.kept_for(front_end, first, last)
        if mine:
            self.leases[LINKS].remove_all(mine)
        return found + mine

    def unschedule(self, first: int, last: int) -> int:
        """Take messages out of the schedule; return how many were in it."""
        if self.scheduled is None:
            return 0
        self.ready.rested(first, last)
        return self.scheduled.remove(first, last)

    def leased_elsewhere(self, front_end: int, ranges: list[Range]) -> list[Range]:
        """The messages of the ranges that the queue still has, and that a front end tells as its leases while
        other front ends have the leases by now.
        """
        if self.state.semantics is Semantics.AT_MOST_ONCE:
            return []
        found = RangeSet()
        for other, lease in self.leases.items():
            if other != front_end and other != OWNER:
                found.update(part for one in ranges for part in lease.intersection(*one))
        living = RangeSet(part for one in found.ranges() for part in self.state.alive.intersection(*one))
        living.update(part for one in found.ranges() for part in self.soft.numbers.intersection(*one))
        return list(living.ranges())

    def unleased(self, ranges: list[Range]) -> list[Range]:
        """The messages of the ranges that no front end has. A consumer may still have a message that another
        one has settled, which had lost its lease.
        """
        left = RangeSet(ranges)
        for lease in self.leases.values():
            left.remove_all([part for one in ranges for part in lease.intersection(*one)])
        return list(left.ranges())

    def gone(self, front_end: int, ranges: list[Range]) -> list[Range]:
        """The messages of the ranges that are leased to the front end, and that the queue does not have any
        more.
        """
        lease = self.leases.get(front_end) or RangeSet()
        left = RangeSet(part for one in ranges for part in lease.intersection(*one))
        for there in (self.state.alive, self.soft.numbers):
            left.remove_all([part for one in left.ranges() for part in there.intersection(*one)])
        return list(left.ranges())

    def failures(self, first: int, last: int) -> list[Span]:
        """The failed deliveries of each message of a range, as spans. All messages of the range are soft, or
        none.
        """
        if self.soft.numbers.intersection(first, last):
            return self.soft.failures.cover(first, last)
        return self.state.failure_spans(first, last)
