"""Every operation of the management API."""

from __future__ import annotations

from typing import Final

from cluster.admin.api import (
    barrier_views,
    channel_views,
    cluster_views,
    connection_views,
    declaration_views,
    definition_views,
    epoch_views,
    exchange_views,
    explain_views,
    health_views,
    limit_views,
    log_views,
    member_views,
    message_views,
    move_views,
    node_views,
    partition_views,
    permission_views,
    policy_views,
    queue_views,
    reader_views,
    take_views,
    unsupported_views,
    user_views,
    vhost_views,
    views_over_queues,
)
from cluster.admin.api.routing import Endpoint

_MODULES: Final = (
    channel_views,
    cluster_views,
    connection_views,
    declaration_views,
    definition_views,
    epoch_views,
    exchange_views,
    explain_views,
    health_views,
    limit_views,
    log_views,
    member_views,
    message_views,
    move_views,
    node_views,
    barrier_views,
    partition_views,
    permission_views,
    policy_views,
    queue_views,
    reader_views,
    take_views,
    unsupported_views,
    user_views,
    vhost_views,
    views_over_queues,
)

OPERATIONS: Final[list[Endpoint]] = [
    operation for module in _MODULES for operation in module.endpoints.operations
]
