"""Queues that are in no catalog, found by what their names tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.catalog.definitions import FIRST_LOCAL_ID, LocalName

if TYPE_CHECKING:
    from cluster.broker.broker import Broker


def may_be_there(broker: Broker, name: LocalName, vhost: str) -> bool:
    """Whether a queue that is in no catalog has this name, as far as this node can tell.

    A name is what clients make up: it must not lead to what has another, or is in another virtual host.
    """
    partition = broker.catalog.state.partitions.get(name.partition)
    if partition is None or not name.front_end or partition.front_end != name.front_end:
        return False
    if name != LocalName.of(*name[:3], vhost) or name.queue < FIRST_LOCAL_ID:
        return False
    return name.front_end != broker.front_end or name.queue in broker.local_queues
