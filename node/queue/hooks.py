"""The shares of one queue, and the rules of its settings, by the moments at which they have a say.

The owner of a queue is given the `FeatureRegistry`; this package names no feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from node.queue.annotations import Annotations
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Description, Feature, Rule
from node.queue.operations import Aspect
from node.queue.order import Arranging, Order, ReadyByAge
from node.queue.settings import QueueSettings
from node.ranges.range_set import RangeSet


class Hooks:
    """For each hook the features that implement it, in the order of the registry. See `Feature`."""

    __slots__ = (
        "exhausted", "given", "lease_until", "note", "passes_on", "ready", "rest", "return_", "room", "serve",
        "served", "settle", "take_over",
    )  # fmt: skip

    def __init__(self, features: Sequence[tuple[Aspect | None, Feature]] = ()) -> None:
        """`features` are a queue's, with the aspects that they hear of."""
        found = [feature for _, feature in features]
        self.passes_on = any(feature.passes_on for feature in found)
        self.note = {aspect: feature for aspect, feature in features if aspect is not None}
        self.take_over = _implementing(found, "take_over")
        self.serve = _implementing(found, "serve")
        self.room = _implementing(found, "room")
        self.lease_until = _implementing(found, "lease_until")
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


Shares = dict[Declaration, Feature]
"""One queue's shares of the features that the queue asks for, or its messages do."""


class FeatureRegistry:
    """Declarations of features, in the order in which features have their say.

    `by_message` are the features that a message can ask for where its queue does not.
    """

    __slots__ = ("_features", "_orders", "by_message")

    def __init__(self, features: tuple[Declaration, ...], orders: tuple[Arranging, ...]) -> None:
        """The first of the `orders` that a queue's settings ask for is the queue's."""
        self._features = features
        self._orders = orders
        self.by_message: dict[Aspect, Declaration] = {
            feature.aspect: feature
            for feature in features
            if feature.aspect is not None and feature.by_message is not None
        }

    def arrange(self, settings: QueueSettings, known: Annotations, ready: RangeSet) -> Order:
        """The ready messages in the queue's order, which takes them over."""
        for arranged in self._orders:
            order = arranged(settings, known, ready)
            if order is not None:
                return order
        return ReadyByAge(ready)

    def shares_of(self, delivery: DeliveryState, former: Shares) -> Shares:
        """A queue's shares as its settings ask for them; `former` are those that the queue had."""
        found: Shares = {}
        for feature in self._features:
            share = None if feature.make is None else feature.make(delivery, former.get(feature))
            if share is not None:
                found[feature] = share
        return found

    def hooks_of(self, shares: Shares) -> Hooks:
        """The shares by the moments at which they have a say, in the order of the registry."""
        if not shares:
            return NO_HOOKS
        return Hooks([(feature.aspect, shares[feature]) for feature in self._features if feature in shares])


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
