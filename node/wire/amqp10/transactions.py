"""The transactions of one connection (part 4).

A peer declares a transaction on a link to the coordinator, and discharges it there. In between, transfers and
dispositions of any session may name it in a transactional-state.

state      meaning                                              leaves by
DECLARED   publishes and settlements are held                   discharge, or its link closed: ENDING
FAILED     as DECLARED; the commit will be refused              discharge, or its link closed: ENDING
ENDING     no frame may name it; the session code carries out   the answer of the session code: gone
           its publishes, then commits or rolls back

The session code may hear of publishes and of their discharge at once. So a publish may be refused when its
transaction is ENDING: then the session code does not commit.

A delivery that is settled in a transaction is among the unsettled ones no more, so the delivery cannot be
settled twice. A rollback puts the delivery back there, or into its queue where the peer has settled it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from node.delivery.settlements import Outcome, Settlements
from node.delivery.unsettled import Taken, UnsettledDeliveries, UnsettledRanges, octets_of
from node.ranges.range_set import merged, ranges_of
from node.wire.amqp10.definitions import (
    Accepted,
    Coordinator,
    Declare,
    Discharge,
    Error,
    Rejected,
    TransactionalState,
    TransactionCondition,
    TxnCapability,
)
from node.wire.amqp10.effects import CommitEffect, Outbox, Rollback, SettleEffect
from node.wire.amqp10.errors import (
    ControlMessageError,
    PresettledControlError,
    SectionError,
    TransactionLimitError,
    UnknownTransactionError,
)
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

HELD_RUN_OCTETS: Final = 512
"""Octets of memory for a held run beside its contents."""


class Retired(NamedTuple):
    """Deliveries of a session that the transaction settles. `settled`: the peer has settled them already."""

    session: int
    unsettled: UnsettledDeliveries
    taken: Taken
    outcome: Outcome
    settled: bool


class Transaction:
    """One transaction. `number` is its number in effects."""

    __slots__ = ("coordinator", "failure", "number", "octets", "presumed", "retired", "txn_id")

    def __init__(self, number: int, coordinator: object) -> None:
        self.number: Final = number
        self.coordinator: Final = coordinator
        """The link on which the peer has declared it."""
        self.txn_id: Final = number.to_bytes(8, "big")
        self.presumed = TransactionalState(self.txn_id, Accepted())
        """The state of a held publish, as the peer is told it (section 4.4.1)."""
        self.failure: Error | None = None
        """Why the transaction cannot be committed."""
        self.retired: list[Retired] = []
        self.octets = TRANSACTION_OCTETS

    def fail(self, error: Error) -> None:
        """The transaction can only be rolled back from now on; the first reason counts."""
        if self.failure is None:
            self.failure = error
            self.presumed = TransactionalState(self.txn_id, Rejected(error))


class DeclaredTransactions:
    """See the module's docstring."""

    def __init__(self, outbox: Outbox, limit: int) -> None:
        self.octets = 0
        """Octets of memory of all transactions."""
        self._outbox = outbox
        self._limit = limit
        self._declared = 0
        self._live: dict[bytes, Transaction] = {}
        self._ending: dict[int, Transaction] = {}

    def live(self, txn_id: bytes) -> Transaction:
        """Raises UnknownTransactionError."""
        transaction = self._live.get(txn_id)
        if transaction is None:
            raise UnknownTransactionError(txn_id)
        return transaction

    def numbered(self, number: int) -> Transaction | None:
        """The transaction with this number in effects, until the session code has ended it."""
        return self._ending.get(number) or self._live.get(number.to_bytes(8, "big"))

    def failure(self, number: int) -> Error | None:
        """Why a transaction cannot be committed."""
        transaction = self.numbered(number)
        return None if transaction is None else transaction.failure

    def fail(self, number: int, error: Error) -> None:
        """A transaction can only be rolled back from now on."""
        transaction = self.numbered(number)
        if transaction is not None:
            transaction.fail(error)

    # -- control messages -----------------------------------------------------------------------

    def declare(self, coordinator: object) -> Transaction:
        """Raises TransactionLimitError."""
        if len(self._live) + len(self._ending) >= self._limit:
            raise TransactionLimitError(f"the connection has {self._limit} transactions")
        self._declared += 1
        transaction = Transaction(self._declared, coordinator)
        self._live[transaction.txn_id] = transaction
        self.octets += transaction.octets
        return transaction

    def discharge(self, message: Discharge, session: int, tag: int) -> Accepted | Rejected | None:
        """End a transaction. Returns the outcome of the session's control message with this tag, or None
        where the session code is asked to commit: its answer tells the outcome.
        """
        transaction = self._live.get(message.txn_id)
        if transaction is None:
            unknown = UnknownTransactionError(message.txn_id)
            return Rejected(Error(unknown.condition, str(unknown)))
        if message.fail or transaction.failure is not None:
            self.roll_back(transaction)
            return Accepted() if message.fail else Rejected(transaction.failure)
        del self._live[transaction.txn_id]
        self._ending[transaction.number] = transaction
        settlements = Settlements()
        for one in transaction.retired:
            settlements.add(one.outcome, 0, one.taken.link, one.taken.numbers)
        settled = [settlement for _, settlement in settlements.take_all()]
        self._outbox.emit(CommitEffect(transaction.number, session, tag, settled))
        return None

    def ended(self, number: int) -> None:
        """The session code has committed or rolled back, or could not commit: then the deliveries are back in
        their queues.
        """
        transaction = self._ending.pop(number, None)
        if transaction is not None:
            self.octets -= transaction.octets

    # -- what is held ---------------------------------------------------------------------------

    def hold(self, transaction: Transaction, octets: int) -> None:
        """A run with so many octets is held for the transaction."""
        self._grow(transaction, HELD_RUN_OCTETS + octets)

    def retire(self, transaction: Transaction, retired: Retired) -> None:
        """The commit settles these deliveries."""
        transaction.retired.append(retired)
        self._grow(transaction, octets_of(retired.taken.numbers))

    def _grow(self, transaction: Transaction, octets: int) -> None:
        transaction.octets += octets
        self.octets += octets

    def consumers(self, session: int) -> set[int]:
        """The consumers of a session whose deliveries a transaction settles."""
        everything = (*self._live.values(), *self._ending.values())
        return {one.taken.link for held in everything for one in held.retired if one.session == session}

    # -- the end --------------------------------------------------------------------------------

    def roll_back(self, transaction: Transaction) -> None:
        """Forget what is held. Deliveries are unsettled again, or back in their queue."""
        del self._live[transaction.txn_id]
        self._ending[transaction.number] = transaction
        for one in transaction.retired:
            if one.settled:
                ranges = merged(ranges_of(one.taken.numbers))
                self._outbox.emit(SettleEffect(one.taken.link, ranges, Outcome.RELEASED))
            else:
                one.unsettled.restore([one.taken])
        self._outbox.emit(Rollback(transaction.number))

    def coordinator_gone(self, coordinator: object) -> None:
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
                if one.session == session and consumer in (None, one.taken.link):
                    found.append((one.taken.link, merged(ranges_of(one.taken.numbers))))
                else:
                    kept.append(one)
            if len(kept) < len(transaction.retired):
                transaction.retired = kept
                text = "a link with deliveries of the transaction has ended"
                transaction.fail(Error(TransactionCondition.TRANSACTION_ROLLBACK, text))
        return found


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
    if isinstance(found, Declare) and found.global_id is not None:
        raise ControlMessageError("the node has no distributed transactions")
    return found
