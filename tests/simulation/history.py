"""What the clients saw, and the promises that are checked on nothing else.

A message is named by its publisher and its number there. A *receipt* is one delivery of a message
from one queue to one client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Any, Protocol

from cluster.peers.link_messages import FIRST_CONSUMER
from tests.simulation.world import Violation


class Outcome(Enum):
    """What a consumer did with a delivery."""

    SETTLED = "settled"
    DISCARDED = "discarded"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class QueueTerms:
    """A queue as clients know it. `removing`: messages are gone before they are delivered."""

    name: str
    replicas: tuple[str, ...]
    at_most_once: bool = False
    no_ack: bool = False
    transient: bool = False

    def declared(self, replicas: int) -> dict[str, Any]:
        """The arguments that the queue is declared with; a queue of one replica is a classic one."""
        arguments: dict[str, Any] = {"x-quorum-initial-group-size": replicas}
        if replicas == 1:
            arguments = {"x-queue-type": "classic"}
        if self.at_most_once:
            arguments["x-semantics"] = "at-most-once"
        return arguments

    @property
    def removing(self) -> bool:
        """Whether a message may be lost on its way, and never come twice."""
        return self.at_most_once or self.no_ack


@dataclass(slots=True)
class Receipt:
    """One delivery: to whom, in which life of the consumer's node, and what became of it."""

    consumer: int
    node: str
    life: int
    time: float
    outcome: Outcome | None = None
    transaction: Transaction | None = None

    @property
    def done(self) -> bool:
        """Whether the message need not be delivered again, as far as can be told by now."""
        if self.transaction is not None and self.transaction.committed:
            return True
        return self.outcome in (Outcome.SETTLED, Outcome.DISCARDED)


@dataclass(slots=True)
class Message:
    """One published message."""

    publisher: int
    number: int
    queues: tuple[str, ...]
    persistent: bool
    time: float
    confirmed: bool = False
    rejected: bool = False
    """Whether its publisher was told that nobody knows what became of it."""
    receipts: dict[str, list[Receipt]] = field(default_factory=dict)
    transaction: Transaction | None = None

    def __str__(self) -> str:
        return f"message {self.number} of publisher {self.publisher}"


@dataclass(slots=True)
class Transaction:
    """Publishes and settlements of one commit. `answer`: whether it was done; None: nobody was told.

    `node`, `life`: where its client is, and in which life of that node.
    """

    messages: list[Message]
    receipts: list[Receipt]
    node: str
    life: int
    answer: bool | None = None
    refused: bool = False
    """Whether the broker did not carry out a commit; otherwise it is the client that has rolled back."""
    seen: bool = False
    """Whether somebody got one of the messages."""
    undone: bool = False
    """Whether somebody got what it has settled, without any other excuse than that it was not committed."""
    accusations: list[str] = field(default_factory=list)
    """Deliveries of what the client has not settled, which only a refusal excuses: it closes the channel, of
    which the client hears last."""

    @property
    def committed(self) -> bool:
        return self.answer is True or self.seen

    def check(self) -> None:
        """A19: all or nothing. What it has published has been delivered by now, if it ever will."""
        places = [queue in message.receipts for message in self.messages for queue in message.queues]
        if any(places) and not all(places):
            raise Violation(f"only {sum(places)} of {len(places)} places have what one commit published")
        if self.committed and self.undone:
            raise Violation(f"{self.messages[0]} was committed, but not what was settled with it")
        if self.answer is False and any(places):
            raise Violation(f"{self.messages[0]} was delivered, but not committed")


class Circumstances(Protocol):
    """What the checks must know of the faults."""

    def now(self) -> float: ...

    def lost(self, receipt: Receipt) -> bool:
        """Whether a receipt's node died since, or was cut off for so long that it may be given up."""

    def cut_off(self, receipt: Receipt) -> bool:
        """Whether a receipt's node was out of reach for so long that its leases may be given up."""

    def disturbed(self, since: float) -> bool:
        """Whether an owner changed, a process ended or a connection broke since then."""


class History:
    """Everything that clients did and saw; raises Violation as soon as a promise is broken."""

    def __init__(self, queues: Iterable[QueueTerms], circumstances: Circumstances) -> None:
        self.queues = {queue.name: queue for queue in queues}
        self.messages: dict[int, list[Message]] = {}
        self.delivered = 0
        self.confirmed = 0
        self.redelivered = 0
        self.transactions: list[Transaction] = []
        self._unanswered: dict[int, Transaction] = {}
        """By client: what it has asked to commit."""
        self._numbers = count(FIRST_CONSUMER)
        self._circumstances = circumstances
        # The nodes that consumers of a queue were on.
        self._places: dict[str, set[str]] = {}
        # The number of the last first delivery, by consumer and publisher.
        self._latest: dict[tuple[int, int], int] = {}

    def number(self) -> int:
        """A number for a session that no other has."""
        return next(self._numbers)

    # -- publishers -----------------------------------------------------------------------------

    def published(self, publisher: int, count: int, queues: tuple[str, ...], persistent: bool) -> int:
        """The next `count` messages of a publisher; returns the number of the first, from 1 on."""
        own = self.messages.setdefault(publisher, [])
        first = len(own) + 1
        now = self._circumstances.now()
        own += [Message(publisher, first + i, queues, persistent, now) for i in range(count)]
        return first

    def confirm(self, publisher: int, first: int, last: int) -> None:
        """The broker takes responsibility for a range of messages."""
        for message in self.messages[publisher][first - 1 : last]:
            self._check_unanswered(message)
            message.confirmed = True
            self.confirmed += 1

    def reject(self, publisher: int, first: int, last: int) -> None:
        """The broker does not: where one node that was away for a while has a queue alone."""
        for message in self.messages[publisher][first - 1 : last]:
            self._check_unanswered(message)
            if all(len(self.queues[name].replicas) > 1 for name in message.queues):
                raise Violation(f"{message} is rejected by queues with several replicas")
            message.rejected = True

    def _check_unanswered(self, message: Message) -> None:
        if message.confirmed or message.rejected:
            raise Violation(f"{message} is answered twice")

    # -- consumers ------------------------------------------------------------------------------

    def deliver(self, queue: str, publisher: int, number: int, receipt: Receipt, redelivered: bool) -> None:
        """A client got a message."""
        own = self.messages.get(publisher, [])
        if not 0 < number <= len(own) or queue not in own[number - 1].queues:
            raise Violation(f"{queue} delivers what nobody published: {publisher}, {number}")
        message = own[number - 1]
        if message.transaction is not None:
            message.transaction.seen = True
        self.delivered += 1
        self.redelivered += redelivered
        self._places.setdefault(queue, set()).add(receipt.node)
        earlier = message.receipts.setdefault(queue, [])
        if earlier:
            self._check_again(queue, message, earlier)
            self._check_flag(queue, message, receipt, redelivered)
        if not redelivered:
            self._check_order(queue, message, receipt)
        earlier.append(receipt)

    def _check_again(self, queue: str, message: Message, earlier: list[Receipt]) -> None:
        """D2: at-most-once never twice; at-least-once only what came back or was lost with its node.

        A transient message of which only the owner that died knew is published anew to the next one,
        unless the queue is an at-most-once one.
        """
        if self.queues[queue].at_most_once:
            raise Violation(f"{queue} removes before it delivers, but delivers {message} twice")
        if not message.persistent and self._circumstances.disturbed(message.time):
            return
        if self.queues[queue].removing:
            raise Violation(f"{queue} removes before it delivers, but delivers {message} twice")
        for receipt in earlier:
            if receipt.transaction is not None and receipt.outcome is not Outcome.RETURNED:
                receipt.transaction.undone |= not self._circumstances.cut_off(receipt)
            if receipt.outcome is not Outcome.RETURNED and not self._circumstances.lost(receipt):
                state = "unsettled" if receipt.outcome is None else receipt.outcome.value
                accusation = (
                    f"{queue} delivers {message} again, which is {state} since {receipt.time:.4f} "
                    f"at consumer {receipt.consumer} on {receipt.node}, which is alive"
                )
                unanswered = self._unanswered.get(receipt.consumer)
                if unanswered is None or receipt.outcome is not None:
                    raise Violation(accusation)
                unanswered.accusations.append(accusation)

    def _check_flag(self, queue: str, message: Message, receipt: Receipt, redelivered: bool) -> None:
        """AMQP 0-9-1 (basic.deliver): `redelivered` says that a client had the message before.

        A transient message may be published anew. A node that wakes up hands out what the owner sent to that
        node first, while another client has had the message since.
        """
        if not message.persistent and self._circumstances.disturbed(message.time):
            return
        if not redelivered and not self._circumstances.cut_off(receipt):
            raise Violation(f"{queue} delivers {message} again without saying so")

    def _check_order(self, queue: str, message: Message, receipt: Receipt) -> None:
        """A22: one channel's messages come to one consumer as they were published.

        What was lost on its way to a consumer of another node comes late to this one.
        """
        key = (receipt.consumer, message.publisher)
        latest = self._latest.get(key, 0)
        excused = len(self._places[queue]) > 1 or not message.persistent
        late = excused and self._circumstances.disturbed(message.time)
        if message.number < latest and not late:
            raise Violation(f"{queue} delivers {message} to consumer {receipt.consumer} after {latest}")
        self._latest[key] = max(latest, message.number)

    # -- transactions ---------------------------------------------------------------------------

    def begin(
        self,
        publisher: int,
        publishes: Iterable[tuple[int, int]],
        receipts: list[Receipt],
        node: str,
        life: int,
    ) -> Transaction:
        """A commit is asked for: of messages of a client, by first number and count, and of its receipts."""
        own = self.messages[publisher]
        messages = [own[first - 1 + i] for first, quantity in publishes for i in range(quantity)]
        transaction = Transaction(messages, receipts, node, life)
        self.transactions.append(transaction)
        self._unanswered[publisher] = transaction
        for message in messages:
            message.transaction = transaction
        for receipt in receipts:
            receipt.transaction = transaction
        return transaction

    def answered(self, transaction: Transaction, *, done: bool, refused: bool = False) -> None:
        """A commit is done, or was rolled back or refused: then what it would have settled is back."""
        transaction.answer, transaction.refused = done, refused
        self._unanswered = {who: one for who, one in self._unanswered.items() if one is not transaction}
        if transaction.accusations and not refused:
            raise Violation(transaction.accusations[0])
        for receipt in transaction.receipts:
            receipt.outcome = Outcome.SETTLED if done else Outcome.RETURNED
        for message in transaction.messages if done else ():
            message.confirmed = True
            self.confirmed += 1

    # -- the end --------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        for own in self.messages.values():
            yield from own

    def unfinished(self, keeps: Callable[[QueueTerms, Message], bool]) -> list[tuple[str, Message]]:
        """Confirmed messages that no consumer of a queue that must keep them is done with.

        `keeps`: whether the faults of this run leave the queue responsible for the message.
        """
        found = []
        for message in self:
            if not message.confirmed:
                continue
            for name in message.queues:
                done = self._is_done(message.receipts.get(name, []))
                if not done and keeps(self.queues[name], message):
                    found.append((name, message))
        return found

    def _is_done(self, receipts: list[Receipt]) -> bool:
        """Whether the last consumer is done with a message, or an earlier one that was given up: what that
        has settled counts when it is back.
        """
        if receipts and receipts[-1].done:
            return True
        return any(receipt.done and self._circumstances.cut_off(receipt) for receipt in receipts)
