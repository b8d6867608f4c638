"""Clients that get messages: consumers of a queue, and clients with basic.get."""

from __future__ import annotations

from functools import partial

from node.wire.amqp091 import methods as m
from node.wire.amqp091.primitives import Method
from tests.simulation.clients import Client, Place, name_of
from tests.simulation.history import Outcome, QueueTerms, Receipt
from tests.simulation.routes import key_of
from tests.simulation.world import Violation


class Consumer(Client):
    """Consumes one queue, and settles, returns, discards or keeps its messages."""

    def __init__(self, place: Place, terms: QueueTerms) -> None:
        self.terms = terms
        self.finishing = False
        self.attached = False
        self.unsettled: dict[int, Receipt] = {}
        """The unsettled messages, by delivery tag."""
        # Settlements behind a request whose refusal would close the channel, and void them.
        self._doubtful: list[Receipt] = []
        self._settlements: list[tuple[int, Receipt]] = []
        """Settlements, each with the number of octets that the client had sent with it."""
        self._fresh: list[int] = []
        self._tag = ""
        super().__init__(place)
        self.no_ack = terms.no_ack
        self.prefetch = self.chance.choice((1, 3, 10, 50))
        self.think_s = self.chance.choice((0.0, 0.005, 0.05, 0.3))
        self.careful = self.chance.random() < 0.5

    def opened(self) -> None:
        self.request(m.BasicQos(0, self.prefetch), lambda _: None)
        self.history.asks(self.terms.name, self.node.name)
        self.request(m.BasicConsume(self.terms.name, no_ack=self.no_ack), self._attached)

    def _attached(self, answer: Method) -> None:
        assert isinstance(answer, m.BasicConsumeOk)
        self._tag = answer.consumer_tag
        self.attached = True

    def refused(self, code: int, text: str) -> None:
        """The queue's only node is down: the channel's messages go back, and the consumer tries again."""
        if code != m.ReplyCode.NOT_FOUND or len(self.terms.replicas) > 1:
            super().refused(code, text)
        self.start_again()

    def sent_away(self) -> None:
        super().sent_away()
        self.give_up()

    def start_again(self) -> None:
        """Consume again on a new channel, after a while."""
        self.attached = False
        self.give_up()
        self.after(0.05, self._open_channel)

    def give_up(self) -> None:
        """The channel is closed: its unsettled messages go back to the queue."""
        for receipt in (*self.unsettled.values(), *self._doubtful):
            receipt.outcome = Outcome.RETURNED
        self.unsettled.clear()
        self._doubtful.clear()
        self._fresh.clear()

    # -- deliveries -----------------------------------------------------------------------------

    def delivered(self, method: m.BasicDeliver, content: bytes) -> None:
        if self.closed:
            # The consumer has left the channel, and the messages go back to the queue.
            return
        expected = key_of(method.exchange, *name_of(content))
        if expected and method.routing_key != expected:
            raise Violation(f"a delivery of {expected} has the routing key {method.routing_key}")
        self.receive(method.delivery_tag, content, method.redelivered, self.id)
        if not self.no_ack:
            self._fresh.append(method.delivery_tag)

    def read(self) -> None:
        fresh, self._fresh = self._fresh, []
        if fresh:
            delay = 0.0 if self.finishing else self.think_s * self.chance.uniform(0.5, 1.5)
            self.after(delay, partial(self._act, fresh))

    def receive(self, tag: int, content: bytes, redelivered: bool, consumer: int) -> None:
        """Add a message to the history and to the unsettled ones."""
        publisher, number = name_of(content)
        receipt = Receipt(
            consumer, self.node.name, self.life, self.node.world.now,
            sent=self.connection.sent_at, closed=self.connection.given_back_at,
        )  # fmt: skip
        if self.no_ack:
            receipt.outcome = Outcome.SETTLED
        self.history.deliver(self.terms.name, publisher, number, receipt, redelivered)
        if not self.no_ack:
            self.unsettled[tag] = receipt

    def _act(self, tags: list[int]) -> None:
        """Decide about delivered messages."""
        middle = self.chance.randint(1, len(tags))
        for part in (tags[:middle], tags[middle:]):
            left = [tag for tag in part if tag in self.unsettled]
            if left:
                self._decide(left)

    def _decide(self, tags: list[int]) -> None:
        draw = 1.0 if self.careful or self.finishing else self.chance.random()
        if draw < 0.06 and not self.terms.at_most_once:
            self.finish(tags, Outcome.RETURNED)
        elif draw < 0.10:
            self.finish(tags, Outcome.DISCARDED)
        elif draw < 0.20:
            self.after(self.chance.uniform(0.5, 4.0), lambda: self._settle_late(tags))
        else:
            self.finish(tags, Outcome.SETTLED)

    def _settle_late(self, tags: list[int]) -> None:
        left = [tag for tag in tags if tag in self.unsettled]
        if left:
            self.finish(left, Outcome.SETTLED)

    def finish(self, tags: list[int], outcome: Outcome) -> None:
        """Settle, return or discard unsettled messages."""
        multiple = len(tags) > 1 and tags == list(self.unsettled)[: len(tags)]
        receipts = [self.unsettled.pop(tag) for tag in tags]
        for receipt in receipts:
            receipt.outcome = outcome
        if self._answers:
            self._doubtful += receipts
        for tag in tags[-1:] if multiple else tags:
            if outcome is Outcome.SETTLED:
                self.send(m.BasicAck(tag, multiple))
            else:
                self.send(m.BasicNack(tag, multiple, requeue=outcome is Outcome.RETURNED))
        self._settlements.extend((self.connection.sent, receipt) for receipt in receipts)

    # -- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """End in one of several ways. Unsettled messages go back to the queue."""
        if not self.attached or not self.alive:
            return
        draw = self.chance.random()
        if draw < 0.4:
            self.send(m.BasicCancel(self._tag, nowait=self.chance.random() < 0.5))
        if draw < 0.7:
            self.send(m.ChannelClose(200, "done"))
        elif draw < 0.9:
            self.connection.send(0, m.ConnectionClose(200, "done"))
        else:
            self.connection.drop(self._not_read)
        self.closed = True
        self.give_up()

    def _not_read(self, read: int) -> None:
        """The node has lost this client, and processes no settlement behind so many octets."""
        for sent, receipt in self._settlements:
            if sent > read:
                receipt.outcome = Outcome.RETURNED

    def hurry(self) -> None:
        """Settle everything from now on."""
        self.finishing = True
        if self.alive and self.unsettled:
            self.finish(list(self.unsettled), Outcome.SETTLED)

    def received(self, method: Method, content: bytes) -> None:
        if not self.closed or self.node.leaving:
            super().received(method, content)


class Getter(Consumer):
    """Asks for single messages with basic.get."""

    def opened(self) -> None:
        self._get()

    def _get(self) -> None:
        if not self.finishing:
            self.history.asks(self.terms.name, self.node.name)
            self.request(m.BasicGet(self.terms.name, self.no_ack), self._answered)

    def got(self, method: m.BasicGetOk, content: bytes) -> None:
        # Each get counts as a consumer of its own, because the order over gets is not guaranteed.
        self.receive(method.delivery_tag, content, method.redelivered, -self.history.number())
        if not self.no_ack:
            self.after(self.think_s, partial(self._act, [method.delivery_tag]))

    def _answered(self, answer: Method) -> None:
        self._doubtful.clear()
        self.after(self.chance.uniform(0.02, 0.2), self._get)

    def close(self) -> None:
        """End without a basic.cancel."""
