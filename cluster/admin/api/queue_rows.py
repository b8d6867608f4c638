"""The queues that this node owns: their depths and counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cluster.admin.api.rates import QUEUE_WIDTH, queue_counts
from cluster.admin.api.sampling import Sampler
from cluster.admin.views import PartitionsView
from cluster.gateway.local_queues import LocalQueue
from node.queue.dispatch import QueueOwner

QueueKey = tuple[str, str]
"""Virtual host and name."""


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """A queue's contents and counters now, as its owner's node tells them."""

    vhost: str
    name: str
    consumers: int
    scheduled: int
    """Messages that are not due yet: neither ready nor leased."""
    idle_ms: int
    """Milliseconds since 1970 when its counters changed last; 0: not known yet."""
    counts: tuple[int, ...]
    """See `rates.queue_counts`; `rates` in the same order."""
    rates: tuple[float, ...]
    local: dict[str, Any] | None = None
    """The declaration of an exclusive queue that is not in the catalog."""


def added_figures(parts: Sequence[QueueFigures]) -> QueueFigures:
    """The figures of a queue whose parts have these."""
    return replace(
        parts[0],
        consumers=sum(one.consumers for one in parts),
        scheduled=sum(one.scheduled for one in parts),
        idle_ms=max(one.idle_ms for one in parts),
        counts=tuple(map(sum, zip(*(one.counts for one in parts), strict=True))),
        rates=tuple(map(sum, zip(*(one.rates for one in parts), strict=True))),
    )


@dataclass(frozen=True, slots=True)
class QueueRows:
    """Makes `QueueFigures`s in plain form: a tuple each, since there may be many."""

    partitions: PartitionsView
    sampler: Sampler
    wall_ms: Any

    def owned(self) -> Iterator[tuple[int, QueueOwner]]:
        """The queues that this node owns, by id."""
        for owner in list(self.partitions.owners.values()):
            if owner.active:
                yield from list(owner.queues.items())

    def rows(self, keys: Iterable[QueueKey] | None) -> list[tuple[Any, ...]]:
        """The queues among `keys` that this node owns; all of them for None."""
        if keys is None:
            return [row for id, queue in self.owned() if (row := self._row(id, queue)) is not None]
        found = (self._find(vhost, name) for vhost, name in keys)
        return [row for row in found if row is not None]

    def _find(self, vhost: str, name: str) -> tuple[Any, ...] | None:
        local = self.partitions.local.named(name)
        definition = self.partitions.state.queues.get((vhost, name))
        if local is not None:
            id, partition = local.ref.id, local.ref.partition
        elif definition is not None:
            id, partition = definition.id, definition.partition
        else:
            return None
        owner = self.partitions.owners.get(partition)
        queue = owner.queues.get(id) if owner is not None and owner.active else None
        return None if queue is None else self._row(id, queue)

    def _row(self, id: int, queue: QueueOwner) -> tuple[Any, ...] | None:
        definition = self.partitions.state.queues_by_id.get(id)
        local = self.partitions.local.by_id(id)
        if definition is not None:
            vhost, name = definition.vhost, definition.name
        elif local is not None:
            vhost, name = local.vhost, local.ref.name
        else:
            return None
        changed = self.sampler.changed(("queue", id))
        return (
            vhost,
            name,
            queue.delivery.consumers.count,
            queue.delivery.scheduled_count,
            0 if changed is None else self.wall_ms(changed),
            queue_counts(queue),
            self.sampler.rates(("queue", id), QUEUE_WIDTH),
            None if local is None else _declared(local),
        )


def _declared(queue: LocalQueue) -> dict[str, Any]:
    return {"auto_delete": queue.auto_delete, "arguments": queue.arguments}
