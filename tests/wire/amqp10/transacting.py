"""Frames of a peer of AMQP 1.0 that works in transactions (part 4). The simulator's clients use them too."""

from __future__ import annotations

from typing import Any, Final

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.definitions import SectionCode, TransactionalState
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.values import Described, ULong
from tests.wire.amqp10.performatives import sender

CONTROL: Final = 9
"""The handle of the control link."""

OUTCOMES: Final = ("amqp:accepted:list", "amqp:rejected:list")


def coordinator(handle: int = CONTROL, name: str | None = None, **fields: Any) -> d.Attach:
    """The attach of a control link."""
    whole: dict[str, Any] = {"source": d.Source(outcomes=OUTCOMES), "target": d.Coordinator()} | fields
    return sender(handle, name=f"control-{handle}" if name is None else name, **whole)


def control(message: Composite) -> bytes:
    """The message to the coordinator."""
    return encode_amqp(Described(ULong(SectionCode.AMQP_VALUE), message))


def within(txn_id: bytes, outcome: Any = None) -> TransactionalState:
    """The state of a delivery in a transaction."""
    return TransactionalState(txn_id, outcome)
