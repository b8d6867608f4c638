"""The facts that a run has of its messages, and the forms that facts of both protocols share."""

from __future__ import annotations

from typing import Final

from node.message.run import Run

DEFAULT_PRIORITY: Final = 4
"""The priority of a message that states none (AMQP 1.0, part 3, section 3.2.1)."""


def delivery_mode(run: Run) -> str:
    """The delivery mode by its name in JMS."""
    return "PERSISTENT" if run.persistent else "NON_PERSISTENT"


def place_of_publish(run: Run, name: str) -> str | None:
    """The exchange or the routing key of the publish; None for another extension."""
    if name == "quorate.x_exchange":
        return run.exchange
    return (run.routing_key or "") if name == "quorate.x_routing_key" else None


def as_text(octets: bytes) -> str | bytes:
    """Octets as text, where they are UTF-8."""
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return octets
