"""The list of all features of queues, in one place."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from node.queue.argument import Argument
from node.queue.feature import Declaration
from node.queue.features import (
    attempts,
    backlog,
    backoff,
    barrier,
    dead_letters,
    deduplication,
    delay,
    delivery_limit,
    entry_filter,
    expires,
    fed_by_view,
    file_backed,
    filters,
    group,
    last_value,
    lease_period,
    limits,
    max_unsettled,
    priority,
    priority_expression,
    several_owners,
    single_active,
    stream,
    sublet,
    target_depth,
    ttl,
    underlying_topic,
    views,
)
from node.queue.hooks import FeatureRegistry, Rules
from node.queue.order import Arranging
from node.queue.settings import PLAIN, QueueSettings

FEATURES: Final[tuple[Declaration, ...]] = (
    delay.FEATURE,
    priority.FEATURE,
    priority_expression.FEATURE,
    group.FEATURE,
    single_active.FEATURE,
    entry_filter.FEATURE,
    deduplication.FEATURE,
    last_value.FEATURE,
    several_owners.FEATURE,
    limits.FEATURE,
    stream.FEATURE,
    underlying_topic.FEATURE,
    fed_by_view.FEATURE,
    max_unsettled.FEATURE,
    backlog.FEATURE,
    target_depth.FEATURE,
    barrier.FEATURE,
    lease_period.FEATURE,
    sublet.FEATURE,
    ttl.FEATURE,
    expires.FEATURE,
    delivery_limit.FEATURE,
    attempts.FEATURE,
    backoff.FEATURE,
    dead_letters.FEATURE,
    filters.FEATURE,
    views.FEATURE,
    file_backed.FEATURE,
)
"""In the order in which their hooks are called."""

ARGUMENTS: Final[tuple[Argument[Any], ...]] = tuple(
    argument for feature in FEATURES for argument in feature.arguments
)

_CACHED: Final = 1024
"""The rules of so many settings are cached."""

ORDERS: Final[tuple[Arranging, ...]] = (group.by_group, priority.by_priority, priority_expression.by_rank)
"""A queue has the first order that its settings ask for, and otherwise the order by age."""

REGISTRY: Final = FeatureRegistry(FEATURES, ORDERS)
"""The registry that owners of queues use."""


@lru_cache(_CACHED)
def rules_of(settings: QueueSettings) -> Rules:
    """The rules of a queue with these settings, cached."""
    rules = ((feature, None if feature.rule is None else feature.rule(settings)) for feature in FEATURES)
    return Rules([(feature, rule) for feature, rule in rules if rule is not None])


PLAIN_RULES: Final = rules_of(PLAIN)
"""The rules of a queue without arguments. Its messages may ask for a delay or an expiration."""
