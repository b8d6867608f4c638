"""The transactions of one connection (part 4).

A peer declares a transaction on a link to the coordinator, and discharges it there. In between, transfers and
dispositions of any session may name it in a transactional-state.

state      meaning                                          leaves by
DECLARED   publishes and settlements are held               discharge: ENDING, or gone; its link closed: gone
FAILED     as DECLARED; the commit will be refused          discharge: gone; its link closed: gone
ENDING     the session code commits; no frame may name it   its answer: gone

A delivery that is settled in a transaction is among the unsettled ones no more, so the delivery cannot be
settled twice. A rollback puts the delivery back there, or gives it the default outcome where the peer has
settled it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from node.delivery.settlements import Outcome, Settlement, Settlements, consumer_of
from node.delivery.unsettled import RUN_OCTETS, Taken, UnsettledDeliveries, UnsettledRanges, octets_of
from node.ranges.range_set import merged, ranges_of
from node.wire.amqp10.definitions import (
    Accepted,
    Coordinator,
    Declare,
    Discharge,
    Rejected,
    TransactionalState,
    TxnCapability,
)
from node.wire.amqp10.effects import CommitEffect, Outbox, Rollback, SettleEffect, SettleTags
from node.wire.amqp10.error_texts import error_of
from node.wire.amqp10.errors import (
    ControlMessageError,
    DistributedTransactionError,
    PresettledControlError,
    RolledBackError,
    SectionError,
    TransactionLimitError,
    UnfinishedPostError,
    UnknownDischargeError,
    UnknownTransactionError,
)
from node.wire.amqp10.kept_target import KeptTarget
from node.wire.amqp10.links import IncomingLink, PartialDelivery
from node.wire.amqp10.outcomes import default_outcome
from node.wire.amqp10.sections import body_composite

COORDINATOR: Final = Coordinator(
    (
        TxnCapability.LOCAL_TRANSACTIONS,
        TxnCapability.MULTI_TXNS_PER_SSN,
        TxnCapability.MULTI_SSNS_PER_TXN,
    )
)
"""The node's answer to an attach with a coordinator (part 4, section 4.5.1)."""

TRANSACTION_OCTETS: Final = 1024
"""Octets of memory for a transaction, with its part in the node's session code."""

POSTED_OCTETS: Final = 16
"""Octets of memory for the number of a delivery whose target is kept."""

HELD_RUN_OCTETS: Final = 512
"""Octets of memory for a held run beside its contents."""


class Retired(NamedTuple):
    """Deliveries of a session that the transaction settles. `settled`: the peer has settled them already.
    `annotations`: the message annotations of the outcome modified.
    """

    session: int
    unsettled: UnsettledDeliveries
    taken: Taken
    outcome: Outcome
    settled: bool
    annotations: bytes = b""


class SettledLater(NamedTuple):
    """The peer has settled deliveries `first` to `last` after a transaction had them."""

    unsettled: UnsettledDeliveries
    first: int
    last: int


class Transaction:
    """One transaction. `number` is its number in effects."""

    __slots__ = (
        "coordinator",
        "discharged_on",
        "failure",
        "number",
        "octets",
        "open_in",
        "parts",
        "posted",
        "presumed",
        "retired",
        "settled_later",
        "tags",
        "txn_id",
    )

    def __init__(self, number: int, coordinator: IncomingLink) -> None:
        self.number: Final = number
        self.coordinator: Final = coordinator
        """The link on which the peer has declared it."""
        self.txn_id: Final = _txn_id(number)
        self.presumed = TransactionalState(self.txn_id, Accepted())
        """The state of a held publish, as the peer is told it (section 4.4.1)."""
        self.failure: str | None = None
        """Why the transaction cannot be committed."""
        self.discharged_on: IncomingLink | None = None
        """The link whose message has discharged the transaction."""
        self.retired: list[Retired] = []
        self.open_in: set[int] = set()
        """The sessions with deliveries in `retired` that the peer has not settled at once."""
        self.settled_later: list[SettledLater] = []
        self.parts: set[PartialDelivery] = set()
        """The deliveries of the peer in the transaction that have frames to come."""
        self.posted: dict[KeptTarget, list[int]] = {}
        """The numbers of deliveries of the peer in the transaction whose targets are kept."""
        self.tags: dict[KeptTarget, list[bytes]] = {}
        """The deliveries that the targets keep from the commit on, once the transaction is discharged."""
        self.octets = TRANSACTION_OCTETS

    def find_tags(self) -> None:
        """Find the deliveries that the peer has not settled. The transaction fails where a link has ended and
        its target is kept: the peer may have attached the link elsewhere, and have sent the messages again.
        """
        for target, numbers in self.posted.items():
            tags = target.tags_of(numbers) if target.kept else []
            if tags and target.ended:
                self.fail("a link with deliveries of the transaction has ended")
            elif tags:
                self.tags[target] = tags

    def fail(self, reason: str) -> None:
        """The transaction can only be rolled back from now on; the first reason counts."""
        if self.failure is None:
            self.failure = reason
            self.presumed = TransactionalState(self.txn_id, Rejected(error_of(RolledBackError(reason))))


class DeclaredTransactions:
    """See the module's docstring."""

    def __init__(self, outbox: Outbox, limit: int) -> None:
        self.octets = 0
        """Octets of memory of all transactions."""
        self.gathering: dict[int, Callable[[], None]] = {}
        """By session: publishes the messages that the session has gathered for a transaction."""
        self._outbox = outbox
        self._limit = limit
        self._declared = 0
        self._live: dict[bytes, Transaction] = {}
        self._ending: dict[int, Transaction] = {}

    def named_by(self, state: object) -> Transaction | None:
        """The transaction that the state of a delivery names, if that is a live one."""
        return self._live.get(state.txn_id) if isinstance(state, TransactionalState) else None

    def live(self, txn_id: bytes) -> Transaction:
        """Raises UnknownTransactionError."""
        transaction = self._live.get(txn_id)
        if transaction is None:
            raise UnknownTransactionError(txn_id)
        return transaction

    def numbered(self, number: int) -> Transaction | None:
        """The transaction with this number in effects, if it is neither committed nor rolled back."""
        return self._live.get(_txn_id(number)) or self._ending.get(number)

    def presumed(self, number: int) -> TransactionalState:
        """The state of a publish that a transaction holds. The transaction may have ended meanwhile: the peer
        may discharge it right behind the publish.
        """
        transaction = self.numbered(number)
        if transaction is None:
            return TransactionalState(_txn_id(number), Accepted())
        return transaction.presumed

    def fail(self, number: int, reason: str) -> None:
        """A transaction can only be rolled back from now on."""
        transaction = self.numbered(number)
        if transaction is not None:
            transaction.fail(reason)

    # -- control messages -----------------------------------------------------------------------

    def declare(self, message: Declare, coordinator: IncomingLink) -> Transaction:
        """Raises TransactionLimitError, DistributedTransactionError."""
        if message.global_id is not None:
            raise DistributedTransactionError("the node has no distributed transactions")
        if len(self._live) + len(self._ending) >= self._limit:
            raise TransactionLimitError(f"the connection has {self._limit} transactions")
        self._declared += 1
        transaction = Transaction(self._declared, coordinator)
        self._live[transaction.txn_id] = transaction
        self.octets += transaction.octets
        return transaction

    def discharge(self, message: Discharge, link: IncomingLink, tag: int) -> Accepted | None:
        """End a transaction. Returns the outcome of the link's message with this tag, or None where the
        session code is asked to commit: its answer tells the outcome.

        Raises UnknownDischargeError, RolledBackError, UnfinishedPostError.
        """
        self._publish_gathered()
        transaction = self._live.get(message.txn_id)
        if transaction is None:
            raise UnknownDischargeError(message.txn_id)
        if message.fail:
            self.roll_back(transaction)
            return Accepted()
        if transaction.parts:
            self.roll_back(transaction)
            raise UnfinishedPostError("a delivery in the transaction has frames to come")
        transaction.find_tags()
        if transaction.failure is not None:
            self.roll_back(transaction)
            raise RolledBackError(transaction.failure)
        transaction.discharged_on = link
        del self._live[transaction.txn_id]
        self._ending[transaction.number] = transaction
        settlements, settled = Settlements(), list[Settlement]()
        for one in transaction.retired:
            if one.annotations:
                ranges = merged(ranges_of(one.taken.numbers))
                settled.append(Settlement(one.taken.lease, ranges, one.outcome, one.annotations))
            else:
                settlements.add(one.outcome, 0, one.taken.lease, one.taken.numbers)
        settled += [settlement for _, settlement in settlements.take_all()]
        received = list[tuple[int, list[bytes]]]()
        for target, tags in transaction.tags.items():
            target.discharged(tags)
            received.append((target.number, tags))
        self._outbox.emit(CommitEffect(transaction.number, link.session, tag, settled, received))
        return None

    def committed(self, number: int) -> IncomingLink | None:
        """The session code has committed, or could not: then the deliveries are back in their queues.

        Returns the link with the discharge.
        """
        transaction = self._ending.pop(number, None)
        if transaction is None:
            return None
        self.octets -= transaction.octets
        for target, tags in transaction.tags.items():
            late = target.concluded(tags)
            if late:
                self._outbox.emit(SettleTags(target.number, late))
        return transaction.discharged_on

    # -- what is held ---------------------------------------------------------------------------

    def _publish_gathered(self) -> None:
        """Every session publishes what has come in front of the end of a transaction."""
        for publish in list(self.gathering.values()):
            publish()

    def hold(self, transaction: Transaction, octets: int) -> None:
        """A run with so many octets is held for the transaction."""
        self._grow(transaction, HELD_RUN_OCTETS + octets)

    def post(self, transaction: Transaction, target: KeptTarget, number: int) -> None:
        """A delivery has come whose target is kept."""
        transaction.posted.setdefault(target, []).append(number)
        self._grow(transaction, POSTED_OCTETS)

    def post_part(self, partial: PartialDelivery) -> None:
        """A delivery has frames to come. Its state may name a transaction."""
        transaction = self.named_by(partial.state)
        if transaction is not None:
            transaction.parts.add(partial)

    def drop_part(self, partial: PartialDelivery) -> None:
        """No transaction waits for frames of the delivery any more."""
        if isinstance(partial.state, TransactionalState):
            for transaction in self._live.values():
                transaction.parts.discard(partial)

    def retire(self, transaction: Transaction, retired: Retired) -> None:
        """The commit settles these deliveries."""
        transaction.retired.append(retired)
        if not retired.settled:
            transaction.open_in.add(retired.session)
        self._grow(transaction, octets_of(retired.taken.numbers) + len(retired.annotations))

    def settled_by_peer(self, session: int, unsettled: UnsettledDeliveries, first: int, last: int) -> None:
        """The peer has settled deliveries of a session, of which a transaction may have some: after a
        rollback the peer knows of them no more.
        """
        for transaction in self._live.values():
            if session in transaction.open_in:
                transaction.settled_later.append(SettledLater(unsettled, first, last))
                self._grow(transaction, RUN_OCTETS)

    def _grow(self, transaction: Transaction, octets: int) -> None:
        transaction.octets += octets
        self.octets += octets

    def consumers(self, session: int) -> set[int]:
        """The consumers of a session whose deliveries a transaction settles."""
        everything = (*self._live.values(), *self._ending.values())
        mine = (one for held in everything for one in held.retired if one.session == session)
        return {consumer_of(one.taken.lease) for one in mine}

    # -- the end --------------------------------------------------------------------------------

    def roll_back(self, transaction: Transaction) -> None:
        """Forget what is held. Deliveries are unsettled again. Settled ones get their default outcome
        (section 4.4.4).
        """
        self._publish_gathered()
        del self._live[transaction.txn_id]
        self.octets -= transaction.octets
        for one in transaction.retired:
            if one.settled:
                self._settle(one.taken)
            else:
                one.unsettled.restore([one.taken])
        for late in transaction.settled_later:
            for taken in late.unsettled.take_between(late.first, late.last):
                self._settle(taken)
        self._outbox.emit(Rollback(transaction.number))

    def _settle(self, taken: Taken) -> None:
        """Settle deliveries that the peer has settled."""
        ranges = merged(ranges_of(taken.numbers))
        self._outbox.emit(SettleEffect(taken.lease, ranges, default_outcome(taken.consumer)))

    def coordinator_gone(self, coordinator: IncomingLink) -> None:
        """A closed link to the coordinator rolls its transactions back (section 4.2)."""
        for transaction in [one for one in self._live.values() if one.coordinator is coordinator]:
            self.roll_back(transaction)

    def take_unsettled(self, session: int, consumer: int | None) -> UnsettledRanges:
        """A session, or one of its consumers, has ended: take the deliveries out of the transactions that
        settle them, which cannot be committed any more.
        """
        found: UnsettledRanges = []
        for transaction in self._live.values():
            kept: list[Retired] = []
            for one in transaction.retired:
                if one.session == session and consumer in (None, consumer_of(one.taken.lease)):
                    found.append((one.taken.lease, merged(ranges_of(one.taken.numbers))))
                else:
                    kept.append(one)
            if len(kept) < len(transaction.retired):
                transaction.retired = kept
                transaction.fail("a link with deliveries of the transaction has ended")
        return found


def _txn_id(number: int) -> bytes:
    return number.to_bytes(8, "big")


def control_message(data: bytes, start: int, end: int, settled: bool) -> Declare | Discharge:
    """The message that a peer has sent to the coordinator (section 4.5).

    Raises PresettledControlError, ControlMessageError.
    """
    if settled:
        raise PresettledControlError("a declare or discharge is sent settled")
    try:
        found = body_composite(data, start, end)
    except SectionError as error:
        raise ControlMessageError(str(error)) from None
    if not isinstance(found, Declare | Discharge):
        raise ControlMessageError("the message to the coordinator is neither declare nor discharge")
    return found
