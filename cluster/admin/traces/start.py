"""Puts traces into a node, before it starts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cluster.admin.traces.link import TracedLink
from cluster.admin.traces.owner import TracedOwner
from cluster.broker.broker import Broker
from cluster.config.tables import ConfigError, TraceSettings

if TYPE_CHECKING:
    from cluster.admin.traces.export import OtlpSpans


def trace(broker: Broker, settings: TraceSettings | None, cluster: str) -> OtlpSpans | None:
    """Have the broker record spans, if any settings are given: nothing on a message's way asks for them.

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
    spans = OtlpSpans(settings, broker.node, cluster)
    broker.make_link = partial(TracedLink, spans)
    broker.partitions.make_owner = partial(TracedOwner, spans)
    return spans
