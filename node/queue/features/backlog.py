"""The division of a queue's messages among its consumers (queue argument x-fairness), and a cap on the
backlog of each (x-max-per-subscription-backlog).

Front ends hold their consumers to the cap (`node.delivery.backlog`), and the owner divides the messages
(`node.queue.fairness`). A queue with a cap has the fairness `proportional` unless it asks for another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from node.delivery.backlog import NO_BACKLOG
from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import one_of, read_positive
from node.queue.delivery_state import DeliveryState, Fairness
from node.queue.feature import Declaration, Description, Feature, Rule
from node.queue.operations import Semantics
from node.queue.settings import QueueSettings

MAX_PER_SUBSCRIPTION_BACKLOG: Final = Argument(
    "x-max-per-subscription-backlog", read_positive, "backlog_cap", policy=PolicyUse.LIMIT
)

_FAIRNESS_NAMES: Final = {
    "fast": Fairness.FAST,
    "round-robin": Fairness.ROUND_ROBIN,
    "proportional": Fairness.PROPORTIONAL,
}

ONLY_ROUND_ROBIN: Final = "with x-semantics at-most-once only round-robin is possible"


def _beside(fairness: Fairness, arguments: Mapping[str, object]) -> str:
    misfit = fairness is not Fairness.ROUND_ROBIN and arguments.get("x-semantics") == "at-most-once"
    return ONLY_ROUND_ROBIN if misfit else ""


FAIRNESS: Final = Argument(
    "x-fairness",
    one_of(_FAIRNESS_NAMES, "invalid_fairness"),
    "fairness",
    policy=PolicyUse.USER,
    misfit=_beside,
)


def fairness_of(settings: QueueSettings) -> Fairness:
    """The fairness of a queue with these settings. At-most-once queues have round-robin, whatever policies
    ask for.
    """
    if settings.semantics is Semantics.AT_MOST_ONCE:
        return Fairness.ROUND_ROBIN
    capped = MAX_PER_SUBSCRIPTION_BACKLOG.of(settings) is not None
    return FAIRNESS.of(settings) or (Fairness.PROPORTIONAL if capped else Fairness.ROUND_ROBIN)


class BacklogCap(Rule):
    """Tells front ends the cap."""

    def __init__(self, cap: int) -> None:
        super().__init__()
        self._cap = cap

    def describe(self, description: Description) -> None:
        description.backlog_cap = self._cap


def _rule(settings: QueueSettings) -> Rule | None:
    cap = MAX_PER_SUBSCRIPTION_BACKLOG.of(settings)
    return None if cap is None else BacklogCap(cap)


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    """Tell the owner how it is to divide messages; the queue has no share, and calls no hook."""
    delivery.backlog_cap = MAX_PER_SUBSCRIPTION_BACKLOG.of(delivery.settings) or NO_BACKLOG
    delivery.fairness = fairness_of(delivery.settings)
    return None


FEATURE: Final[Declaration] = Declaration(MAX_PER_SUBSCRIPTION_BACKLOG, FAIRNESS, make=_share, rule=_rule)
