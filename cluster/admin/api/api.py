"""The management API of a node: every operation, and the server that answers them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from cluster.admin.api import (
    channel_views,
    cluster_views,
    connection_views,
    declaration_views,
    definition_views,
    exchange_views,
    health_views,
    limit_views,
    member_views,
    message_views,
    move_views,
    node_views,
    partition_views,
    permission_views,
    policy_views,
    queue_views,
    unsupported_views,
    user_views,
    vhost_views,
)
from cluster.admin.api.routing import Operation
from cluster.admin.api.server import ManagementServer
from cluster.admin.api.services import Services
from cluster.process.scopes import Origin

if TYPE_CHECKING:
    from cluster.process.node import NodeProcess

_MODULES: Final = (
    channel_views, cluster_views, connection_views, declaration_views, definition_views,
    exchange_views, health_views,
    limit_views, member_views, message_views, move_views, node_views, partition_views, permission_views,
    policy_views, queue_views, unsupported_views, user_views, vhost_views,
)  # fmt: skip

OPERATIONS: Final[list[Operation]] = [
    operation for module in _MODULES for operation in module.endpoints.operations
]


def management_of(process: NodeProcess, version: str) -> ManagementServer:
    """The management API of a node."""
    services = Services(
        config=process.config,
        version=version,
        broker=process.broker,
        access=process.access,
        front_end=process.front_end,
        inquiry=process.inquiry,
        log=process.log,
        readiness=process.status.readiness,
        shut_out=process.listener.shut_out,
        spares_node=partial(process.fail_stop.spares_node, origin=Origin.REQUEST),
        login_failed=process.listener.failed,
    )
    return ManagementServer(services, OPERATIONS)
