"""Every feature of queues, and what it is asked for with: the one place that lists them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from node.queue.annotations import Annotations
from node.queue.features import (
    backoff,
    dead_letters,
    deduplication,
    delay,
    delivery_limit,
    expires,
    group,
    limits,
    max_unsettled,
    priority,
    single_active,
    ttl,
)
from node.queue.features.argument import Argument
from node.queue.features.feature import Declaration, Feature
from node.queue.features.hooks import NO_HOOKS, Hooks, Rules
from node.queue.operations import Aspect
from node.queue.order import Arranging, Order, ReadyByAge
from node.queue.places import Places
from node.queue.settings import PLAIN, QueueSettings
from node.ranges.range_set import RangeSet

FEATURES: Final[tuple[Declaration, ...]] = (
    delay.FEATURE,
    priority.FEATURE,
    group.FEATURE,
    single_active.FEATURE,
    deduplication.FEATURE,
    limits.FEATURE,
    max_unsettled.FEATURE,
    ttl.FEATURE,
    expires.FEATURE,
    delivery_limit.FEATURE,
    backoff.FEATURE,
    dead_letters.FEATURE,
)
"""In the order in which they have their say."""

ARGUMENTS: Final[tuple[Argument[Any], ...]] = tuple(
    argument for feature in FEATURES for argument in feature.arguments
)

BY_MESSAGE: Final[dict[Aspect, Declaration]] = {
    feature.aspect: feature
    for feature in FEATURES
    if feature.aspect is not None and feature.by_message is not None
}
"""The features that a message can ask for, where its queue does not."""

_CACHED: Final = 1024
"""Settings whose rules are kept."""

Shares = dict[Declaration, Feature]
"""One queue's shares of the features that it asks for, or its messages do."""

ORDERS: Final[tuple[Arranging, ...]] = (group.by_group, priority.by_priority)
"""The first that the settings ask for is the queue's."""


def arrange(settings: QueueSettings, known: Annotations, ready: RangeSet) -> Order:
    """The ready messages in the queue's order, which takes them over."""
    for arranged in ORDERS:
        order = arranged(settings, known, ready)
        if order is not None:
            return order
    return ReadyByAge(ready)


def shares_of(places: Places, former: Shares) -> Shares:
    """A queue's shares as its settings ask for them; `former` are those that it had."""
    found: Shares = {}
    for feature in FEATURES:
        share = None if feature.make is None else feature.make(places, former.get(feature))
        if share is not None:
            found[feature] = share
    return found


def hooks_of(shares: Shares) -> Hooks:
    """The shares by the moments at which they have a say, in the order of the registry."""
    if not shares:
        return NO_HOOKS
    return Hooks([(feature.aspect, shares[feature]) for feature in FEATURES if feature in shares])


@lru_cache(_CACHED)
def rules_of(settings: QueueSettings) -> Rules:
    """The rules by which the owner of a queue with these settings acts."""
    rules = ((feature, None if feature.rule is None else feature.rule(settings)) for feature in FEATURES)
    return Rules([(feature, rule) for feature, rule in rules if rule is not None])


PLAIN_RULES: Final = rules_of(PLAIN)
"""Those of a queue that asks for nothing: its messages may."""
