"""Leases of links: messages that a queue keeps for a link of AMQP 1.0 beyond the life of its connection
(part 2, section 2.6.13; docs/decisions/0047-leases-of-links.md).

The log has which message is leased to which link, by which consumer, before a delivery leaves
(`Subject.LINK`). While the link is attached, its messages are among the leases of its front end, as those of
every consumer. When the link is lost, with its connection or with its node, the queue keeps its messages
under `LINKS`, until the link is attached again, on whichever node, or its time is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from node.delivery.link_terms import LinkLease, LinkTerms, link_lease
from node.queue.consumers import Consumer, Consumers
from node.queue.operations import LINKS, OWNER, TAKES, TRANSACTION
from node.queue.remarks import Remarks, Subject
from node.ranges.octet_map import OctetMap
from node.ranges.range_map import ABOVE_ALL
from node.ranges.range_set import Range, RangeSet

_NO_LINKS: Final = OctetMap()


def linked(remarks: Remarks, ranges: Iterable[Range]) -> list[Range]:
    """The messages of the ranges that are leased to links."""
    places = remarks.get(Subject.LINK, _NO_LINKS).places
    return [(first, last) for one in ranges for first, last, _ in places.spans(*one)]


def _leases(remarks: Remarks) -> Iterator[tuple[int, int, LinkLease]]:
    for first, last, octets in remarks.get(Subject.LINK, _NO_LINKS).all():
        yield first, last, link_lease(octets)


class LinkLeases:
    """The leases of a queue's links, for the queue's owner: soft state, but for what the log has.

    `leases` are those of the queue by front end, and `consumers` its consumers.
    """

    __slots__ = (
        "_changed",
        "_consumers",
        "_deadlines",
        "_leases",
        "_remarks",
        "_unsought",
        "lapsing",
        "leasing",
    )

    def __init__(self, remarks: Remarks, leases: dict[int, RangeSet], consumers: Consumers) -> None:
        self._remarks, self._leases, self._consumers = remarks, leases, consumers
        # The times at which links that are not attached lose their messages, in milliseconds.
        self._deadlines: dict[bytes, int] = {}
        self._changed = False
        # Whether messages are kept since consumers were last looked for that have their links.
        self._unsought = False
        self.lapsing = RangeSet()
        """Messages whose return is on its way to the log: their links get them no more."""
        self.leasing = RangeSet()
        """Messages whose lease to a link is on its way to the log."""

    @property
    def kept(self) -> RangeSet:
        """The messages that the queue keeps for links which are not attached."""
        return self._leases.get(LINKS) or RangeSet()

    def add_kept(self, ranges: Iterable[Range]) -> None:
        """Keep messages that are in no other place."""
        self._leases.setdefault(LINKS, RangeSet()).update(ranges)
        self._changed = self._unsought = True

    def any(self) -> bool:
        """Whether a message is leased to a link, or its lease is on its way to the log."""
        return bool(self.leasing) or Subject.LINK in self._remarks

    def terms_of(self, identity: bytes) -> LinkTerms | None:
        """The terms of a link that has a consumer, or that the log leases messages to; None for others."""
        consumer = self._consumers.of_link(identity)
        if consumer is not None and consumer.link is not None:
            return consumer.link
        return next((one.link for _, _, one in _leases(self._remarks) if one.link.identity == identity), None)

    def linked(self, ranges: Iterable[Range]) -> list[Range]:
        """See `linked`."""
        return linked(self._remarks, ranges)

    def promised(self, ranges: list[Range]) -> list[Range]:
        """The messages of the ranges that are leased to links, or whose lease is on its way to the log."""
        return self.linked(ranges) + [part for one in ranges for part in self.leasing.intersection(*one)]

    def kept_for(self, front_end: int, first: int, last: int) -> list[Range]:
        """The kept messages of a range that their link got last at the front end. Another front end that
        tells such a message has had it before, and has lost the lease.
        """
        kept = self.kept.intersection(first, last)
        return [part for part, lease in self._leases_of(kept) if lease.front_end == front_end]

    def _leases_of(self, ranges: Iterable[Range]) -> list[tuple[Range, LinkLease]]:
        """The leases of those of the messages that are leased to links."""
        held = self._remarks.get(Subject.LINK, _NO_LINKS)
        found = [each for one in ranges for each in held.cover(*one)]
        return [((first, last), link_lease(octets)) for first, last, octets in found if octets]

    def logged_elsewhere(self, link: LinkTerms, front_end: int, consumer: int) -> list[Range]:
        """The messages of a link that the log does not lease in these terms, by this consumer, but those
        whose return is on its way.
        """
        found = RangeSet(
            (first, last)
            for first, last, lease in _leases(self._remarks)
            if lease.link.identity == link.identity and lease != (link, front_end, consumer)
        )
        return list(found.without(self.lapsing.ranges()).ranges())

    def _leased_by(self, front_end: int, consumer: int, identity: bytes) -> list[Range]:
        """The messages that the log leases to a link by this consumer."""
        return [
            (first, last)
            for first, last, lease in _leases(self._remarks)
            if (lease.front_end, lease.consumer, lease.link.identity) == (front_end, consumer, identity)
        ]

    # -- from link to queue, and back -----------------------------------------------------------

    def keep(self, lease: RangeSet, ranges: Iterable[Range]) -> None:
        """Keep the messages of a lease in the ranges that are leased to links: their consumer is lost."""
        mine = RangeSet(part for one in self.linked(ranges) for part in lease.intersection(*one))
        found = list(mine.without(self.lapsing.ranges()).ranges())
        lease.remove_all(found)
        if found:
            self.add_kept(found)

    def abandoned(self, front_end: int, number: int, ranges: list[Range]) -> list[Range]:
        """A consumer is lost that has had these messages: keep those that are leased to its link, unless
        another consumer of the front end has the link by now. Returns the others that the front end has.
        """
        lease = self._leases.get(front_end)
        if lease is None:
            return []
        left = RangeSet(part for one in ranges for part in lease.intersection(*one))
        for part, (link, *_) in self._leases_of(list(left.ranges())):
            left.remove(*part)
            consumer = self._consumers.of_link(link.identity)
            if consumer is None or consumer.front_end != front_end or consumer.number == number:
                self.keep(lease, [part])
        return list(left.ranges())

    def attach(self, consumer: Consumer, *, anew: bool) -> list[Range]:
        """A link has a consumer, which gets the messages that the log leases to the link by the consumer, and
        that the consumer does not have. Returns these.

        `anew`: the link is attached, and has none of its messages. Otherwise its front end has greeted, and
        the consumer has the messages that the front end has told.
        """
        if consumer.link is None:
            return []
        self._deadlines.pop(consumer.link.identity, None)
        consumer.resuming = RangeSet()
        mine = self._leased_by(consumer.front_end, consumer.number, consumer.link.identity)
        for holder, lease in list(self._leases.items()) if anew else ():
            if holder not in (OWNER, TRANSACTION, LINKS, TAKES):
                self.keep(lease, mine)
        self._take_kept()
        return list(consumer.resuming.ranges())

    def _take_kept(self) -> None:
        """Have consumers resume what is kept for their links."""
        self._unsought, kept = False, self.kept
        for part, lease in self._leases_of(kept.without(self.lapsing.ranges()).ranges()):
            front_end, consumer = lease.front_end, self._consumers.of_link(lease.link.identity)
            if consumer is None or consumer.resuming is None:
                continue
            if (consumer.front_end, consumer.number) == (front_end, lease.consumer):
                kept.remove(*part)
                self._leases.setdefault(front_end, RangeSet()).add(*part)
                consumer.resuming.add(*part)

    def detach(self, front_end: int, number: int) -> None:
        """A consumer ends: keep the messages of its link that it has not got again."""
        consumer, lease = self._consumers.get(front_end, number), self._leases.get(front_end)
        if consumer is not None and consumer.resuming and lease is not None:
            self.keep(lease, list(consumer.resuming.ranges()))

    def freed(self, first: int, last: int) -> list[Range]:
        """The kept messages of a range whose return is applied, so that they are leased to no link."""
        mine = RangeSet(self.kept.intersection(first, last))
        self._changed = self._changed or bool(mine)
        return list(mine.without(self.linked([(first, last)])).ranges()) if mine else []

    def settled(self, first: int, last: int) -> int:
        """Messages of a range are settled, also by a consumer that has lost them: keep them no more. Returns
        how many were kept.
        """
        kept = self._leases.get(LINKS)
        return kept.remove(first, last) if kept else 0

    def given_back(self, ranges: list[Range]) -> None:
        """The return of these messages goes into the log. The owner calls `lapsed` once that is applied."""
        self.lapsing.update(self.linked(ranges))
        for consumer in list(self._consumers.by_link.values()):
            if consumer.resuming:
                consumer.resuming.remove_all(ranges)

    def resuming(self) -> Iterator[tuple[Consumer, list[Range]]]:
        """The links that are to get messages which are leased to them, with these messages."""
        if self._unsought:
            self._take_kept()
        for consumer in list(self._consumers.by_link.values()):
            lease = self._leases.get(consumer.front_end)
            if consumer.resuming and lease is not None:
                parts = [part for one in consumer.resuming.ranges() for part in lease.intersection(*one)]
                consumer.resuming = RangeSet(parts)
                if parts:
                    yield consumer, parts

    def closed(self, front_end: int, number: int, identity: bytes) -> list[Range]:
        """A link is closed for good, whose consumer has returned what it had. The owner puts the return of
        the messages that are still kept for the link into the log, and calls `lapsed` once that is applied.
        None where the link has been attached elsewhere since.
        """
        self.detach(front_end, number)
        mine = self._leased_by(front_end, number, identity)
        return self.go_back(part for one in mine for part in self.kept.intersection(*one))

    def go_back(self, ranges: Iterable[Range]) -> list[Range]:
        """Have kept messages go back to the queue; returns those that do not yet. The owner calls `lapsed`
        once that is applied.
        """
        found = list(RangeSet(ranges).without(self.lapsing.ranges()).ranges())
        self.lapsing.update(found)
        return found

    # -- time -----------------------------------------------------------------------------------

    def overdue(self, now: int) -> list[Range]:
        """The kept messages of links whose time is over; `now` is in milliseconds since the epoch. The owner
        puts their return into the log, and calls `lapsed` once that is applied.
        """
        kept = self.kept
        if not self._changed and now < self.wake:
            return []
        self._changed = False
        found, waiting = list[Range](), dict[bytes, int]()
        for part, (link, *_) in self._leases_of(kept.ranges()):
            if not link.kept_s:
                continue
            deadline = self._deadlines.get(link.identity, now + link.kept_s * 1000)
            if deadline <= now:
                found += self.go_back([part])
            else:
                waiting[link.identity] = deadline
        self._deadlines = waiting
        return found

    def lapsed(self, ranges: Iterable[Range]) -> list[Range]:
        """The return of kept messages is applied. Returns those that the queue still keeps."""
        if not self.lapsing:
            return []
        lapsing = [part for one in ranges for part in self.lapsing.intersection(*one)]
        self.lapsing.remove_all(lapsing)
        return [part for one in lapsing for part in self.kept.intersection(*one)]

    @property
    def wake(self) -> int:
        """The time at which the time of a link is over, in milliseconds since the epoch; far ahead if there
        is none.
        """
        return min(self._deadlines.values(), default=ABOVE_ALL)
