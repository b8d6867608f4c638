"""Performatives as peers of AMQP 1.0 send them in the tests, and their octets."""

from __future__ import annotations

from typing import Any

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.definitions import Role
from node.wire.amqp10.frames import frame_buffers

LARGE = 1 << 20
PLAIN = d.SaslInit("PLAIN", b"\0guest\0guest")
WINDOW = 5000


def octets_of(*performatives: Composite | bytes, channel: int = 0, payload: bytes = b"") -> bytes:
    """The frames of performatives, each with the payload, and octets as they are."""
    return b"".join(
        one if isinstance(one, bytes) else b"".join(frame_buffers(channel, one, (payload,), LARGE))
        for one in performatives
    )


def begin(**fields: Any) -> d.Begin:
    whole: dict[str, Any] = {"next_outgoing_id": 0, "incoming_window": WINDOW, "outgoing_window": WINDOW}
    return d.Begin(**whole | fields)


def sender(handle: int = 0, address: str | None = "q", name: str | None = None, **fields: Any) -> d.Attach:
    """The attach of a peer that sends."""
    whole: dict[str, Any] = {"source": d.Source("from"), "target": d.Target(address)}
    whole |= {"initial_delivery_count": 0} | fields
    return d.Attach(f"sender-{handle}" if name is None else name, handle, Role.SENDER, **whole)


def receiver(handle: int = 0, address: str | None = "q", name: str | None = None, **fields: Any) -> d.Attach:
    """The attach of a peer that receives."""
    whole: dict[str, Any] = {"source": d.Source(address), "target": d.Target("to")} | fields
    return d.Attach(f"receiver-{handle}" if name is None else name, handle, Role.RECEIVER, **whole)


def credit(link_credit: int, delivery_count: int | None = 0, handle: int = 0, **fields: Any) -> d.Flow:
    """A flow that gives credit on a link."""
    whole: dict[str, Any] = {
        "incoming_window": WINDOW, "next_outgoing_id": 0, "outgoing_window": WINDOW, "next_incoming_id": 0,
    }  # fmt: skip
    whole |= {"handle": handle, "delivery_count": delivery_count, "link_credit": link_credit} | fields
    return d.Flow(**whole)


def window(incoming_window: int, next_incoming_id: int | None = 0, **fields: Any) -> d.Flow:
    """A flow of a session."""
    return d.Flow(incoming_window, 0, WINDOW, next_incoming_id, **fields)


def settled(first: int, last: int | None = None, state: Any = None, **fields: Any) -> d.Disposition:
    """A disposition of a receiver that settles."""
    whole: dict[str, Any] = {"settled": True, "state": state} | fields
    return d.Disposition(Role.RECEIVER, first, last, **whole)
