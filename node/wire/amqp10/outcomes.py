"""The outcomes of deliveries to a peer: delivery states, and what the queue hears (part 3, section 3.4)."""

from __future__ import annotations

from typing import Final

from node.delivery.credit import ChannelConsumer
from node.delivery.settlements import Outcome
from node.wire.amqp10.definitions import Accepted, Modified, Rejected, Released
from node.wire.amqp10.field_readers import CompositeField
from node.wire.amqp10.links import OutgoingLink

OUTCOMES: Final = frozenset(
    ("amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list")
)
"""The outcomes that a receiver may choose."""

_MODIFIED: Final = {
    (False, False): Outcome.RELEASED,
    (False, True): Outcome.UNDELIVERABLE_HERE,
    (True, False): Outcome.RETURNED,
    (True, True): Outcome.FAILED_UNDELIVERABLE_HERE,
}
"""The outcome modified (part 3, section 3.4.5), by its delivery-failed and undeliverable-here."""


def outcome_of(state: object) -> Outcome | None:
    """The outcome that a delivery state stands for; None for a state that is no outcome (section 3.4)."""
    if isinstance(state, Accepted):
        return Outcome.ACCEPTED
    if isinstance(state, Rejected):
        return Outcome.REJECTED
    if isinstance(state, Released):
        return Outcome.RELEASED
    if isinstance(state, Modified):
        return _MODIFIED[state.delivery_failed is True, state.undeliverable_here is True]
    return None


def default_outcome(consumer: ChannelConsumer | None) -> Outcome:
    """The outcome of a delivery that the peer settles without one (section 3.5.3, default-outcome)."""
    link = None if consumer is None else consumer.flow
    found = outcome_of(link.source.default_outcome) if isinstance(link, OutgoingLink) else None
    return found or Outcome.RELEASED


def bare(state: CompositeField | None) -> CompositeField | None:
    """The state without what the peer has told of it, which may have more octets than the peer takes."""
    if isinstance(state, Rejected):
        return Rejected()
    if isinstance(state, Modified):
        return Modified(state.delivery_failed, state.undeliverable_here)
    return state
