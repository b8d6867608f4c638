"""Consumers that are shown copies of a queue's messages (docs/decisions/0021-browsing.md).

The owner has no such consumer: a browsing consumer is a question of its front end, which asks for the page
behind the last message that it has shown. Where there is no message, the owner answers when there is one. A
new owner gets the question again, like every request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cluster.gateway.browsing import BEGINNING, Bookmark
from cluster.gateway.link import Links, PartitionLink
from cluster.gateway.reading import Reading
from cluster.gateway.refusals import refusal_of
from cluster.gateway.state import unanswered
from cluster.gateway.streams import Streams
from cluster.peers.link_messages import NOT_FOUND, NOTHING_TO_GET, UNREACHABLE
from node.message.bookmarks import bookmark_of
from node.message.run import Run, joined
from node.queue.entry_format import read_run
from node.ranges.range_set import Range
from node.ranges.ranked_numbers import HIGHEST_RANK
from node.refusal import Refusal
from node.session.ports import ConsumerOptions, QueueRef
from node.session.subscriber import Subscriber
from node.wire.formats import format_of


@dataclass(slots=True)
class BrowsingConsumer:
    """One browsing consumer. It has been shown `delivered` messages, the last one at `place`.

    Messages up to the number `through` were there when it began. `question` is the number of its newest
    question to the owner, and `idle` says that this one asks for no message. `drains` wait for the answer.
    With `revokes` they take the credit away. A reader of a `stream` is told the offset of each message, and
    with `tells` the bookmark.
    """

    number: int
    queue: QueueRef
    link: PartitionLink
    subscriber: Subscriber
    limit: int
    filter: bytes = b""
    stream: bool = False
    tells: bool = False
    delivered: int = 0
    place: Bookmark = BEGINNING
    through: int = 0
    question: int = 0
    idle: bool = False
    drains: list[Callable[[], None]] = field(default_factory=list)
    revokes: bool = False
    reading: Reading | None = None
    """The subscription of a reader of a stream; None without one."""

    @property
    def credit(self) -> int:
        """How many messages it takes now."""
        return max(0, self.limit - self.delivered)

    def end_drains(self) -> None:
        """Everything that was there has been shown, up to the limit."""
        drains, self.drains = self.drains, []
        if drains and self.revokes:
            self.limit = self.delivered
        for done in drains:
            done()


class BrowsingConsumers:
    """The browsing consumers of one front end. Calls for other consumers are ignored."""

    def __init__(self, links: Links, streams: Streams) -> None:
        self.streams = streams
        self._links = links
        self._consumers: dict[int, BrowsingConsumer] = {}
        self._readings: dict[int, Reading] = {}

    def begin(
        self,
        number: int,
        subscriber: Subscriber,
        queue: QueueRef,
        options: ConsumerOptions,
        answer: Callable[[int, Refusal | None], None],
        *,
        stream: bool,
    ) -> None:
        """Answers the number of the consumer once the owner knows where it begins, or a refusal."""
        link = self._links.to(queue.partition)
        consumer = BrowsingConsumer(
            number, queue, link, subscriber, options.limit, options.filter, stream, stream and options.tells
        )

        def began(value: Any, _: object) -> None:
            refusal = refusal_of(queue, value)
            if refusal is None:
                if stream:
                    consumer.place = Bookmark(HIGHEST_RANK, value[0])
                    if options.subscription:
                        consumer.reading = self._readings[number] = Reading(
                            self._links, link, queue.id, options.subscription, options.no_ack
                        )
                else:
                    consumer.through = value[0]
                self._consumers[number] = consumer
            answer(number, refusal)
            self._ask(consumer)

        if stream:
            asked: list[Any] = [*NOTHING_TO_GET, queue.id, *options.offset]
            if options.subscription:
                asked.append(options.subscription)
            self._links.request(link, "stream_place", asked, began)
        else:
            arguments = [*NOTHING_TO_GET, queue.id, number, BEGINNING.level, BEGINNING.number, 0, 0, False]
            self._links.request(link, "browse_next", arguments, began)

    def credit(self, number: int, limit: int) -> None:
        """See `node.session.ports.BrokerPort.credit`."""
        consumer = self._consumers.get(number)
        if consumer is not None:
            consumer.limit, consumer.revokes = limit, False
            if consumer.idle and consumer.credit:
                self._ask(consumer)

    def drain(self, number: int, limit: int, done: Callable[[], None]) -> None:
        """See `node.session.ports.BrokerPort.drain`."""
        consumer = self._consumers.get(number)
        if consumer is None:
            done()
            return
        consumer.limit, consumer.revokes = limit, True
        consumer.drains.append(done)
        if consumer.link.unreachable:
            consumer.end_drains()
        else:
            self._ask(consumer)

    def end(self, number: int) -> None:
        """Show the consumer nothing more."""
        consumer = self._consumers.pop(number, None)
        if consumer is not None:
            consumer.end_drains()
            arguments = [*NOTHING_TO_GET, consumer.queue.id, number]
            self._links.request(consumer.link, "stop", arguments, unanswered)

    def settled(self, number: int, ranges: list[Range]) -> None:
        """A reader has settled messages, which may have ended."""
        reading = self._readings.get(number)
        if reading is not None:
            reading.settled(ranges)

    def forget(self, number: int) -> None:
        """The client of a reader settles nothing more."""
        self._readings.pop(number, None)

    def _ask(self, consumer: BrowsingConsumer) -> None:
        """Ask for the next messages. An earlier question of the consumer is void: its answer is ignored."""
        if consumer.number not in self._consumers:
            return
        consumer.question += 1
        consumer.idle = not consumer.credit
        arguments: list[Any] = [
            *NOTHING_TO_GET,
            consumer.queue.id,
            consumer.number,
            consumer.place.level,
            consumer.place.number,
            consumer.through,
            consumer.credit,
            not consumer.drains,
        ]
        if consumer.filter:
            arguments.append(consumer.filter)
        answered = partial(self._answered, consumer, consumer.question)
        self._links.request(consumer.link, "browse_next", arguments, answered)

    def _answered(self, consumer: BrowsingConsumer, question: int, value: Any, _: object) -> None:
        if question != consumer.question or consumer.number not in self._consumers:
            return
        if value == NOT_FOUND:
            del self._consumers[consumer.number]
            consumer.end_drains()
            consumer.subscriber.consumer_cancelled(consumer.number)
            return
        rows = [] if value == UNREACHABLE else value[1]
        if not rows and value != UNREACHABLE and value[2:]:
            # The consumer's filter takes none of the messages that the owner has looked at up to there.
            consumer.place = Bookmark(*value[2:])
            if consumer.reading is not None:
                consumer.reading.passed(consumer.place.number)
        self._show(consumer, rows)
        if not (rows and consumer.credit):
            consumer.end_drains()
        self._ask(consumer)

    def _show(self, consumer: BrowsingConsumer, rows: list[list[Any]]) -> None:
        """Show messages, as far as the consumer has credit and does not end."""
        for level, number, redelivered, data in rows:
            if not consumer.credit or consumer.number not in self._consumers:
                break
            run = read_run(data, 0)
            run = run.slice(0, min(run.count, consumer.credit))
            numbers = range(number, number + run.count)
            consumer.place = Bookmark(level, numbers[-1])
            consumer.delivered += run.count
            if consumer.stream:
                run = self._told(consumer, run, number)
            if consumer.reading is not None:
                consumer.reading.delivered(number, numbers[-1])
            consumer.subscriber.deliver(consumer.number, run, numbers, redelivered, consumer.number)

    def _told(self, consumer: BrowsingConsumer, run: Run, first: int) -> Run:
        """The messages, numbered from `first` on, as a reader of a stream gets them."""
        told = format_of(run).with_offsets(run, first)
        if not consumer.tells:
            return told
        messages, id = format_of(told), consumer.queue.id
        ones = (told.slice(index, 1) for index in range(run.count))
        return joined(
            [
                messages.with_lease(one, bookmark_of(id, number), None)
                for number, one in enumerate(ones, first)
            ]
        )
