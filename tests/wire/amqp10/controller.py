"""A peer of AMQP 1.0 that works in transactions (part 4)."""

from __future__ import annotations

from typing import Any, Final

from node.delivery.settlements import Outcome
from node.message.run import Run
from node.wire.amqp10 import definitions as d
from node.wire.amqp10 import effects as e
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.definitions import Accepted, Error, Rejected
from node.wire.amqp10.definitions import TransactionCondition as Condition
from node.wire.amqp10.limits import ConnectionLimits
from tests.wire.amqp10.peer import ANSWERED, Peer, begun, transfer
from tests.wire.amqp10.performatives import credit, receiver, sender
from tests.wire.amqp10.sections import message
from tests.wire.amqp10.transacting import CONTROL, control, coordinator, within

HOLDING: Final = ANSWERED | {e.PublishEffect}
"""The effects that are answered where the test commits by hand."""

COMMITTING: Final = HOLDING | {e.CommitEffect}


ACCEPTED: Final = Accepted()
UNKNOWN: Final = b"\0\0\0\0\0\0\0\x63"
FAILURE: Final = "a queue has refused the message"
FAILED: Final = Rejected(Error(Condition.TRANSACTION_ROLLBACK, FAILURE))


class Controller:
    """A peer with a session on channel 0, these links there, and a control link."""

    def __init__(
        self,
        *attaches: Composite,
        answers: frozenset[type[Any]] = HOLDING,
        limits: ConnectionLimits | None = None,
        **fields: Any,
    ) -> None:
        self.peer: Final[Peer] = begun(*attaches, coordinator(), answers=answers, limits=limits, **fields)
        self.next: dict[int, int] = {}
        """The next delivery-id on each channel."""
        self.idle: Final = self.peer.connection.held
        """Octets of memory before the first transaction."""

    # -- frames ---------------------------------------------------------------------------------

    def frame(
        self, payload: bytes | None = None, txn_id: bytes | None = None, handle: int = 0, channel: int = 0,
        **fields: Any,
    ) -> bytes:  # fmt: skip
        """A transfer of the next delivery, in a transaction or in none."""
        number = self.next.get(channel, 0)
        self.next[channel] = number + 1
        if txn_id is not None:
            fields["state"] = within(txn_id)
        fields.setdefault("delivery_tag", b"%06d" % number)
        return transfer(number, payload, handle, channel=channel, **fields)

    def declaring(self, handle: int = CONTROL, channel: int = 0) -> bytes:
        return self.frame(control(d.Declare()), None, handle, channel)

    def discharging(
        self, txn_id: bytes, fail: bool | None = False, handle: int = CONTROL, channel: int = 0
    ) -> bytes:
        return self.frame(control(d.Discharge(txn_id, fail)), None, handle, channel)

    # -- what the peer does ---------------------------------------------------------------------

    def send(self, txn_id: bytes | None = None, *payloads: bytes, **fields: Any) -> list[Any]:
        """Send messages, one in each input; returns what the node writes."""
        found: list[Any] = []
        for payload in payloads:
            found += self.peer.send(self.frame(payload, txn_id, **fields))
        return found

    def declare(self, handle: int = CONTROL, channel: int = 0) -> bytes:
        """Declare a transaction; returns its txn-id."""
        number = self.next.get(channel, 0)
        (told,) = self.peer.send(self.declaring(handle, channel))
        assert (told.role, told.first, told.last, told.settled) == (d.Role.RECEIVER, number, None, True)
        assert isinstance(told.state, d.Declared)
        return told.state.txn_id

    def discharge(
        self, txn_id: bytes, fail: bool | None = False, handle: int = CONTROL, channel: int = 0
    ) -> Any:
        """Discharge a transaction; returns the outcome that the node tells, or None."""
        number = self.next.get(channel, 0)
        told = self.peer.send(self.discharging(txn_id, fail, handle, channel))
        if not told:
            return None
        (one,) = told
        assert (one.role, one.first, one.last, one.settled) == (d.Role.RECEIVER, number, None, True)
        return one.state

    def retire(
        self, first: int, last: int | None, txn_id: bytes, outcome: Any = None, settled: bool = False
    ) -> list[Any]:
        """Settle deliveries in a transaction; returns what the node writes."""
        return self.peer.send(
            d.Disposition(d.Role.RECEIVER, first, last, settled, within(txn_id, outcome or Accepted()))
        )

    # -- the broker -----------------------------------------------------------------------------

    def runs(self, number: int) -> list[Run]:
        """Take the publishes; returns the runs of those in the transaction with this number in effects."""
        return [one.run for one in self.peer.taken(e.PublishEffect) if one.transaction == number]

    def bodies(self, number: int) -> list[bytes]:
        return [bytes(octets) for run in self.runs(number) for octets in run.contents()]

    def commit(self) -> e.CommitEffect:
        """The commit that the machine asks for, and that the test answers."""
        (found,) = self.peer.taken(e.CommitEffect)
        return found

    def rolled_back(self) -> list[int]:
        """The transactions whose held runs the machine has had discarded."""
        return [one.transaction for one in self.peer.taken(e.Rollback)]

    @property
    def held(self) -> int:
        """Octets of memory of the transactions."""
        return self.peer.connection.sessions.transactions.octets


def delivered(count: int = 5, **fields: Any) -> Controller:
    """A controller with deliveries on handle 1; the messages have the sequence numbers from 1 on."""
    controller = Controller(sender(0), receiver(1, **fields), credit(50, handle=1))
    controller.peer.deliver(*[message()] * count)
    return controller


def unsettled(controller: Controller, channel: int = 0) -> list[int]:
    """The sequence numbers of the deliveries that the peer has not settled."""
    runs = controller.peer.session(channel).outgoing.unsettled
    return [number for run in runs for number in run.numbers]


def given_back(controller: Controller) -> list[tuple[int, list[tuple[int, int]], Outcome]]:
    found = controller.peer.taken(e.SettleEffect)
    return [(one.lease, one.ranges, one.outcome) for one in found]


def failure(outcome: Any) -> str:
    """The condition of a rejection."""
    assert isinstance(outcome, Rejected) and outcome.error is not None
    return str(outcome.error.condition)
