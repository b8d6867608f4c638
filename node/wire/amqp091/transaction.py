"""Class tx (§2.2.9): what a channel holds back until its client commits or rolls back.

    state       tx.select        publish, ack, ...  tx.commit           tx.rollback        its channel ends
    none        Select-Ok, OPEN  done at once       406                 406                -
    OPEN        Select-Ok        held back          Commit, COMMITTING  Rollback-Ok, OPEN  rolled back
    COMMITTING  (the channel takes no frames)       Commit-Ok: OPEN     -                  up to the shell

Deliveries that were settled in a transaction are in no other place: they cannot be settled twice in it,
and a rollback, which "does not requeue or redeliver any messages", puts them back among the unsettled.
Messages are routed when they are published, as in RabbitMQ, so what is wrong with them is found then.
"""

from __future__ import annotations

from collections.abc import Iterable

from node.delivery.settlements import Outcome, Settlement, Settlements
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
    """The load of a connection's open transactions, in octets of content and in operations.

    Publishes that are alike and follow each other count as one operation, and so do settlements.
    """

    __slots__ = ("limits", "octets", "operations")

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.octets = 0
        self.operations = 0

    def check(self) -> None:
        """Raises ResourceExhaustedError (506): the client demands more than may be held back for it."""
        limits = self.limits
        if self.operations > limits.transaction_operations or (
            self.octets > limits.transaction_bytes and self.operations > 1
        ):
            raise ResourceExhaustedError(
                f"transactions of more than {limits.transaction_bytes} octets "
                f"or {limits.transaction_operations} operations"
            )


class ChannelTransaction:
    """The transaction of a channel in tx mode: there always is one, as a new one begins when one ends."""

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
        """Raises ResourceExhaustedError."""
        self._grow(1, len(run.raw))
        self._load.check()
        self._outbox.publish(HoldPublish(self._channel, run, mandatory, first_tag=0))

    def settle(self, outcome: Outcome, taken: Iterable[Taken]) -> None:
        """Deliveries that are not among the channel's unsettled ones any more.

        Raises ResourceExhaustedError, and what `taken` raises; none of them is lost by that.
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
        """Hand everything over to the shell, which answers for the whole of it."""
        self._committing, self._settled = self._settled, []
        self._outbox.emit(CommitEffect(self._channel, self._settlements()))

    def _settlements(self) -> list[Settlement]:
        """One for each consumer and outcome."""
        settlements = Settlements()
        for outcome, taken in self._committing:
            settlements.add(outcome, self._channel, taken.link, taken.numbers)
        return [settlement for _, settlement in settlements.take_all()]

    def links(self) -> set[int]:
        """Under which of the shell's numbers something is settled in it."""
        return {taken.link for _, taken in (*self._settled, *self._committing)}

    def committed(self) -> list[tuple[Outcome, Taken]]:
        """The shell has done it; what it has settled: only now is there room for further deliveries."""
        self._shrink()
        committing, self._committing = self._committing, []
        return committing

    def roll_back(self) -> None:
        """Nothing of it happens; what is being committed is the shell's, and stays so."""
        self._shrink()
        settled, self._settled = self._settled, []
        self._unsettled.restore([taken for _, taken in settled])
        self._outbox.emit(Rollback(self._channel))
