"""Class tx (§2.2.9): the publishes and settlements of a channel that wait for its client's commit or
rollback.

    state       tx.select        publish, ack, ...  tx.commit           tx.rollback        channel ends
    none        Select-Ok, OPEN  done at once       406                 406                -
    OPEN        Select-Ok        held back          Commit, COMMITTING  Rollback-Ok, OPEN  rolled back
    COMMITTING  (the channel takes no frames)       Commit-Ok: OPEN     -                  the session decides

A delivery that is settled in a transaction is among the unsettled ones no more, so it cannot be settled
twice. A rollback "does not requeue or redeliver any messages": it puts the deliveries back among the
unsettled ones. As in RabbitMQ, messages are routed when they are published, so errors of routing close the
channel then.
"""

from __future__ import annotations

from collections.abc import Iterable

from node.delivery.settlements import Outcome, Settlement, Settlements, consumer_of
from node.delivery.unsettled import Taken, UnsettledDeliveries
from node.message.run import Run
from node.wire.amqp091.effects import (
    CommitEffect,
    HoldPublish,
    Outbox,
    Rollback,
)
from node.wire.amqp091.errors import ResourceExhaustedError
from node.wire.amqp091.limits import ConnectionLimits


class TransactionLoad:
    """The load of a connection's open transactions, in octets of contents and in operations.

    A run of publishes counts as one operation, and so does a range of settlements.
    """

    __slots__ = ("limits", "octets", "operations")

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.octets = 0
        self.operations = 0

    def check(self) -> None:
        """Raises ResourceExhaustedError (506) where the transactions exceed the connection's limits."""
        limits = self.limits
        if self.operations > limits.transaction_operations or (
            self.octets > limits.transaction_bytes and self.operations > 1
        ):
            raise ResourceExhaustedError(
                f"transactions of more than {limits.transaction_bytes} octets "
                f"or {limits.transaction_operations} operations"
            )


class ChannelTransaction:
    """The transaction of a channel in tx mode. The next transaction begins when one ends."""

    __slots__ = (
        "_channel",
        "_committing",
        "_load",
        "_octets",
        "_operations",
        "_outbox",
        "_settled",
        "_unsettled",
    )

    def __init__(self, channel: int, outbox: Outbox, unsettled: UnsettledDeliveries, load: TransactionLoad):
        self._channel = channel
        self._outbox = outbox
        self._unsettled = unsettled
        self._load = load
        self._octets = 0
        self._operations = 0
        self._settled: list[tuple[Outcome, Taken]] = []
        self._committing: list[tuple[Outcome, Taken]] = []

    def publish(self, run: Run, mandatory: bool) -> None:
        """Hold a run back until the commit. Raises ResourceExhaustedError."""
        self._grow(1, len(run.raw))
        self._load.check()
        self._outbox.publish(HoldPublish(self._channel, run, mandatory, first_tag=0))

    def settle(self, outcome: Outcome, taken: Iterable[Taken]) -> None:
        """Hold settlements back until the commit, for deliveries taken out of the channel's unsettled ones.

        Raises ResourceExhaustedError, and the errors of the iterator `taken`; the deliveries taken before an
        error stay in the transaction.
        """
        for one in taken:
            self._settled.append((outcome, one))
            self._grow(1, 0)
        self._load.check()

    def _grow(self, operations: int, octets: int) -> None:
        self._operations += operations
        self._octets += octets
        self._load.operations += operations
        self._load.octets += octets

    def _shrink(self) -> None:
        self._grow(-self._operations, -self._octets)

    def commit(self) -> None:
        """Emit a CommitEffect with the settlements; the session has the held runs."""
        self._committing, self._settled = self._settled, []
        self._outbox.emit(CommitEffect(self._channel, self._settlements()))

    def _settlements(self) -> list[Settlement]:
        """One for each consumer and outcome."""
        settlements = Settlements()
        for outcome, taken in self._committing:
            settlements.add(outcome, self._channel, taken.lease, taken.numbers)
        return [settlement for _, settlement in settlements.take_all()]

    def consumers(self) -> set[int]:
        """The numbers of the consumers whose deliveries the transaction settles."""
        return {consumer_of(taken.lease) for _, taken in (*self._settled, *self._committing)}

    def committed(self) -> list[tuple[Outcome, Taken]]:
        """The session has committed. Returns the settled deliveries, which make room for further ones now."""
        self._shrink()
        committing, self._committing = self._committing, []
        return committing

    def roll_back(self) -> None:
        """Roll back: settled deliveries are unsettled again, and the session discards the held runs. A commit
        in progress goes on.
        """
        self._shrink()
        settled, self._settled = self._settled, []
        self._unsettled.restore([taken for _, taken in settled])
        self._outbox.emit(Rollback(self._channel))
