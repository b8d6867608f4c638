"""The outgoing half of a channel: consumers, delivery tags, prefetch and held deliveries (§3.1.7, §3.1.9)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

from node.delivery.backlog import NO_BACKLOG
from node.delivery.credit import ChannelConsumer, Credits
from node.delivery.octets import OctetWindows
from node.delivery.settlements import UNLEASED, Outcome, consumer_of
from node.delivery.unsettled import Taken, UnsettledDeliveries, UnsettledRanges
from node.message.run import Run
from node.ranges.range_set import Numbers
from node.wire.amqp091.codec import encode_contents, encode_deliveries
from node.wire.amqp091.contents import body_size, body_sizes
from node.wire.amqp091.effects import Outbox
from node.wire.amqp091.methods import BasicGetOk
from node.wire.amqp091.routing_keys import by_key
from node.wire.amqp091.transaction import ChannelTransaction, TransactionLoad


class HeldDelivery(NamedTuple):
    """A delivery that the channel may not send yet."""

    consumer: ChannelConsumer
    run: Run
    numbers: Numbers
    redelivered: bool
    lease: int


class HeldDeliveries:
    """Deliveries that a channel may not send yet, in order. Keeps `Credits.held_octets` up to date."""

    __slots__ = ("_credits", "_waiting")

    def __init__(self, credits: Credits) -> None:
        self._credits = credits
        self._waiting: deque[HeldDelivery] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[HeldDelivery]:
        return iter(self._waiting)

    def add(self, one: HeldDelivery) -> None:
        """Add a delivery behind the others."""
        self._waiting.append(one)
        self._credits.held_octets += len(one.run.raw)

    def take_all(self) -> deque[HeldDelivery]:
        """Remove and return all deliveries."""
        taken, self._waiting = self._waiting, deque()
        self._credits.held_octets -= sum(len(one.run.raw) for one in taken)
        return taken


class ChannelDeliveries:
    """The consumers of one channel, their deliveries, and those that the client has not settled.

    The acknowledging consumers share `prefetch`; 0 for no limit. `consumer_prefetch` and `consumer_octets`
    are the limits of consumers that start later (basic.qos, §3.1.7). `octets` is None unless a limit is in
    octets. Consumers have no credit while the channel holds deliveries, so held are at most the deliveries
    that were in flight between owner and front end. They go back to their queues soon (`give_back_held`).
    """

    __slots__ = (
        "_credits",
        "_flowing",
        "_frame_max",
        "_held",
        "_in_flight",
        "_next_tag",
        "_outbox",
        "channel",
        "consumer_octets",
        "consumer_prefetch",
        "consumers",
        "got",
        "octets",
        "prefetch",
        "redelivered",
        "returned",
        "sent_no_ack",
        "transaction",
        "unsettled",
    )

    def __init__(self, channel: int, frame_max: int, outbox: Outbox, credits: Credits):
        self.channel = channel
        self.prefetch = 0
        self.consumer_prefetch = 0
        self.consumer_octets = 0
        self.consumers: dict[str, ChannelConsumer] = {}
        self.octets: OctetWindows | None = None
        self.unsettled = UnsettledDeliveries(credits)
        self.transaction: ChannelTransaction | None = None
        # Counters for the administration. `got` has no deliveries without acknowledgement. The number of
        # acknowledged deliveries is that of the sent ones without `sent_no_ack`, unsettled and `returned`
        # ones.
        self.got = self.redelivered = self.returned = self.sent_no_ack = 0
        self._frame_max = frame_max
        self._outbox = outbox
        self._credits = credits
        self._next_tag = 1
        self._in_flight = 0
        self._flowing = True
        self._held = HeldDeliveries(credits)

    # -- consumers ------------------------------------------------------------------------------

    def first_limit(self, no_ack: bool) -> int:
        """The first credit of a consumer that starts now."""
        return self._credits.limit(self._new_consumer("", 0, no_ack, False))[0]

    def _new_consumer(self, tag: str, number: int, no_ack: bool, returnable: bool) -> ChannelConsumer:
        return ChannelConsumer(
            number,
            tag,
            self.channel,
            self,
            no_ack=no_ack,
            returnable=returnable,
            prefetch=self.consumer_prefetch,
            octet_limit=self.consumer_octets,
        )

    def add_consumer(self, tag: str, number: int, no_ack: bool, returnable: bool) -> ChannelConsumer:
        consumer = self._new_consumer(tag, number, no_ack, returnable and not no_ack)
        self.consumers[tag] = consumer
        self._credits.consumers[number] = consumer
        self._credits.touch(consumer)
        return consumer

    def renew_consumer(self, tag: str, number: int, returnable: bool) -> ChannelConsumer:
        """The consumer of a tag goes on with new terms, under another number where it has another queue. It
        has the limits of consumers that start now. Its held deliveries came by the terms of before, and go
        back to a queue that still has them.
        """
        consumer = self.consumers[tag]
        self._withdraw(consumer)
        del self._credits.consumers[consumer.number]
        self._credits.consumers[number] = consumer
        consumer.number, consumer.returnable = number, returnable and not consumer.no_ack
        consumer.prefetch, consumer.octet_limit = self.consumer_prefetch, self.consumer_octets
        # The broker has taken the consumer's credit away, and is told all of it anew.
        self._credits.set_backlog(number, NO_BACKLOG)
        return consumer

    def remove_consumer(self, consumer: ChannelConsumer) -> None:
        """End a consumer: its held deliveries go back, and its unsettled deliveries stay on the channel."""
        del self.consumers[consumer.tag]
        del self._credits.consumers[consumer.number]
        consumer.ended = True
        self._withdraw(consumer)

    def _withdraw(self, consumer: ChannelConsumer) -> None:
        """The held deliveries of a consumer go back to their queue. A consumer that goes on keeps those that
        the queue has removed.
        """
        goes = consumer.ended or consumer.returnable
        for one in self._held.take_all():
            if goes and one.consumer is consumer:
                self._give_back(one)
            else:
                self._held.add(one)
        self._release()

    def close(self) -> UnsettledRanges:
        """End all consumers: held deliveries go back as never sent. Returns the unsettled deliveries."""
        for consumer in self.consumers.values():
            del self._credits.consumers[consumer.number]
            consumer.ended = True
        self.consumers.clear()
        for one in self._held.take_all():
            self._give_back(one)
        if self.octets is not None:
            self.octets.clear()
        return self.unsettled.take_ranges()

    def in_use(self) -> set[int]:
        """The numbers of the channel's consumers, and of ended ones with unsettled deliveries."""
        found = {one.number for one in self.consumers.values()}
        found |= {consumer_of(one.lease) for one in self.unsettled}
        return found if self.transaction is None else found | self.transaction.consumers()

    # -- sending --------------------------------------------------------------------------------

    @property
    def sent(self) -> int:
        """Messages sent since the channel was opened."""
        return self._next_tag - 1

    @property
    def stopped(self) -> bool:
        """Whether consumers may have no credit now: the client has stopped the flow, or deliveries
        are held.
        """
        return bool(self._held) or not self._flowing

    @property
    def limited(self) -> bool:
        """Whether the client sets another bound than the prefetch of each consumer."""
        return bool(self.prefetch) or self.octets is not None

    def octet_room(self, consumer: ChannelConsumer) -> int | None:
        """Further messages that fit into the limits in octets; None without such a limit."""
        return None if self.octets is None else self.octets.messages(consumer)

    def room(self) -> int | None:
        """Further deliveries that the shared prefetch admits; None without one."""
        return max(0, self.prefetch - self._in_flight) if self.prefetch else None

    def deliver(
        self, consumer: ChannelConsumer, run: Run, numbers: Numbers, redelivered: bool, lease: int
    ) -> None:
        self._credits.delivered(consumer, run.count, len(run.raw))
        if lease == UNLEASED:
            # No limit of the consumer counts what its queue has let go.
            consumer.settled += run.count
        delivery = HeldDelivery(consumer, run, numbers, redelivered, lease)
        if self._held:
            self._held.add(delivery)
        else:
            self._send_or_hold(delivery)

    def send_got(
        self, run: Run, sequence: int, redelivered: bool, waiting: int, lease: int, no_ack: bool
    ) -> None:
        """Send the message of a basic.get; `waiting` ready messages are left in the queue."""
        tag = self._next_tag
        self._next_tag = tag + 1
        self.redelivered += redelivered
        if no_ack:
            self.sent_no_ack += 1
        else:
            self.got += 1
            # Before the encoding: if that fails, the message goes back with the channel.
            self.unsettled.append(tag, lease, range(sequence, sequence + 1), None)
        ((key, message),) = by_key(run)
        method = BasicGetOk(tag, redelivered, run.exchange, key, waiting)
        self._outbox.write(encode_contents(self.channel, method, message, self._frame_max))

    def set_flow(self, active: bool) -> None:
        """Channel.Flow from the client."""
        self._flowing = active
        self._credits.touch_all(self.consumers.values())
        self._release()

    def set_consumer_prefetch(self, count: int, octets: int) -> None:
        """Set the limits of consumers that start later; 0 for no limit."""
        self.consumer_prefetch = count
        self.consumer_octets = octets
        if octets and self.octets is None:
            self.octets = OctetWindows(self._credits)

    def set_prefetch(self, count: int, octets: int) -> None:
        """Set the limits that the channel's consumers share; 0 for no limit."""
        self.prefetch = count
        if octets and self.octets is None:
            self.octets = OctetWindows(self._credits)
        if self.octets is not None:
            self.octets.channel_limit = octets
        self._credits.touch_all(self.consumers.values())
        self._release()

    def _may_send(self, consumer: ChannelConsumer, run: Run) -> int:
        """The number of messages of the run, from the first on, that may be sent now."""
        if not self._flowing:
            return 0
        if consumer.no_ack or not self.limited:
            return run.count
        room = self.room()
        count = run.count if room is None else min(run.count, room)
        return (
            count if self.octets is None else self.octets.fitting(consumer, body_octets(run.slice(0, count)))
        )

    def _send_or_hold(self, delivery: HeldDelivery) -> None:
        consumer, run, numbers, redelivered, lease = delivery
        if lease == UNLEASED:
            (self._send if self._flowing else self._held.add)(delivery)
            return
        allowed = self._may_send(consumer, run)
        if allowed:
            self._send(HeldDelivery(consumer, run.slice(0, allowed), numbers[:allowed], redelivered, lease))
        if allowed < run.count:
            rest = run.slice(allowed, run.count - allowed)
            held = HeldDelivery(consumer, rest, numbers[allowed:], redelivered, lease)
            if consumer.awaited_octets and consumer.returnable:
                self._give_back(held)
            else:
                self._held.add(held)
                self._credits.holds(self)
                self._credits.touch_all(self.consumers.values())

    def _send(self, delivery: HeldDelivery) -> None:
        consumer, run, numbers, redelivered, lease = delivery
        tag = self._next_tag
        self._next_tag = tag + run.count
        if redelivered:
            self.redelivered += run.count
        if consumer.no_ack:
            self.sent_no_ack += run.count
        elif lease == UNLEASED:
            self.unsettled.append(tag, lease, numbers, None)
        else:
            self._in_flight += run.count
            self.unsettled.append(tag, lease, numbers, consumer)
            if self.octets is not None:
                self.octets.sent(consumer, body_octets(run), numbers)
        # Last: if the encoding fails, the messages are among the unsettled, and go back with the channel.
        self._outbox.write_deliveries(
            encode_deliveries(self.channel, consumer.tag, tag, redelivered, run, self._frame_max)
        )

    def _release(self) -> None:
        """Send held deliveries, as far as they may be sent now."""
        if not self._held:
            return
        held = self._held.take_all()
        while held and not self._held:
            self._send_or_hold(held.popleft())
        for one in held:
            self._held.add(one)
        self._credits.touch_all(self.consumers.values())

    def give_back_held(self) -> None:
        """Return held deliveries to their queues, which may have another consumer for them."""
        for one in self._held.take_all():
            if one.consumer.returnable and one.lease != UNLEASED:
                self._give_back(one)
            else:
                self._held.add(one)
        self._credits.touch_all(self.consumers.values())

    def _give_back(self, held: HeldDelivery) -> None:
        """Return a held delivery, if its queue still has the message: an at-most-once queue has
        removed it.
        """
        if held.consumer.returnable and held.lease != UNLEASED:
            self._outbox.settlements.add(Outcome.RELEASED, self.channel, held.lease, held.numbers)
            # The consumer's credit counts all received messages: these are settled.
            held.consumer.settled += held.run.count

    # -- settling -------------------------------------------------------------------------------

    def settle(self, outcome: Outcome, tag: int, multiple: bool) -> None:
        """Settle the delivery `tag`; with `multiple` every delivery up to `tag`, or all for 0.

        A tag other than 0 must itself be that of an unsettled delivery: basic.ack's delivery-tag "MUST refer
        to a delivered message", and a client may not settle a delivery twice.

        Raises UnknownDeliveryError, and ResourceExhaustedError where a transaction grows too large.
        """
        taken: Sequence[Taken]
        if not multiple:
            taken = (self.unsettled.take(tag),)
        elif tag:
            taken = self.unsettled.take_up_to(tag)
        else:
            taken = self.unsettled.take_all()
        if self.transaction is not None:
            self.transaction.settle(outcome, taken)
            return
        for one in taken:
            self._settle(outcome, one)
        self._release()

    def accept_row(self, first: int, last: int, multiple: bool) -> None:
        """Accept deliveries with consecutive tags, one by one; with `multiple` each with all before. Raises
        as `settle` does, at the first wrong tag.
        """
        if multiple:
            self.settle(Outcome.ACCEPTED, first, multiple=True)
            # Behind the first tag, each tag has one more delivery to settle: its own.
            first += 1
            if first > last:
                return
        row = self.unsettled.take_row(first, last)
        if self.transaction is not None:
            self.transaction.settle(Outcome.ACCEPTED, row)
            return
        for taken in row:
            self._settle(Outcome.ACCEPTED, taken)
            self._release()

    def recover(self) -> None:
        """Return every unsettled delivery to its queue, outside of any transaction (basic.recover)."""
        for taken in self.unsettled.take_all():
            self._settle(Outcome.RETURNED, taken)
        self._release()

    def begin_transactions(self, load: TransactionLoad) -> None:
        """Hold the client's publishes and settlements back until its commits, from now on (tx.select)."""
        if self.transaction is None:
            self.transaction = ChannelTransaction(self.channel, self._outbox, self.unsettled, load)

    def settled(self, done: Iterable[tuple[Outcome, Taken]]) -> None:
        """The session has settled these with a commit."""
        for outcome, taken in done:
            self._count(outcome, taken)
        self._release()

    def _settle(self, outcome: Outcome, taken: Taken) -> None:
        self._outbox.settlements.add(outcome, self.channel, taken.lease, taken.numbers)
        self._count(outcome, taken)

    def _count(self, outcome: Outcome, taken: Taken) -> None:
        lease, numbers, consumer, _ = taken
        count = len(numbers)
        if outcome is not Outcome.ACCEPTED:
            self.returned += count
        if consumer is None:
            return
        consumer.settled += count
        self._in_flight -= count
        if self.octets is not None:
            self.octets.settled(consumer, consumer_of(lease), numbers)
        if self.limited:
            self._credits.touch_all(self.consumers.values())
        else:
            self._credits.touch(consumer)


def body_octets(run: Run) -> Iterable[int]:
    """The size in octets of each message's body, as its content header states it."""
    sizes = body_sizes(run)
    return repeat(body_size(run), run.count) if sizes is None else sizes
