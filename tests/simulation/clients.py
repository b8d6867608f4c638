"""Publishers and consumers, as client sessions of a node: they live and die with its process."""

from __future__ import annotations

import random
import struct
from array import array
from functools import partial
from itertools import groupby
from typing import Any

from cluster.catalog.definitions import QueueDefinition
from cluster.links.confirmation import Confirmation
from cluster.links.link import PartitionLink
from cluster.links.ports import Delivery
from cluster.links.state import LinkConsumer
from node.numbers import Numbers, numbers_of
from node.runs import Run
from tests.simulation.history import History, Outcome, QueueTerms, Receipt
from tests.simulation.node import SimulatedNode
from tests.simulation.world import Action, Violation

METHOD = b"publish:"
_NAME = struct.Struct(">II")
_HEADER = struct.Struct(">BHIHHQHB")
"""A content header frame, but for its end, with the delivery mode as its only property (0-9-1 §4.2.6.1)."""

_FRAME = struct.Struct(">BHI")
FRAME_END = b"\xce"


class Session:
    """What a client session of a node is to a link (`cluster.links.link.Subscriber`)."""

    def __init__(self, node: SimulatedNode, history: History, chance: random.Random) -> None:
        self.id = history.number()
        self.node = node
        self.life = node.life
        self.closed = False
        self.history = history
        self.chance = chance

    @property
    def alive(self) -> bool:
        return self.node.life == self.life and not self.closed

    def after(self, delay: float, action: Action) -> None:
        """Do something later, unless the session has gone by then."""
        self.node.after(delay, lambda: action() if self.alive else None)

    def find(self, queue: str) -> tuple[QueueDefinition, PartitionLink] | None:
        """The queue and the link to its partition, None while this node does not know the queue."""
        definition = self.node.broker.catalog.state.queues.get(("/", queue))
        if definition is None:
            return None
        return definition, self.node.broker.link(definition.partition)

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool) -> None:
        raise Violation(f"session {self.id} has no consumers but gets a delivery")

    def confirm(self, channel: int, first: int, last: int) -> None:
        raise Violation(f"session {self.id} publishes nothing but gets a confirm")

    def reject(self, channel: int, first: int, last: int) -> None:
        raise Violation(f"session {self.id}: publishes are rejected")

    def consumer_cancelled(self, consumer: int) -> None:
        """Only a consumer minds."""

    def unblocked(self) -> None:
        """Only a publisher waits for that."""


def run_of(publisher: int, first: int, quantity: int, persistent: bool, chance: random.Random) -> Run:
    """Messages `first` and following of a publisher, of one size or of several."""
    uniform = chance.random() < 0.7
    size = chance.choice((0, 20, 100, 400))
    pieces = []
    for number in range(first, first + quantity):
        filler = bytes(size if uniform else chance.randrange(200))
        pieces.append(METHOD + content_of(publisher, number, persistent, filler))
    lengths = None if uniform else array("I", map(len, pieces))
    stride = len(pieces[0]) if uniform else 0
    largest = max(map(len, pieces))
    raw = b"".join(pieces)
    return Run("", "q", 1, persistent, quantity, len(METHOD), stride, lengths, largest, raw)


def content_of(publisher: int, number: int, persistent: bool, filler: bytes) -> bytes:
    """A message as a client sends it: owners add to the properties of what is delivered again."""
    body = _NAME.pack(publisher, number) + filler
    header = _HEADER.pack(2, 1, 15, 60, 0, len(body), 0x1000, 2 if persistent else 1)
    return header + FRAME_END + _FRAME.pack(3, 1, len(body)) + body + FRAME_END


def name_of(content: bytes) -> tuple[int, int]:
    """Publisher and number of a message."""
    header_octets = _FRAME.unpack_from(content)[2]
    publisher, number = _NAME.unpack_from(content, 2 * _FRAME.size + header_octets + len(FRAME_END))
    return publisher, number


class Publisher(Session):
    """Publishes runs on one confirmed channel, to the same queues each time."""

    def __init__(
        self, node: SimulatedNode, history: History, chance: random.Random, queues: tuple[str, ...]
    ) -> None:
        super().__init__(node, history, chance)
        self.queues = queues
        self.persistent = chance.random() < 0.9
        self.interval_s = chance.choice((0.02, 0.05, 0.15))
        self.outstanding = 0
        self.stopped = False
        self.after(chance.uniform(0.0, 0.1), self._publish)

    def _publish(self) -> None:
        if self.stopped:
            return
        found = [self.find(name) for name in self.queues]
        if all(found):
            self._send([one for one in found if one is not None])
        self.after(self.interval_s * self.chance.uniform(0.2, 1.8), self._publish)

    def _send(self, found: list[tuple[QueueDefinition, PartitionLink]]) -> None:
        links: dict[PartitionLink, list[int]] = {}
        for definition, link in found:
            links.setdefault(link, []).append(definition.id)
        if any(link.full for link in links):
            return
        quantity = self.chance.choice((1, 1, 2, 5))
        first = self.history.published(self.id, quantity, self.queues, self.persistent)
        run = run_of(self.id, first, quantity, self.persistent, self.chance)
        self.outstanding += quantity
        confirmation = Confirmation(self, 1, first, first + quantity - 1, len(links))
        for link, ids in links.items():
            link.publish(run, ids, confirmation)

    def confirm(self, channel: int, first: int, last: int) -> None:
        if self.alive:
            self.outstanding -= last - first + 1
            self.history.confirm(self.id, first, last)

    def reject(self, channel: int, first: int, last: int) -> None:
        if self.alive:
            self.outstanding -= last - first + 1
            self.history.reject(self.id, first, last)


class Consumer(Session):
    """Consumes one queue and settles, returns, discards or keeps what it gets."""

    def __init__(
        self, node: SimulatedNode, history: History, chance: random.Random, terms: QueueTerms
    ) -> None:
        super().__init__(node, history, chance)
        self.terms = terms
        self.no_ack = terms.no_ack
        self.prefetch = chance.choice((1, 3, 10, 50))
        self.think_s = chance.choice((0.0, 0.005, 0.05, 0.3))
        self.careful = chance.random() < 0.5
        self.finishing = False
        self.unsettled: dict[int, Receipt] = {}
        self.consumer: LinkConsumer | None = None
        self.attached = False
        self.after(chance.uniform(0.0, 0.05), self.begin)

    def begin(self) -> None:
        """Attach to the queue, once this node knows it."""
        found = self.find(self.terms.name)
        if found is None:
            self.after(0.05, self.begin)
            return
        self.definition, self.link = found
        self.consumer = LinkConsumer(self.id, self.definition.id, self, self.prefetch, self.no_ack, False, 0)
        self.link.attach(self.consumer, self._attached)

    def _attached(self, value: Any, delivery: Delivery | None) -> None:
        self.attached = value is None

    # -- deliveries -----------------------------------------------------------------------------

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool) -> None:
        self.receive(run, numbers, redelivered, consumer)
        if self.no_ack:
            self._grant()
            return
        delay = 0.0 if self.finishing else self.think_s * self.chance.uniform(0.5, 1.5)
        self.after(delay, partial(self._act, numbers))

    def receive(self, run: Run, numbers: Numbers, redelivered: bool, consumer: int) -> None:
        """Enter messages into the history, and into what is to be settled."""
        if not self.alive:
            raise Violation(f"consumer {self.id} on {self.node.name} is gone but gets a delivery")
        for sequence, content in zip(numbers, run.contents(), strict=True):
            publisher, number = name_of(content)
            receipt = Receipt(consumer, self.node.name, self.life, self.node.world.now)
            if self.no_ack:
                receipt.outcome = Outcome.SETTLED
            self.history.deliver(self.terms.name, publisher, number, receipt, redelivered)
            if not self.no_ack:
                self.unsettled[sequence] = receipt

    def _act(self, numbers: Numbers) -> None:
        """Decide about what was delivered; some of it may be gone by a cancellation."""
        middle = self.chance.randint(1, len(numbers))
        for part in (numbers[:middle], numbers[middle:]):
            sequences = [sequence for sequence in part if sequence in self.unsettled]
            if sequences:
                self._decide(sequences)
        self._grant()

    def _decide(self, sequences: list[int]) -> None:
        draw = 1.0 if self.careful or self.finishing else self.chance.random()
        if draw < 0.06 and not self.terms.at_most_once:
            self.finish(sequences, Outcome.RETURNED)
        elif draw < 0.10:
            self.finish(sequences, Outcome.DISCARDED)
        elif draw < 0.20:
            self.after(self.chance.uniform(0.5, 4.0), lambda: self._settle_late(sequences))
        else:
            self.finish(sequences, Outcome.SETTLED)

    def _settle_late(self, sequences: list[int]) -> None:
        left = [sequence for sequence in sequences if sequence in self.unsettled]
        if left:
            self.finish(left, Outcome.SETTLED)
        self._grant()

    def finish(self, sequences: list[int], outcome: Outcome) -> None:
        """Settle, return or discard messages that are unsettled here."""
        for sequence in sequences:
            self.unsettled.pop(sequence).outcome = outcome
        ranges = ranges_of(sequences)
        queue = self.definition.id
        if outcome is Outcome.SETTLED:
            self.link.settle(queue, ranges)
        elif outcome is Outcome.DISCARDED:
            self.link.discard(queue, ranges)
        else:
            self.link.give_back(queue, ranges, failed=self.chance.random() < 0.5)

    def _grant(self) -> None:
        consumer = self.consumer
        if consumer is not None:
            self.link.credit(self.id, consumer.delivered + self.prefetch - len(self.unsettled))

    # -- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Cancel, and give back what is not settled, as the end of a channel does."""
        if not self.attached or not self.alive:
            return
        self.link.detach(self.id)
        if self.unsettled:
            self.finish(sorted(self.unsettled), Outcome.RETURNED)
        self.closed = True

    def hurry(self) -> None:
        """Settle everything from now on."""
        self.finishing = True
        if self.unsettled:
            self.finish(sorted(self.unsettled), Outcome.SETTLED)
            self._grant()

    def consumer_cancelled(self, consumer: int) -> None:
        self.closed = True


class Getter(Consumer):
    """Asks for single messages with basic.get."""

    def begin(self) -> None:
        found = self.find(self.terms.name)
        if found is None:
            self.after(0.05, self.begin)
            return
        self.definition, self.link = found
        self._get()

    def _get(self) -> None:
        if not self.finishing:
            self.link.request("get", [self.definition.id, self.no_ack], self._got)

    def _got(self, value: Any, delivery: Delivery | None) -> None:
        if not self.alive:
            return
        if delivery is not None:
            # Each get is a consumer of its own: order is promised to nobody.
            self.receive(
                delivery.run, numbers_of(delivery.ranges), delivery.redelivered, -self.history.number()
            )
            if not self.no_ack:
                self.after(self.think_s, partial(self._act, numbers_of(delivery.ranges)))
        self.after(self.chance.uniform(0.02, 0.2), self._get)

    def close(self) -> None:
        """Nothing to cancel."""


def ranges_of(sequences: list[int]) -> list[tuple[int, int]]:
    """Ascending numbers as closed ranges."""
    found = []
    for _, group in groupby(enumerate(sequences), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in group]
        found.append((numbers[0], numbers[-1]))
    return found
