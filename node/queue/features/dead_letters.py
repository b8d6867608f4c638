"""The target of a queue's dead letters (queue arguments x-dead-letter-exchange,
x-dead-letter-routing-key), and the text of which their bodies are made (x-dead-letter-template, D19).
"""

from __future__ import annotations

from typing import Final

from node.message.template import Template, TemplateError
from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import UnacceptableError, one_of, read_text
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


def read_template(value: object) -> str:
    """A text with places (`node.message.template`). Raises UnacceptableError."""
    text = read_text(value)
    try:
        Template(text)
    except TemplateError as error:
        raise UnacceptableError(str(error)) from None
    return text


DEAD_LETTER_TEMPLATE: Final = Argument(
    "x-dead-letter-template",
    read_template,
    "dead_letter_template",
    policy=PolicyUse.USER,
    needs=("x-dead-letter-exchange", "template_but_no_dlx_defined"),
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
    text = DEAD_LETTER_TEMPLATE.of(settings)
    template = None if text is None else Template(text)
    return DeadLettering(DeadLetterTarget(exchange, DEAD_LETTER_ROUTING_KEY.of(settings), template))


FEATURE: Final[Declaration] = Declaration(
    DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, DEAD_LETTER_TEMPLATE, DEAD_LETTER_STRATEGY, rule=_rule
)
