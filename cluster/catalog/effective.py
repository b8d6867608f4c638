"""The settings of queues under the catalog's policies. Every call works them out; nothing stores them."""

from __future__ import annotations

from cluster.catalog.definitions import PartitionKind, QueueDefinition
from cluster.catalog.local_parts import is_part
from cluster.catalog.owner_parts import whole_name
from cluster.catalog.placement import CLASSIC, QUORUM, STREAM
from cluster.catalog.policies import KIND_OF_TYPE, AppliedPolicies, ResourceKind
from cluster.catalog.policy_settings import arguments_over
from cluster.catalog.recovery_points import states_point, with_fitting_point
from cluster.catalog.redeclaration import TYPE_ARGUMENT
from cluster.catalog.state import CatalogState
from node.queue.part_settings import settings_of_part
from node.queue.placement_arguments import X_OWNERS
from node.queue.settings import QueueSettings
from node.queue.view_terms import with_views


def queue_type(state: CatalogState, queue: QueueDefinition) -> str:
    """STREAM for a stream, QUORUM for another replicated queue, CLASSIC for a queue on one node.

    A partition with one replica may belong to either type: there the queue's declaration and the defaults
    decide.
    """
    if queue.stream:
        return STREAM
    partition = state.partitions[queue.partition]
    if is_part(queue):
        return CLASSIC
    if partition.kind is PartitionKind.TRANSIENT:
        return CLASSIC
    if len(partition.replicas) > 1:
        return QUORUM
    default = state.access.vhost(queue.vhost).default_queue_type or state.default_queue_type
    return QUORUM if queue.arguments.get(TYPE_ARGUMENT, default) == QUORUM else CLASSIC


def resource_kind(state: CatalogState, queue: QueueDefinition) -> ResourceKind:
    """The kind of the queue for policies."""
    return KIND_OF_TYPE[queue_type(state, queue)]


def applied_to_queue(state: CatalogState, queue: QueueDefinition) -> AppliedPolicies:
    """The policies that apply to the queue."""
    name = whole_name(queue) or queue.name
    return state.policies.applied(queue.vhost, resource_kind(state, queue), name)


def settings_of(state: CatalogState, queue: QueueDefinition) -> QueueSettings:
    """The settings of the queue by its declaration, its policies, the stream under it, and the views over
    it.
    """
    topic = state.topics.under(queue.vhost, queue.name)
    arguments = queue.arguments if topic is None else arguments_over(topic.arguments, queue.arguments)
    name = whole_name(queue) or queue.name
    found = state.policies.settings(queue.vhost, resource_kind(state, queue), name, arguments)
    if states_point(found):
        found = with_fitting_point(found, topic, queue.arguments, applied_to_queue(state, queue).definition)
    if X_OWNERS in arguments:
        made = settings_of_part(found.by(queue.semantics), max(1, len(state.owner_parts.lasting(queue))))
    else:
        made = found.by(queue.semantics)
    return with_views(made, state.views.terms_over(queue.vhost, name))
