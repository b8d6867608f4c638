"""Who may settle a message that a consumer has (queue argument x-leasing). `sublet`: every client that may
read the queue. `strict`: the consumer alone. The owner asks for it where a client names messages by bookmark
or by filter (`cluster.owner.settling`); consumers settle in the same way under both.
"""

from __future__ import annotations

from typing import Final

from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import one_of
from node.queue.feature import Declaration, Description, Rule
from node.queue.settings import QueueSettings

LEASING: Final = Argument(
    "x-leasing",
    one_of({"sublet": False, "strict": True}, "invalid_leasing"),
    "strict_leases",
    policy=PolicyUse.USER,
    default=False,
)


class StrictLeases(Rule):
    """Tells the owner that only consumers settle what they have."""

    def describe(self, description: Description) -> None:
        description.strict_leases = True


def _rule(settings: QueueSettings) -> Rule | None:
    return StrictLeases() if LEASING.of(settings) else None


FEATURE: Final[Declaration] = Declaration(LEASING, rule=_rule)
