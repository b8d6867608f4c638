"""The history of the clients, and the promises that are checked by this history alone.

The name of a message is its publisher and its number there. A *receipt* is one delivery of a message from one
queue to one client.
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
    """The outcome that a consumer gave a delivery."""

    SETTLED = "settled"
    DISCARDED = "discarded"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class QueueTerms:
    """A queue as clients know it. `removing`: messages are removed before they are delivered."""

    name: str
    replicas: tuple[str, ...]
    at_most_once: bool = False
    no_ack: bool = False
    transient: bool = False

    def declared(self, replicas: int) -> dict[str, Any]:
        """The arguments of the queue's declaration; a queue of one replica is a classic one."""
        arguments: dict[str, Any] = {"x-quorum-initial-group-size": replicas}
        if replicas == 1:
            arguments = {"x-queue-type": "classic"}
        if self.at_most_once:
            arguments["x-semantics"] = "at-most-once"
        return arguments

    @property
    def removing(self) -> bool:
        """Whether a message may be lost on its way, and must not be delivered twice."""
        return self.at_most_once or self.no_ack


@dataclass(slots=True)
class Receipt:
    """One delivery: its consumer, the life of the consumer's node, and its outcome.

    The client has got the message at `time`. The node has sent the message at `sent`. `closed` is the time at
    which the node closed the client's connection or channel, if the message was on its way then: the node
    gave it back.
    """

    consumer: int
    node: str
    life: int
    time: float
    outcome: Outcome | None = None
    transaction: Transaction | None = None
    sent: float = 0.0
    closed: float = float("inf")
    redelivered: bool = False

    @property
    def done(self) -> bool:
        """Whether the message need not be delivered again, by the facts so far."""
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
    """Whether the broker refused the message because its outcome is unknown."""
    receipts: dict[str, list[Receipt]] = field(default_factory=dict)
    transaction: Transaction | None = None

    def __str__(self) -> str:
        return f"message {self.number} of publisher {self.publisher}"


@dataclass(slots=True)
class Transaction:
    """The publishes and settlements of one commit. `answer`: whether the commit was done; None: there was no
    answer.

    `node` and `life` are the client's node and that node's life.
    """

    messages: list[Message]
    receipts: list[Receipt]
    node: str
    life: int
    answer: bool | None = None
    refused: bool = False
    """Whether the broker has refused the commit; otherwise the client has rolled back."""
    seen: bool = False
    """Whether a client got one of the messages."""
    undone: bool = False
    """Whether a client got a message that the transaction settles, which only a missing commit excuses."""
    accusations: list[str] = field(default_factory=list)
    """Deliveries of what the client has not settled, which only a refusal excuses: it closes the channel, of
    which the client hears last."""

    @property
    def committed(self) -> bool:
        return self.answer is True or self.seen

    def check(self) -> None:
        """Check that all of the transaction took effect or none (A19). Published messages that are in queues
        have been delivered by now.
        """
        places = [queue in message.receipts for message in self.messages for queue in message.queues]
        if any(places) and not all(places):
            raise Violation(f"only {sum(places)} of {len(places)} places have what one commit published")
        if self.committed and self.undone:
            raise Violation(f"{self.messages[0]} was committed, but not what was settled with it")
        if self.answer is False and any(places):
            raise Violation(f"{self.messages[0]} was delivered, but not committed")


class Circumstances(Protocol):
    """The faults, as the checks need to know them."""

    def now(self) -> float: ...

    def lost(self, receipt: Receipt) -> bool:
        """Whether a receipt's node has ended since, or was cut off for so long that owners may give it up."""

    def cut_off(self, receipt: Receipt) -> bool:
        """Whether a receipt's node was out of reach for so long that owners may give its leases up."""

    def disturbed(self, since: float) -> bool:
        """Whether an owner has changed, a process ended or a connection broken since then."""


class History:
    """The actions and observations of all clients. Raises Violation as soon as a promise is broken."""

    def __init__(self, queues: Iterable[QueueTerms], circumstances: Circumstances) -> None:
        self.queues = {queue.name: queue for queue in queues}
        self.messages: dict[int, list[Message]] = {}
        self.delivered = 0
        self.confirmed = 0
        self.redelivered = 0
        self.transactions: list[Transaction] = []
        self._unanswered: dict[int, Transaction] = {}
        """The transactions that each client has asked to commit."""
        self._numbers = count(FIRST_CONSUMER)
        self._circumstances = circumstances
        # The nodes of the consumers of each queue so far.
        # The nodes whose clients have asked for messages of a queue.
        self._places: dict[str, set[str]] = {}
        # The number of the latest first delivery, by consumer and publisher.
        self._latest: dict[tuple[int, int], int] = {}

    def number(self) -> int:
        """A unique number for a session."""
        return next(self._numbers)

    # -- publishers -----------------------------------------------------------------------------

    def published(self, publisher: int, count: int, queues: tuple[str, ...], persistent: bool) -> int:
        """Record the next `count` messages of a publisher; return the number of the first, from 1 on."""
        own = self.messages.setdefault(publisher, [])
        first = len(own) + 1
        now = self._circumstances.now()
        own += [Message(publisher, first + i, queues, persistent, now) for i in range(count)]
        return first

    def confirm(self, publisher: int, first: int, last: int) -> None:
        """The broker confirms a range of messages."""
        for message in self.messages[publisher][first - 1 : last]:
            self._check_unanswered(message)
            message.confirmed = True
            self.confirmed += 1

    def reject(self, publisher: int, first: int, last: int) -> None:
        """The broker refuses a range of messages, because the only node of a queue was away for a while."""
        for message in self.messages[publisher][first - 1 : last]:
            self._check_unanswered(message)
            if all(len(self.queues[name].replicas) > 1 for name in message.queues):
                raise Violation(f"{message} is rejected by queues with several replicas")
            message.rejected = True

    def _check_unanswered(self, message: Message) -> None:
        if message.confirmed or message.rejected:
            raise Violation(f"{message} is answered twice")

    # -- consumers ------------------------------------------------------------------------------

    def asks(self, queue: str, node: str) -> None:
        """A client of the node asks for messages of the queue, which may be lost on their way to the node."""
        self._places.setdefault(queue, set()).add(node)

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
        receipt.redelivered = redelivered
        receipts = message.receipts.get(queue, [])
        earlier = [one for one in receipts if one.sent <= receipt.closed]
        # Deliveries after the node gave the message back, which have overtaken this one.
        later = [one for one in receipts if one.sent > receipt.closed]
        message.receipts[queue] = [*earlier, receipt, *later]
        for one, before in ((receipt, earlier), *((one, [receipt]) for one in later)):
            if before:
                self._check_again(queue, message, one, before)
                self._check_flag(queue, message, one)
        if not redelivered:
            self._check_order(queue, message, receipt)

    def _check_again(self, queue: str, message: Message, late: Receipt, earlier: list[Receipt]) -> None:
        """D2: an at-most-once queue delivers no message twice; an at-least-once queue delivers again only
        messages that were returned or lost with their node.

        A node that wakes up first delivers the messages that the owner had sent to it, which another client
        may have settled since.

        A link publishes a transient message that only a lost owner had again to the next owner, except to
        at-most-once queues.
        """
        if self.queues[queue].at_most_once:
            raise Violation(f"{queue} removes before it delivers, but delivers {message} twice")
        if not message.persistent and self._circumstances.disturbed(message.time):
            return
        if self.queues[queue].removing:
            raise Violation(f"{queue} removes before it delivers, but delivers {message} twice")
        if not late.redelivered and self._circumstances.cut_off(late):
            return
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

    def _check_flag(self, queue: str, message: Message, receipt: Receipt) -> None:
        """AMQP 0-9-1 (basic.deliver): `redelivered` says that a client has had the message before.

        A link may publish a transient message again. A node that wakes up first delivers the messages that
        the owner had sent to it, while another client may have had them since.
        """
        if not message.persistent and self._circumstances.disturbed(message.time):
            return
        if not receipt.redelivered and not self._circumstances.cut_off(receipt):
            raise Violation(f"{queue} delivers {message} again without saying so")

    def _check_order(self, queue: str, message: Message, receipt: Receipt) -> None:
        """A22: one channel's messages come to one consumer in the order of their publishes.

        A message that was lost on its way to a consumer of another node comes late to this one.
        """
        key = (receipt.consumer, message.publisher)
        latest = self._latest.get(key, 0)
        excused = len(self._places.get(queue, ())) > 1 or not message.persistent
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
        """A client asks for a commit of its messages, by first number and count, and of settlements of
        receipts.
        """
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
        """A commit is done, or was rolled back or refused: then its receipts are not settled."""
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
        """(queue, message) of confirmed messages that a queue must keep and no consumer has settled.

        `keeps`: whether the queue is responsible for the message under the faults of this run.
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
        """Whether a message is settled: by its last consumer, or by an earlier one that the owner had given
        up, whose settlement counts when its node is back.
        """
        if receipts and receipts[-1].done:
            return True
        return any(receipt.done and self._circumstances.cut_off(receipt) for receipt in receipts)
