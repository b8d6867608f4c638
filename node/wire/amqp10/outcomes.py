"""The outcomes of deliveries to a peer: delivery states, and what the queue hears (part 3, section 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from node.delivery.credit import ChannelConsumer
from node.delivery.settlements import Outcome
from node.ranges.range_set import RangeSet
from node.wire.amqp10.definitions import Accepted, Modified, Rejected, Released
from node.wire.amqp10.field_readers import CompositeField
from node.wire.amqp10.links import OutgoingLink
from node.wire.amqp10.modified import annotations_told
from node.wire.amqp10.recovery import number_of

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


class ToldOutcome(NamedTuple):
    """An outcome that a peer has reached for a message before its link is attached again."""

    number: int
    outcome: Outcome
    annotations: bytes


def told_outcomes(
    unsettled: Mapping[bytes, CompositeField | None], kept: RangeSet
) -> tuple[list[ToldOutcome], set[int]]:
    """The outcomes in a peer's unsettled map of messages that are kept for its link, and the messages among
    these that the peer has without an outcome (part 2, section 2.6.13).

    Raises AnnotationBoundsError.
    """
    outcomes, resumed = list[ToldOutcome](), set[int]()
    for tag, state in unsettled.items():
        number = number_of(tag)
        if number not in kept:
            continue
        outcome = outcome_of(state)
        if outcome is None:
            resumed.add(number)
        else:
            outcomes.append(ToldOutcome(number, outcome, annotations_told(state)))
    return outcomes, resumed


def bare(state: CompositeField | None) -> CompositeField | None:
    """The state without what the peer has told of it, which may have more octets than the peer takes."""
    if isinstance(state, Rejected):
        return Rejected()
    if isinstance(state, Modified):
        return Modified(state.delivery_failed, state.undeliverable_here)
    return state
