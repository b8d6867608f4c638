"""The state that the sessions of a connection share."""

from __future__ import annotations

from dataclasses import dataclass, field

from node.delivery.credit import Credits
from node.wire.amqp10.effects import Outbox
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.management import UnansweredRequests
from node.wire.amqp10.row_links import RowLinks
from node.wire.amqp10.transactions import DeclaredTransactions


@dataclass(slots=True)
class ConnectionParts:
    """The state that the sessions of a connection share."""

    limits: ConnectionLimits
    outbox: Outbox
    credits: Credits
    granting: bool = True
    """False while the node is short of a resource: links get no credit for publishes."""
    user: bytes | None = b""
    """The only user that messages may name as theirs; None admits any."""
    requests: UnansweredRequests = field(default_factory=UnansweredRequests)
    transactions: DeclaredTransactions = field(init=False)
    rows: RowLinks = field(init=False)

    def __post_init__(self) -> None:
        self.transactions = DeclaredTransactions(self.outbox, self.limits.transactions)
        self.rows = RowLinks(self.outbox, self.credits)
