"""The observers of a node's links and partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.gateway.observer import LinkObserver
from cluster.owner.observer import PartitionObserver


def _no_link_observer(_partition: int) -> LinkObserver | None:
    return None


def _no_partition_observers(_partition: int) -> tuple[PartitionObserver, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class NodeObservers:
    """Makes the observers of a new link or partition, by the partition's number."""

    link: Callable[[int], LinkObserver | None] = _no_link_observer
    partition: Callable[[int], tuple[PartitionObserver, ...]] = _no_partition_observers
    """Called for partitions on disk only."""
