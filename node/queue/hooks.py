"""The features of one queue by hook: its shares, and the rules of its settings.

The owner of a queue gets the `FeatureRegistry`; this module names no feature.
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
from node.ranges.paged_set import set_in
from node.ranges.range_set import RangeSet


class Hooks:
    """The shares that implement each hook, in the order of the registry. See `Feature`."""

    __slots__ = (
        "as_told",
        "cancelled",
        "exhausted",
        "given",
        "lease_until",
        "note",
        "passes_on",
        "ready",
        "rest",
        "return_",
        "room",
        "serve",
        "served",
        "settle",
        "take_over",
    )

    def __init__(self, features: Sequence[tuple[Aspect | None, Feature]] = ()) -> None:
        """`features` are a queue's shares, each with the aspect that its `note` is called for."""
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
        self.cancelled = _implementing(found, "cancelled")
        self.rest = _implementing(found, "rest")
        self.ready = _implementing(found, "ready")
        self.as_told = _implementing(found, "as_told")


def _implementing(features: list[Feature], hook: str) -> tuple[Feature, ...]:
    """The features whose class overrides the hook."""
    inherited = getattr(Feature, hook)
    return tuple(feature for feature in features if getattr(type(feature), hook) is not inherited)


NO_HOOKS: Final = Hooks()
"""The hooks of a queue without features."""


Shares = dict[Declaration, Feature]
"""One queue's shares of features, which its settings or its messages ask for."""


class FeatureRegistry:
    """The declarations of all features, in the order in which their hooks are called.

    `by_message` are the features that a message can ask for where its queue does not, by aspect. `by_filter`
    is the feature that a consumer with a filter asks for.
    """

    __slots__ = ("_features", "_orders", "by_filter", "by_message")

    def __init__(self, features: tuple[Declaration, ...], orders: tuple[Arranging, ...]) -> None:
        """A queue has the first of the `orders` that its settings ask for."""
        self._features = features
        self._orders = orders
        self.by_message: dict[Aspect, Declaration] = {
            feature.aspect: feature
            for feature in features
            if feature.aspect is not None and feature.by_message is not None
        }

        self.by_filter = next((feature for feature in features if feature.by_filter is not None), None)

    def arrange(self, settings: QueueSettings, known: Annotations, ready: RangeSet) -> Order:
        """The ready messages in the queue's order, which takes over the set."""
        for arranged in self._orders:
            order = arranged(settings, known, ready)
            if order is not None:
                return order
        return ReadyByAge(set_in(known.space, ready))

    def shares_of(self, delivery: DeliveryState, former: Shares) -> Shares:
        """The shares that a queue's settings ask for now. `former` are the shares that the queue has had."""
        found: Shares = {}
        for feature in self._features:
            share = None if feature.make is None else feature.make(delivery, former.get(feature))
            if share is not None:
                found[feature] = share
        return found

    def hooks_of(self, shares: Shares) -> Hooks:
        """The shares by hook, in the order of the registry."""
        if not shares:
            return NO_HOOKS
        return Hooks([(feature.aspect, shares[feature]) for feature in self._features if feature in shares])


class Rules:
    """The rules that implement each hook for incoming messages, in the order of the registry. See `Rule`.

    `repeats`, `refuse`, `omit` and `merge` have each rule with its feature. `leaves_out`: the queue may not
    take some messages of a run, or take them with other bodies. `described` is the queue as its settings ask
    for it.
    """

    __slots__ = (
        "decide",
        "decide_special",
        "described",
        "expect",
        "leave",
        "leaves_out",
        "merge",
        "omit",
        "refuse",
        "repeats",
    )

    def __init__(self, rules: Sequence[tuple[Declaration, Rule]] = ()) -> None:
        found = [rule for _, rule in rules]
        self.decide_special = tuple(rule for rule in found if _has(rule, "decide"))
        self.decide = tuple(rule for rule in self.decide_special if not rule.special_only)
        self.expect = tuple(rule for rule in found if _has(rule, "expect"))
        self.leave = tuple(rule for rule in found if _has(rule, "leave"))
        self.repeats = tuple(each for each in rules if _has(each[1], "repeats"))
        self.refuse = tuple(each for each in rules if _has(each[1], "refuse"))
        self.merge = tuple(each for each in rules if _has(each[1], "merge"))
        self.omit = tuple(each for each in rules if _has(each[1], "omit"))
        self.leaves_out = bool(self.leave or self.refuse or self.omit or self.merge)
        self.described = Description()
        for rule in found:
            rule.describe(self.described)


def _has(rule: Rule, hook: str) -> bool:
    """Whether the rule's class overrides the hook."""
    return getattr(type(rule), hook) is not getattr(Rule, hook)
