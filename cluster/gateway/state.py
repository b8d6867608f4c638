"""The state of a link: operation batches with the callers that wait for their commit, consumers and the
messages that they hold, requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from cluster.gateway.telling import told_runs
from cluster.peers.consumer_terms import FOR_LOGGED_LINK, ConsumerTerms
from cluster.peers.held_leases import HeldLeases, TellsLeases
from cluster.peers.link_messages import FIRST_CONSUMER, FOR_LINK, Delivery, OwnerPort, Ranges
from node.delivery.backlog import NO_BACKLOG
from node.delivery.settlements import BARRIERS_AT_ONCE, NO_TOKEN, attached_as, token_of
from node.queue.leasing import BACK_IN_QUEUE, UNTOLD
from node.queue.partition import KEPT_BATCHES
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import RangeSet, merged, numbers_of
from node.session.subscriber import Subscriber

WINDOW_BYTES: Final = 16 * 1024 * 1024
"""Octets of operations of a link that may wait for their commit. Beyond that, or beyond `WINDOW_BATCHES`, the
node does not read from publishers.
"""

WINDOW_BATCHES: Final = KEPT_BATCHES // 2
"""Batches that may wait for their commit: the refused messages of the latest `KEPT_BATCHES` are kept."""

BARRIERS_REMEMBERED: Final = 2 * BARRIERS_AT_ONCE
"""An owner sends none again that so many have followed."""

NO_HOLDER: Final = 0
"""No consumer has this number."""


class Awaiting(Protocol):
    """Waits for the commit of an operation batch, of which some messages are its own."""

    def committed(self) -> None:
        """The batch is committed."""

    def refused(self, offset: int, messages: Ranges) -> None:
        """Queues have refused these messages of the batch, counted from 0. Called before `committed`.

        `offset` is the number of the first message behind this waiter's own in the batch.
        """

    def given_up(self, offset: int) -> bool:
        """The commit of the batch may stay unknown for long: its only replica is away. `offset` is as in
        `refused`. Returns whether this waiter has taken that as its answer, and waits no more.
        """


@dataclass(slots=True)
class Vote:
    """Waits for an operation of a transaction; `answer` gets whether the partition has taken it."""

    answer: Callable[[bool], None]
    taken: bool = field(default=True, init=False)

    def refused(self, offset: int, messages: Ranges) -> None:
        if any(first < offset <= last + 1 for first, last in messages):
            self.taken = False

    def committed(self) -> None:
        self.answer(self.taken)

    def given_up(self, offset: int) -> bool:
        # The transaction may be prepared or decided there: only the node itself can answer, when it is back.
        return False


@dataclass(init=False, slots=True)
class Confirmation:
    """Publishes of one channel, with the delivery tags `first` to `last`, that wait for `waiting` partitions
    to commit them. Implements `Awaiting`.
    """

    subscriber: Subscriber
    channel: int
    first: int
    last: int
    waiting: int
    refusals: RangeSet | None

    def __init__(self, subscriber: Subscriber, channel: int, first: int, last: int, waiting: int) -> None:
        self.subscriber = subscriber
        self.channel = channel
        self.first = first
        self.last = last
        self.waiting = waiting
        self.refusals = None

    def refused(self, offset: int, messages: Ranges) -> None:
        start = offset - (self.last - self.first + 1)
        for first, last in messages:
            low, high = max(first, start), min(last, offset - 1)
            if low <= high:
                self.refusals = self.refusals or RangeSet()
                self.refusals.add(self.first + low - start, self.first + high - start)

    def given_up(self, offset: int) -> bool:
        # A nack promises nothing (the extension "publisher confirms"): the queue may have the message or not.
        self.refused(offset, [(offset - (self.last - self.first + 1), offset - 1)])
        self.committed()
        return True

    def committed(self) -> None:
        self.waiting -= 1
        if self.waiting:
            return
        if self.refusals is None:
            self.subscriber.confirm(self.channel, self.first, self.last)
            return
        next_tag = self.first
        for first, last in self.refusals.ranges():
            if next_tag < first:
                self.subscriber.confirm(self.channel, next_tag, first - 1)
            self.subscriber.reject(self.channel, first, last)
            next_tag = last + 1
        if next_tag <= self.last:
            self.subscriber.confirm(self.channel, next_tag, self.last)


@dataclass(slots=True)
class LinkConsumer:
    """A consumer of one of the partition's queues."""

    id: int
    queue: int
    subscriber: Subscriber
    limit: int
    no_ack: bool
    exclusive: bool
    priority: int
    holder: int = NO_HOLDER
    """Its number where the link has to know which messages it has: the queue keeps order by key, and a new
    owner must learn who has which messages, or the queue keeps messages for its link.
    """
    single_active: bool = False
    """Whether the queue has a single active consumer."""
    filter: bytes = b""
    """The octets of its selector; empty for none."""
    link: bytes = b""
    """The link for which the queue is to keep its messages; empty for none."""
    tells: bool = False
    """Whether the consumer is told bookmarks and the ends of leases."""
    backlog: int = NO_BACKLOG
    """The backlog that it asks for, where owners are to know that."""
    kept: Ranges | None = None
    """The messages that the link has had before it was attached, and has not settled. None where the queue
    keeps no messages for the link.
    """
    logged: bool = False
    """Whether the log has that the consumer has its link."""
    joined: int = 0
    activated: int = 0
    """See `cluster.peers.link_messages.FrontEndPort.activity`."""
    barriers: tuple[int, ...] = ()
    """The newest barriers that it has got, at most `BARRIERS_REMEMBERED`."""
    dropped: int = 0
    """The messages in `delivered` that the session has not got: its limits do not count them."""
    delivered: int = 0
    told: int = 0
    """The limit that the link has told the owner."""
    known: int = 0
    """The number that its session knows, where the consumer may have moved to another part; 0: `id`."""
    drain: int = 0
    """The number of the drain that the owner has not answered, if no credit was given since; else 0."""

    @property
    def credit_urgent(self) -> bool:
        """Whether to tell the owner the limit in this turn: the limit was lowered, or the consumer has at
        most half of its credit left by the limit that the owner knows.
        """
        return self.limit < self.told or 2 * (self.told - self.delivered) <= self.limit - self.delivered

    def joins(self, answer: Any) -> bool:
        """Whether the consumer has joined its queue, by the owner's answer to its attach."""
        if answer is not None and answer[0] == FOR_LINK:
            self.kept, self.holder = merged((first, last) for first, last in answer[1]), self.id
            self.logged = FOR_LOGGED_LINK in answer[2:]
        return answer is None or self.kept is not None

    def deliver(self, delivery: Delivery, lease: int) -> None:
        """Hand messages that the owner has delivered to the session, which settles them under the number of
        a lease.
        """
        self.delivered += delivery.run.count
        told = told_runs(delivery) if self.tells else ((delivery.run, numbers_of(delivery.ranges)),)
        for run, numbers in told:
            self.subscriber.deliver(self.known or self.id, run, numbers, delivery.redelivered, lease)

    def terms(self) -> ConsumerTerms:
        return ConsumerTerms(
            self.id,
            self.queue,
            self.limit,
            self.delivered,
            self.no_ack,
            self.exclusive,
            self.priority,
            self.joined,
            self.activated,
            self.filter,
            self.link,
            self.backlog,
            self.logged,
        )


class HeldMessages:
    """The messages that a link's consumers have got and not settled, by queue.

    `holders` has the consumer of each message, for queues that keep order by key. `tokens` has the token of
    the lease under which each message came last, where leases have tokens, and `ends` has the end of that
    lease in milliseconds since the epoch. A new owner must know all of these. `taken` has the messages
    that another client has given back, with the consumer that has got them since, `NO_HOLDER` for none.
    """

    __slots__ = ("ends", "holders", "leases", "taken", "tokens")

    def __init__(self) -> None:
        self.leases: dict[int, RangeSet] = {}
        self.holders: dict[int, RangeMap] = {}
        self.tokens: dict[int, RangeMap] = {}
        self.ends: dict[int, RangeMap] = {}
        self.taken: dict[int, RangeMap] = {}

    def given(self, delivery: Delivery, holder: int = NO_HOLDER) -> None:
        """A client has got messages that it is to settle, from a consumer or by basic.get. `holder` is the
        consumer, where the queue keeps order by key.
        """
        leased = self.leases.get(delivery.queue)
        if leased is None:
            leased = self.leases[delivery.queue] = RangeSet()
        leased.update(merged(delivery.ranges))
        if delivery.queue in self.taken:
            self._given_again(delivery)
        if delivery.token != NO_TOKEN or self.tokens:
            # A queue may have lost its lease period since a former delivery.
            _note(self.tokens, delivery.queue, delivery.ranges, delivery.token, NO_TOKEN)
            _note(self.ends, delivery.queue, delivery.ranges, delivery.until, UNTOLD)
        if holder != NO_HOLDER:
            _note(self.holders, delivery.queue, delivery.ranges, holder, NO_HOLDER)

    def of_holder(self, queue: int, holder: int, ranges: Ranges) -> Ranges:
        """The messages among `ranges` that this consumer has got last."""
        holders = self.holders.get(queue) or RangeMap()
        return [(first, last) for first, last, newest in holders.spans_of(merged(ranges)) if newest == holder]

    def released(self, queue: int, ranges: Ranges) -> None:
        """The front end does not hold the messages any more."""
        leased = self.leases.get(queue)
        if leased is not None:
            leased.remove_all(ranges)
        for by_queue in (self.holders, self.tokens, self.ends):
            if queue in by_queue:
                by_queue[queue].remove_all(ranges)

    def renewed(self, queue: int, ranges: Ranges, until: int) -> None:
        """The leases of messages have another end, as far as the front end still has the messages.
        BACK_IN_QUEUE: its consumers have lost the messages, and their outcomes count no more.
        """
        leased = self.leases.get(queue)
        mine = [] if leased is None else leased.intersections(merged(ranges))
        if until != BACK_IN_QUEUE:
            _note(self.ends, queue, mine, until, UNTOLD)
        elif mine:
            self.released(queue, mine)
            self.taken.setdefault(queue, RangeMap()).put(mine, NO_HOLDER)

    def _given_again(self, delivery: Delivery) -> None:
        """A client has got messages. The outcomes of consumers that had lost some of them count no more. A
        basic.get has no consumer to tell apart.
        """
        taken = self.taken[delivery.queue]
        for first, last, _ in taken.spans_of(merged(delivery.ranges)):
            if delivery.consumer >= FIRST_CONSUMER:
                taken.set(first, last, delivery.consumer)
            else:
                taken.remove(first, last)

    def _not_taken(self, queue: int, consumer: int, ranges: Ranges) -> Ranges:
        """The messages whose outcome this consumer may tell: no other client has taken them from it."""
        taken, lost = self.taken[queue], RangeSet()
        for first, last, holder in taken.spans_of(merged(ranges)):
            if holder in (consumer, NO_HOLDER):
                taken.remove(first, last)
            if holder != consumer:
                lost.add(first, last)
        if not taken:
            del self.taken[queue]
        return list(RangeSet(ranges).without(lost.ranges()).ranges()) if lost else ranges

    def under(self, queue: int, lease: int, ranges: Ranges) -> Ranges:
        """The messages among `ranges`, which came under a lease (`node.delivery.settlements.TOKEN_SHIFT`),
        that have not come again since and that no other client has given back. Their consumer tells an
        outcome.
        """
        token = token_of(lease)
        if queue in self.taken:
            ranges = self._not_taken(queue, attached_as(lease), ranges)
        tokens = self.tokens.get(queue)
        if not tokens:
            return ranges
        found = (span for one in ranges for span in tokens.cover(*one, NO_TOKEN))
        return [(first, last) for first, last, newest in found if newest in (token, NO_TOKEN)]

    def told(self, tells: TellsLeases) -> HeldLeases:
        """The messages that the front end holds, as a new owner is told."""
        leases = {queue: list(leased.ranges()) for queue, leased in self.leases.items() if leased}
        tokens = self.tokens if tells.tokens() else {}
        ends = self.ends if tokens and tells.ends() else {}
        return HeldLeases(leases, _spans(self.holders), _spans(tokens), _spans(ends))


def _note(by_queue: dict[int, RangeMap], queue: int, ranges: Ranges, value: int, none: int) -> None:
    """Note the value of messages; `none` takes their former values away."""
    if value != none:
        by_queue.setdefault(queue, RangeMap()).put(ranges, value)
    elif queue in by_queue:
        by_queue[queue].remove_all(merged(ranges))


def _spans(by_queue: dict[int, RangeMap]) -> dict[int, list[Span]]:
    return {queue: list(held.all()) for queue, held in by_queue.items() if held}


@dataclass(init=False, slots=True)
class OperationBatch:
    """Operations of one turn, kept until they are committed.

    `sent`: the batch was sent to an owner, which may have taken it. `offsets` has for each waiter the number
    of messages in the batch up to its last one. `since` is the time of the batch's first message, `confirms`
    the number of its messages that clients want confirmed.
    """

    number: int
    data: bytes
    sent: bool
    awaiting: list[Awaiting]
    offsets: list[int]
    since: float
    confirms: int

    def __init__(
        self,
        number: int,
        data: bytes,
        sent: bool,
        awaiting: list[Awaiting],
        offsets: list[int],
        since: float,
        confirms: int,
    ) -> None:
        self.number = number
        self.data = data
        self.sent = sent
        self.awaiting = awaiting
        self.offsets = offsets
        self.since = since
        self.confirms = confirms

    def committed(self, refused: Ranges | None) -> None:
        """Tell the waiters; queues have refused the messages `refused`, counted from 0."""
        if refused is not None:
            for one, offset in zip(self.awaiting, self.offsets, strict=True):
                one.refused(offset, refused)
        for one in self.awaiting:
            one.committed()

    def give_up(self) -> None:
        """Answer the waiters that do not insist on the outcome. The link keeps the batch nevertheless."""
        waiting = zip(self.awaiting, self.offsets, strict=True)
        kept = [(one, offset) for one, offset in waiting if not one.given_up(offset)]
        self.awaiting = [one for one, _ in kept]
        self.offsets = [offset for _, offset in kept]
        self.confirms = 0


def send_greeting(
    owner: OwnerPort,
    front_end: int,
    epoch: int,
    node: str,
    consumers: Iterable[LinkConsumer],
    batches: Iterable[OperationBatch],
) -> None:
    """Tell an owner the consumers and the unacknowledged operations; the leases still held come behind them.

    A message that an unacknowledged operation settles is not among the leases: the owner must see the
    settlement first, so that it does not return the message.
    """
    terms = []
    for consumer in consumers:
        consumer.told = consumer.limit
        terms.append(consumer.terms())
    tried = max((batch.number for batch in batches if batch.sent), default=0)
    owner.hello(front_end, epoch, node, terms, tried)
    # An owner in this process answers within these calls, which changes the collection: copy it.
    for batch in list(batches):
        batch.sent = True
        owner.operations(front_end, epoch, batch.number, batch.data)


TakeAnswer = Callable[[Any, Delivery | None], None]
"""Takes the owner's answer to a request: a value, and a message for a basic.get."""


@dataclass(slots=True)
class PendingRequest:
    """A request that no owner has answered yet; a new owner gets it again. `consumer` is to be attached."""

    name: str
    arguments: list[Any]
    consumer: LinkConsumer | None
    answer: TakeAnswer

    def send(self, owner: OwnerPort, front_end: int, epoch: int, number: int) -> None:
        """Ask an owner, in this epoch of the front end."""
        if self.consumer is None:
            owner.request(front_end, epoch, number, self.name, self.arguments)
        else:
            self.consumer.told = self.consumer.limit
            owner.attach(front_end, epoch, number, self.consumer.terms())


def unanswered(value: Any, delivery: Delivery | None) -> None:
    """For requests whose answer says nothing: the owner does what is asked, or has nothing to do."""
