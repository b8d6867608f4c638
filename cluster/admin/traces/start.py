"""Makes the recorders of spans of a node that has traces configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.admin.traces.link import TracedLink
from cluster.admin.traces.partition import TracedPartition
from cluster.admin.traces.spans import Spans
from cluster.broker.observers import NodeObservers
from cluster.config.tables import ConfigError, TraceSettings

if TYPE_CHECKING:
    from cluster.admin.traces.export import OtlpSpans


def span_exporter(settings: TraceSettings | None, node: str, cluster: str) -> OtlpSpans | None:
    """The exporter of the node's spans; None without settings.

    Raises `ConfigError` where the libraries are not installed.
    """
    if settings is None:
        return None
    try:
        from cluster.admin.traces.export import OtlpSpans
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"node.traces: {error.name} is not installed: install quorate[traces], or remove the table"
        ) from None
    return OtlpSpans(settings, node, cluster)


def observers(spans: Spans | None) -> NodeObservers:
    """The observers of a node's links and partitions, which record spans; none without `spans`."""
    if spans is None:
        return NodeObservers()
    return NodeObservers(
        lambda partition: TracedLink(spans, partition),
        lambda partition: (TracedPartition(spans, partition),),
    )
