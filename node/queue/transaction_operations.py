"""The operations of transactions that log entries, and the batches of front ends, are made of, as values.
`node.queue.transaction_format` has their octets.
"""

from __future__ import annotations

from typing import Final, NamedTuple

REMOVAL: Final = 0
"""The number of a transaction that settles one message which a client got without acknowledgement."""

BRANCHES: Final = 1 << 61
"""Transactions with numbers from this one on, below `MOVES`, are branches of epochs: they are prepared alone,
and an entry in the log of their coordinator decides them later (`node.queue.epochs`).
"""

MOVES: Final = 1 << 62
"""Transactions with this number and higher ones move messages that wait in a queue. A settlement names
messages that no client has, and the publishes are no duplicates of these.
"""


class TransactionKey(NamedTuple):
    """A transaction: the front end that commits it, and its number there."""

    front_end: int
    number: int

    @property
    def moves(self) -> bool:
        """Whether the transaction moves messages that wait (`MOVES`)."""
        return self.number >= MOVES

    @property
    def branch(self) -> bool:
        """Whether the transaction is a branch of an epoch (`BRANCHES`)."""
        return BRANCHES <= self.number < MOVES


class Prepare(NamedTuple):
    """A front end asks a partition to prepare its share of a transaction: the publishes and settlements
    between two offsets of the batch. No log has it: the owner makes it a `Prepared`.
    """

    number: int
    coordinator: int
    start: int
    end: int


class Decide(NamedTuple):
    """A front end asks the coordinator of a transaction to commit it, after all other `participants` have
    prepared. The coordinator's own share lies between two offsets of the batch. No log has it: the owner logs
    the share's operations and a `Decided`.

    The transaction numbered `REMOVAL` settles one message that the front end's client got; the owner refuses
    it where another front end has the message by now.
    """

    number: int
    participants: tuple[int, ...]
    start: int
    end: int


class Prepared(NamedTuple):
    """The partition can carry out either outcome of a transaction.

    `published` are (queue, first, last) of messages that stand before it in the log, and that no consumer
    gets before the commit. `settled` are the octets of the settlements to carry out at the commit; until the
    outcome no consumer gets the messages that they name. Among them are the steps of targets
    (`node.queue.targets`) whose deliveries the messages have come in.
    """

    key: TransactionKey
    coordinator: int
    published: tuple[tuple[int, int, int], ...]
    settled: bytes


class Decided(NamedTuple):
    """The coordinator has committed a transaction. `participants` are the other partitions, which must be
    told.
    """

    key: TransactionKey
    participants: tuple[int, ...]


class Conclude(NamedTuple):
    """The outcome of a prepared transaction reaches a participant."""

    key: TransactionKey
    committed: bool


class EndTransaction(NamedTuple):
    """No participant will ask the coordinator about the transaction any more: the coordinator forgets it."""

    key: TransactionKey


class Abandon(NamedTuple):
    """The coordinator aborts a transaction that it has not decided, because a participant asks for the
    outcome. It refuses to commit the transaction from now on.
    """

    key: TransactionKey


LoggedTransactional = Prepared | Decided | Conclude | EndTransaction | Abandon
"""The operations of transactions that logs have."""

Transactional = Prepare | Decide | LoggedTransactional
