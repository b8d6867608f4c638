"""Every feature of queues, and what it is asked for with: the one place that lists them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from node.queue.argument import Argument
from node.queue.feature import Declaration
from node.queue.features import (
    backoff,
    dead_letters,
    deduplication,
    delay,
    delivery_limit,
    expires,
    group,
    lease_period,
    limits,
    max_unsettled,
    priority,
    single_active,
    ttl,
)
from node.queue.hooks import FeatureRegistry, Rules
from node.queue.order import Arranging
from node.queue.settings import PLAIN, QueueSettings

FEATURES: Final[tuple[Declaration, ...]] = (
    delay.FEATURE,
    priority.FEATURE,
    group.FEATURE,
    single_active.FEATURE,
    deduplication.FEATURE,
    limits.FEATURE,
    max_unsettled.FEATURE,
    lease_period.FEATURE,
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

_CACHED: Final = 1024
"""Settings whose rules are kept."""

ORDERS: Final[tuple[Arranging, ...]] = (group.by_group, priority.by_priority)
"""The first that the settings ask for is the queue's."""

REGISTRY: Final = FeatureRegistry(FEATURES, ORDERS)
"""What owners of queues are given."""


@lru_cache(_CACHED)
def rules_of(settings: QueueSettings) -> Rules:
    """The rules by which the owner of a queue with these settings acts."""
    rules = ((feature, None if feature.rule is None else feature.rule(settings)) for feature in FEATURES)
    return Rules([(feature, rule) for feature, rule in rules if rule is not None])


PLAIN_RULES: Final = rules_of(PLAIN)
"""Those of a queue that asks for nothing: its messages may."""
