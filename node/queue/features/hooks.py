"""The shares of one queue, and the rules of its settings, by the moments at which they have a say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from node.queue.features.feature import Declaration, Description, Feature, Rule
from node.queue.operations import Aspect


class Hooks:
    """For each hook the features that implement it, in the order of the registry. See `Feature`."""

    __slots__ = (
        "exhausted", "given", "note", "passes_on", "ready", "rest", "return_", "room", "serve", "served",
        "settle", "take_over",
    )  # fmt: skip

    def __init__(self, features: Sequence[tuple[Aspect | None, Feature]] = ()) -> None:
        """`features` are a queue's, with the aspects that they hear of."""
        found = [feature for _, feature in features]
        self.passes_on = any(feature.passes_on for feature in found)
        self.note = {aspect: feature for aspect, feature in features if aspect is not None}
        self.take_over = _implementing(found, "take_over")
        self.serve = _implementing(found, "serve")
        self.room = _implementing(found, "room")
        self.given = _implementing(found, "given")
        self.served = _implementing(found, "served")
        self.settle = _implementing(found, "settle")
        self.return_ = _implementing(found, "return_")
        self.exhausted = _implementing(found, "exhausted")
        self.rest = _implementing(found, "rest")
        self.ready = _implementing(found, "ready")


def _implementing(features: list[Feature], hook: str) -> tuple[Feature, ...]:
    """Those of the features whose class has the hook of its own."""
    inherited = getattr(Feature, hook)
    return tuple(feature for feature in features if getattr(type(feature), hook) is not inherited)


NO_HOOKS: Final = Hooks()
"""Those of a queue without features."""


class Rules:
    """For each moment at which a message comes in the rules that have a say, in the order of the registry.

    Each rule stands with the feature that it is of. `leaves_out`: some messages of a run may not get into
    the queue. `described` is what the settings ask of the queue. See `Rule`.
    """

    __slots__ = (
        "decide", "decide_special", "described", "expect", "leaves_out", "omit", "refuse", "repeats",
    )  # fmt: skip

    def __init__(self, rules: Sequence[tuple[Declaration, Rule]] = ()) -> None:
        found = [rule for _, rule in rules]
        self.decide_special = tuple(rule for rule in found if _has(rule, "decide"))
        self.decide = tuple(rule for rule in self.decide_special if not rule.special_only)
        self.expect = tuple(rule for rule in found if _has(rule, "expect"))
        self.repeats = tuple(each for each in rules if _has(each[1], "repeats"))
        self.refuse = tuple(each for each in rules if _has(each[1], "refuse"))
        self.omit = tuple(each for each in rules if _has(each[1], "omit"))
        self.leaves_out = bool(self.refuse or self.omit)
        self.described = Description()
        for rule in found:
            rule.describe(self.described)


def _has(rule: Rule, hook: str) -> bool:
    """Whether the rule's class has the hook of its own."""
    return getattr(type(rule), hook) is not getattr(Rule, hook)
