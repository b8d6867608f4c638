"""The checks of a history, one for each promise. Pure.

A consumer *loses its node* when the node is killed or frozen while the consumer is connected there. A
consumer's unsettled messages may go to another consumer only when the consumer loses its node, ends, or
returns them.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Final

from chaos.history import Event
from chaos.ledger import Client, Delivery, Ledger, Message


@dataclass(frozen=True, slots=True)
class Allowances:
    """Tolerances of the checks for facts that no client can observe, in seconds."""

    settle: float = 2.0
    """An acknowledgement sent so long before its connection is lost counts as one that has reached
    the owner.
    """

    read: float = 5.0
    """Clients may notice a node's freeze so long after the node goes on."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise, and the evidence."""

    promise: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.evidence}"


def check(events: Iterable[Event], allowances: Allowances | None = None) -> list[Violation]:
    """Every promise broken in a history that ends with drained queues. Raises BrokenHistoryError."""
    return judge(Ledger.of(events), allowances)


def judge(ledger: Ledger, allowances: Allowances | None = None) -> list[Violation]:
    """As `check`, for a history that is a ledger already."""
    return [violation for rule in RULES for violation in rule(ledger, allowances or Allowances())]


def lost(ledger: Ledger, _: Allowances) -> Iterator[Violation]:
    """Each confirmed message was settled by a consumer, except in at-most-once queues."""
    for message in ledger.confirmed:
        if ledger.queues[ledger.queue_of(message)]:
            continue
        deliveries = ledger.deliveries.get(message, [])
        if not any(delivery.settled is not None for delivery in deliveries):
            had = ", ".join(delivery.consumer.name for delivery in deliveries) or "no consumer"
            yield Violation("confirmed and lost", f"{message}, delivered to {had} and settled by none")


def doubled(ledger: Ledger, _: Allowances) -> Iterator[Violation]:
    """An at-most-once queue delivers no message twice."""
    for message, deliveries in ledger.deliveries.items():
        if ledger.queues[ledger.queue_of(message)] and len(deliveries) > 1:
            names = ", ".join(delivery.consumer.name for delivery in deliveries)
            yield Violation("at-most-once twice", f"{message} was delivered to {names}")


def invented(ledger: Ledger, _: Allowances) -> Iterator[Violation]:
    """A queue delivers only messages that were published to it, and a message is confirmed at most once."""
    for event in ledger.unknown:
        yield Violation("delivered but not published", f"{event}")
    for message, times in ledger.confirmed.items():
        if message not in ledger.published:
            yield Violation("confirmed but not published", f"{message}")
        if len(times) > 1:
            yield Violation("confirmed twice", f"{message} at {times}")


def unanswered(ledger: Ledger, _: Allowances) -> Iterator[Violation]:
    """Each publish on an unbroken channel is confirmed or refused, and not both."""
    for message in ledger.published:
        answers = (message in ledger.confirmed) + (message in ledger.refused)
        if answers == 0 and not ledger.publishers[message.publisher].broken:
            yield Violation("never confirmed", f"{message}")
        if answers == 2:
            yield Violation("confirmed and refused", f"{message}")


def disordered(ledger: Ledger, _: Allowances) -> Iterator[Violation]:
    """The first deliveries of one publisher's messages come in the order of the publishes: to each consumer,
    and over consumers of a queue of which one began after the end of the other.
    """
    firsts: dict[tuple[str, str], dict[str, list[tuple[float, int]]]] = defaultdict(lambda: defaultdict(list))
    for message, deliveries in ledger.deliveries.items():
        for delivery in deliveries:
            if not delivery.redelivered:
                by_consumer = firsts[delivery.consumer.queue, message.publisher]
                by_consumer[delivery.consumer.name].append((delivery.time, message.number))
    for (queue, publisher), by_consumer in firsts.items():
        for consumer, seen in by_consumer.items():
            yield from _ascending(f"{queue} to {consumer}, from {publisher}", seen)
        yield from _one_after_the_other(ledger, queue, publisher, by_consumer)


def _ascending(where: str, seen: list[tuple[float, int]]) -> Iterator[Violation]:
    # Events with equal times come from one callback. Sorting is stable, so they keep the ledger's order.
    numbers = [number for _, number in sorted(seen, key=lambda pair: pair[0])]
    for earlier, later in itertools.pairwise(numbers):
        if later < earlier:
            yield Violation("out of order", f"{where}: {later} after {earlier}")


def _one_after_the_other(
    ledger: Ledger, queue: str, publisher: str, by_consumer: dict[str, list[tuple[float, int]]]
) -> Iterator[Violation]:
    spans = [
        (ledger.consumers[name], min(number for _, number in seen), max(number for _, number in seen))
        for name, seen in by_consumer.items()
    ]
    for before, _, highest in spans:
        for after, lowest, _ in spans:
            if before.closed <= after.opened and lowest < highest:
                text = f"{queue} from {publisher}: {lowest} to {after.name}, which began after the end of "
                yield Violation("out of order", f"{text}{before.name}, which had {highest}")


def redelivered(ledger: Ledger, allowances: Allowances) -> Iterator[Violation]:
    """A message is redelivered, and marked so, only when the consumer that had it unsettled has returned it,
    has ended, or has lost its node.
    """
    for message, deliveries in ledger.deliveries.items():
        if len(deliveries) < 2:
            continue
        if sum(not delivery.redelivered for delivery in deliveries) > 1:
            names = ", ".join(delivery.consumer.name for delivery in deliveries)
            yield Violation("redelivered unmarked", f"{message} at {names}")
        # A frozen node's delivery may be read after the same message came from another node.
        ordered = sorted(deliveries, key=lambda one: (one.redelivered, _left(ledger, one, allowances)))
        for had, again in itertools.pairwise(ordered):
            reason = _not_given_up(ledger, had, again.time, allowances)
            if reason is not None:
                text = f"{message} came to {again.consumer.name} at {again.time:.3f}, but {reason}"
                yield Violation("redelivered without cause", text)


def _left(ledger: Ledger, delivery: Delivery, allowances: Allowances) -> float:
    """The latest time at which the delivery can have left its node."""
    return min(delivery.time, _node_lost(ledger, delivery, allowances))


def _node_lost(ledger: Ledger, delivery: Delivery, allowances: Allowances) -> float:
    """The time at which the delivery's consumer lost its node: after it read the delivery, or
    shortly before.
    """
    starts = [
        fault.start
        for fault in ledger.faults_of(delivery.consumer.node)
        if delivery.consumer.opened <= fault.start < delivery.consumer.closed
        and delivery.time < fault.end + allowances.read
    ]
    return min(starts, default=inf)


def _not_given_up(ledger: Ledger, had: Delivery, by: float, allowances: Allowances) -> str | None:
    """The reason why the message was not free for another consumer at the time `by`; None if it was free."""
    where = f"{had.consumer.name} on {had.consumer.node}"
    if had.returned is not None and had.returned <= by:
        return None
    node_lost = _node_lost(ledger, had, allowances)
    gone = min(node_lost, had.consumer.closed)
    if had.settled is not None:
        clean = had.consumer.closed < node_lost and not had.consumer.broken
        if clean or had.settled < gone - allowances.settle:
            return f"{where} had settled it at {had.settled:.3f}"
    if gone <= by:
        return None
    return f"{where} has it since {had.time:.3f} and is alive"


def disturbed(ledger: Ledger, allowances: Allowances) -> Iterator[Violation]:
    """Clients of nodes without a fault lose no connection, channel or subscription, and get no nack."""
    for client in (*ledger.publishers.values(), *ledger.consumers.values()):
        if client.broken and not _hurt(ledger, client, allowances):
            yield Violation("disturbed", f"{client.name} on {client.node} was broken at {client.closed:.3f}")
    refused: dict[str, Message] = {}
    for message in ledger.refused:
        refused.setdefault(message.publisher, message)
    for name, message in refused.items():
        client = ledger.publishers[name]
        if not _hurt(ledger, client, allowances):
            yield Violation("disturbed", f"{message} was refused on {client.node}, which is well")


def unrecovered(ledger: Ledger, _: Allowances) -> Iterator[Violation]:
    """No node ends by itself, and each node takes clients again after its fault is healed."""
    for event in ledger.ended:
        yield Violation("ended by itself", f"{event.node} at {event.time:.3f}, with {event.code}")
    for fault in ledger.faults:
        if fault.end == inf:
            yield Violation("not recovered", f"{fault.node}, {fault.kind} at {fault.start:.3f}")


def _hurt(ledger: Ledger, client: Client, allowances: Allowances) -> bool:
    """Whether the client's node had a fault while the client was open, or so shortly before that it shows."""
    return any(
        fault.start <= client.closed and client.opened <= fault.end + allowances.read
        for fault in ledger.faults_of(client.node)
    )


RULES: Final[tuple[Callable[[Ledger, Allowances], Iterator[Violation]], ...]] = (
    lost,
    doubled,
    invented,
    unanswered,
    disordered,
    redelivered,
    disturbed,
    unrecovered,
)
