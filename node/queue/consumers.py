"""The consumers of one queue: their credit, and the order in which they are served."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from node.delivery.backlog import NO_BACKLOG
from node.delivery.link_terms import LinkTerms
from node.expressions.selector import Selector
from node.ranges.range_set import Range, RangeSet
from node.refusal import AccessRefusedError

ConsumerKey = tuple[int, int]
"""(front end, the consumer's number there)."""


class ExclusiveConsumerError(AccessRefusedError):
    """The queue has an exclusive consumer, or an exclusive consumer subscribes to a queue that has others."""


MAX_FILTERS: Final = 128
"""The largest number of different filters of a queue's consumers: each costs work for each message."""

KEPT_RANGES: Final = 64
"""With so many ranges of messages that a consumer does not get, the owner looks for those that are gone."""


class UndeliverableMessages:
    """The `numbers` of messages that a queue keeps from one consumer, some of which may be gone."""

    __slots__ = ("_look_at", "numbers")

    def __init__(self) -> None:
        self.numbers = RangeSet()
        self._look_at = KEPT_RANGES

    def keep(self, ranges: list[Range], alive: Callable[[int, int], list[Range]]) -> None:
        """Add messages; `alive` gives the messages of a range that the queue still has."""
        self.numbers.update(ranges)
        if self.numbers.range_count() >= self._look_at:
            self.numbers = RangeSet(part for one in self.numbers.ranges() for part in alive(*one))
            self._look_at = max(KEPT_RANGES, 2 * self.numbers.range_count())


@dataclass(slots=True, eq=False)
class Consumer:
    """One consumer. It gets messages while it is `active` and `sent < limit`; both count from its beginning.

    `counted` is False for a link of basic.get. `joined` and `activated` belong to queues with a single active
    consumer (`features.single_active`). `removes_soft`: soft messages are removed before it gets them; with
    `no_ack` all messages are. `stopped`: it gets nothing more, whatever its credit. `undeliverable` are
    messages that it does not get, and `selector` is the filter of those that it gets; both are None for most
    consumers. `link` is its link, where the queue keeps messages for that, and `resuming` are
    the messages of the link that it has still to get (`node.queue.link_leases`). `backlog` is the backlog
    that it asks for (`node.delivery.backlog`), and `window` the most credit that it has had, where the queue
    divides its messages by that (`node.queue.fairness`).
    """

    front_end: int
    number: int
    priority: int
    no_ack: bool
    exclusive: bool
    counted: bool
    sent: int
    limit: int
    in_line: bool = False
    active: bool = True
    joined: int = 0
    activated: int = 0
    stopped: bool = False
    removes_soft: bool = False
    undeliverable: UndeliverableMessages | None = None
    selector: Selector | None = None
    link: LinkTerms | None = None
    backlog: int = NO_BACKLOG
    window: int = 0
    resuming: RangeSet | None = None


class Consumers:
    """Consumers by key. Those with credit stand in line: `lines` has a line for each priority, highest first.

    `by_link` has those for whose links the queue keeps messages, by the identity of the link.
    `count` is the number of consumers that clients see, without links of basic.get. `acking` is the number of
    consumers that settle their messages. `refiltered`: a filter has come, or may be gone, since the owner has
    asked for `selectors`. `filters` are the octets of those that consumers had then, without links of
    basic.get.
    """

    __slots__ = (
        "_by_key",
        "_by_priority",
        "_elsewhere",
        "_exclusive",
        "_priorities",
        "acking",
        "by_link",
        "count",
        "filters",
        "lines",
        "refiltered",
    )

    def __init__(self) -> None:
        self.count = 0
        self.acking = 0
        self.lines: list[deque[Consumer]] = []
        self._by_key: dict[ConsumerKey, Consumer] = {}
        self.by_link: dict[bytes, Consumer] = {}
        self._by_priority: dict[int, deque[Consumer]] = {}
        self._priorities: Counter[int] = Counter()
        self._exclusive = self.refiltered = False
        self.filters: frozenset[bytes] = frozenset()
        self._elsewhere: list[Selector] = []

    def __iter__(self) -> Iterator[ConsumerKey]:
        return iter(self._by_key)

    def get(self, front_end: int, number: int) -> Consumer | None:
        """The consumer; None where the queue has no such consumer."""
        return self._by_key.get((front_end, number))

    def attach(
        self,
        front_end: int,
        number: int,
        *,
        priority: int = 0,
        no_ack: bool = False,
        exclusive: bool = False,
        counted: bool = True,
        sent: int = 0,
        joined: int = 0,
        activated: int = 0,
        removes_soft: bool = False,
        selector: Selector | None = None,
        link: LinkTerms | None = None,
        backlog: int = NO_BACKLOG,
    ) -> Consumer:
        """Add a consumer, without credit. The front end's ATTACH must have been applied before: a new owner
        asks the attached front ends for their leases.

        `sent` is the number of messages that the consumer got from former owners. Raises
        ExclusiveConsumerError, and ValueError where the front end has a consumer with that number.
        """
        if (front_end, number) in self._by_key:
            raise ValueError(f"front end {front_end} has a consumer {number}")
        self._admit(counted=counted, exclusive=exclusive)
        made = Consumer(front_end, number, priority, no_ack, exclusive, counted, sent, limit=sent)
        made.joined, made.activated, made.removes_soft = joined, activated, removes_soft
        made.selector, made.link, made.backlog = selector, link, backlog
        self.refiltered |= selector is not None
        self._by_key[front_end, number] = made
        if link is not None:
            self.by_link[link.identity] = made
        self._make_line(priority)
        self.acking += not no_ack
        self.count += counted
        self._exclusive |= exclusive
        self._added(made)
        return made

    def change(self, consumer: Consumer, *, priority: int, selector: Selector | None, backlog: int) -> None:
        """The consumer goes on by other terms, and without credit."""
        self.revoke(consumer)
        self.refiltered |= selector is not None or consumer.selector is not None
        consumer.selector, consumer.backlog, consumer.window = selector, backlog, 0
        if priority != consumer.priority:
            self._leave_priority(consumer)
            consumer.priority = priority
            self._make_line(priority)

    def _make_line(self, priority: int) -> None:
        """A consumer more has this priority."""
        if priority not in self._by_priority:
            self._by_priority[priority] = deque()
            self._arrange()
        self._priorities[priority] += 1

    def _leave_priority(self, consumer: Consumer) -> None:
        """A consumer less has this one's priority, in whose line it does not stand any more."""
        self._priorities[consumer.priority] -= 1
        if not self._priorities[consumer.priority]:
            del self._priorities[consumer.priority], self._by_priority[consumer.priority]
            self._arrange()

    def _admit(self, *, counted: bool, exclusive: bool) -> None:
        """Raises ExclusiveConsumerError where the queue cannot have the consumer beside its others."""
        if counted and self.count and (exclusive or self._exclusive):
            raise ExclusiveConsumerError("the queue has an exclusive consumer, or others than this one")

    def _added(self, made: Consumer) -> None:
        """A hook for subclasses: the consumer has been added."""

    def detach(self, front_end: int, number: int) -> None:
        """Remove a consumer, if the queue has it. Its leases stay with the front end."""
        gone = self._by_key.pop((front_end, number), None)
        if gone is None:
            return
        self._leave_line(gone)
        self._leave_priority(gone)
        self.acking -= not gone.no_ack
        self.count -= gone.counted
        self.refiltered |= gone.selector is not None
        if gone.link is not None and self.by_link.get(gone.link.identity) is gone:
            del self.by_link[gone.link.identity]
        if gone.exclusive:
            self._exclusive = False

    @property
    def exclusive(self) -> bool:
        """Whether the queue has an exclusive consumer."""
        return self._exclusive

    def of_link(self, identity: bytes) -> Consumer | None:
        """The consumer of a link; None while the link has none."""
        return self.by_link.get(identity)

    def takes_filter(self, selector: Selector, former: Consumer | None = None) -> bool:
        """Whether the queue can have a consumer with this filter beside its others. The consumer may have
        been a `former` one with another filter.
        """
        others = (one for one in self._by_key.values() if one is not former)
        different = {one.selector.data for one in others if one.selector is not None}
        return selector.data in different or len(different) < MAX_FILTERS

    def look_for(self, selectors: Iterable[Selector]) -> None:
        """Consumers of other parts of the queue have these filters, and no others."""
        self._elsewhere, self.refiltered = list(selectors), True

    def selectors(self) -> list[Selector]:
        """The different filters of the consumers, those of other parts included."""
        self.refiltered = False
        mine = [(one.selector, one.counted) for one in self._by_key.values() if one.selector is not None]
        self.filters = frozenset(selector.data for selector, counted in mine if counted)
        found = [*self._elsewhere, *(selector for selector, _ in mine)]
        return list({selector.data: selector for selector in found}.values())

    def _arrange(self) -> None:
        """Make `lines` anew after a priority has been added or removed."""
        self.lines = [self._by_priority[each] for each in sorted(self._by_priority, reverse=True)]

    def detach_all(self, front_end: int) -> None:
        """Remove all consumers of a front end. Its leases stay."""
        for key in [key for key in self._by_key if key[0] == front_end]:
            self.detach(*key)

    def suspend(self, front_end: int) -> bool:
        """The front end may be about to attach its consumers again, or to give back their messages. Returns
        whether other consumers wait for that.
        """
        return False

    def resume(self, front_end: int) -> bool:
        """The front end has done so, or is lost. Returns whether other consumers may have waited."""
        return False

    def resume_others(self, front_ends: Collection[int]) -> None:
        """The time limit for front ends of former owners is over. The owner waits for no others than these,
        which greet again.
        """

    def credit(self, front_end: int, number: int, limit: int) -> None:
        """Let the consumer have `limit` messages since its beginning. Credit that comes after the consumer's
        end is ignored.
        """
        found = self._by_key.get((front_end, number))
        if found is None or found.stopped:
            return
        found.limit = limit
        if found.sent < limit and found.active and not found.in_line:
            found.in_line = True
            self._by_priority[found.priority].append(found)

    def stop(self, front_end: int, number: int) -> None:
        """Deliver nothing more to a consumer, whatever its credit: its front end is about to detach it."""
        found = self._by_key.get((front_end, number))
        if found is not None:
            self.revoke(found)
            found.stopped = True

    def given(self, consumer: Consumer, count: int) -> None:
        """The consumer has got `count` messages outside of its turn in the line."""
        consumer.sent += count
        if consumer.sent >= consumer.limit:
            self._leave_line(consumer)

    @property
    def credit_left(self) -> int:
        """The sum of the consumers' credit, in messages."""
        return sum(each.limit - each.sent for line in self.lines for each in line)

    def revoke(self, consumer: Consumer) -> int:
        """Take the consumer's credit away; return how many messages it was."""
        revoked = max(0, consumer.limit - consumer.sent)
        consumer.limit = consumer.sent
        self._leave_line(consumer)
        return revoked

    def _leave_line(self, consumer: Consumer) -> None:
        if consumer.in_line:
            consumer.in_line = False
            self._by_priority[consumer.priority].remove(consumer)
