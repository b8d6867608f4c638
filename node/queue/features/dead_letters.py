"""The target of a queue's dead letters (queue arguments x-dead-letter-exchange,
x-dead-letter-routing-key).
"""

from __future__ import annotations

from typing import Final

from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import one_of, read_text
from node.queue.feature import DeadLetterTarget, Declaration, Description, Rule
from node.queue.settings import QueueSettings

DEAD_LETTER_EXCHANGE: Final = Argument(
    "x-dead-letter-exchange", read_text, "dead_letter_exchange", policy=PolicyUse.USER
)
DEAD_LETTER_ROUTING_KEY: Final = Argument(
    "x-dead-letter-routing-key",
    read_text,
    "dead_letter_routing_key",
    policy=PolicyUse.USER,
    needs=("x-dead-letter-exchange", "routing_key_but_no_dlx_defined"),
)

_STRATEGIES: Final = {strategy: strategy for strategy in ("at-most-once", "at-least-once")}
DEAD_LETTER_STRATEGY: Final = Argument(
    "x-dead-letter-strategy", one_of(_STRATEGIES, "invalid_dlx_strategy"), policy=PolicyUse.USER
)
"""Checked, without an effect: quorate loses no dead letter, whatever the strategy."""


class DeadLettering(Rule):
    """States the target of the queue's dead letters."""

    def __init__(self, target: DeadLetterTarget) -> None:
        super().__init__()
        self._target = target

    def describe(self, description: Description) -> None:
        description.dead_letters = self._target


def _rule(settings: QueueSettings) -> Rule | None:
    exchange = DEAD_LETTER_EXCHANGE.of(settings)
    if exchange is None:
        return None
    return DeadLettering(DeadLetterTarget(exchange, DEAD_LETTER_ROUTING_KEY.of(settings)))


FEATURE: Final[Declaration] = Declaration(
    DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, DEAD_LETTER_STRATEGY, rule=_rule
)
