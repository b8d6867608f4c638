"""The partitions in the catalog: where queues are placed, and which replicas move. Pure.

A move in the catalog outlives crashes. The partition's leader carries it out step by step
(`cluster.catalog.membership.steps`), and settles it with the replicas that its group has then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from cluster.catalog.definitions import (
    Move,
    PartitionDefinition,
    PartitionKind,
    partition_from_plain,
    to_plain,
)
from cluster.catalog.kept_cuts import KeptCuts
from cluster.catalog.observer import Observer

FIRST_QUEUE_PARTITION: Final = 1

PARTITIONS_ALIKE: Final = 4
"""Most partitions with the same replicas. A partition moves, and has an owner, as a whole: a single one could
not be spread over nodes that join later."""


@dataclass(frozen=True, slots=True)
class SharingTerms:
    """With which other queues a new queue may share a partition, besides those with the same replicas.

    `size` is the number of replicas that its partition should have; 0: as many as it has. A partition takes
    `share` queues before another one is added, any number with 0. Queues `apart` have partitions of their
    own, and so have those of a `domain`. `elsewhere` are partitions that another node owns than the first
    owner for which the queue asks.
    """

    size: int = 0
    share: int = 0
    apart: bool = False
    domain: str = ""
    elsewhere: frozenset[int] = frozenset()


class PartitionTable:
    """Partitions by id."""

    def __init__(self, observer: Observer) -> None:
        self.partitions: dict[int, PartitionDefinition] = {}
        self.queues: Counter[int] = Counter()
        """How many queues each partition holds."""
        self.last = FIRST_QUEUE_PARTITION - 1
        self.cuts = KeptCuts()
        self._observer = observer
        self.commands: dict[str, Callable[..., Any]] = {
            **self.cuts.commands,
            "begin_move": self._begin,
            "revise_move": self._revise,
            "settle_move": self._settle,
        }

    def transient(self, front_end: int) -> PartitionDefinition | None:
        """The partition in the memory of one incarnation of a node; None if it has none."""
        for partition in self.partitions.values():
            if partition.kind is PartitionKind.TRANSIENT and partition.front_end == front_end:
                return partition
        return None

    def replicated(self) -> list[PartitionDefinition]:
        """The partitions that are kept on disk."""
        return [one for one in self.partitions.values() if one.kind is PartitionKind.REPLICATED]

    def add(
        self,
        kind: PartitionKind,
        replicas: tuple[str, ...],
        front_end: int = 0,
        terms: SharingTerms = SharingTerms(),
    ) -> PartitionDefinition:
        """Add a partition under the next id."""
        self.last += 1
        size = terms.size or len(replicas)
        partition = PartitionDefinition(
            self.last, kind, replicas, front_end, replicas, size, apart=terms.apart, domain=terms.domain
        )
        self.partitions[partition.id] = partition
        self._observer.partition_added(partition)
        return partition

    def remove(self, partition: PartitionDefinition) -> None:
        """Remove a partition that has no queues any more. Its id is not used again."""
        del self.partitions[partition.id]
        del self.queues[partition.id]
        self._observer.partition_removed(partition)

    def place(self, replicas: tuple[str, ...], terms: SharingTerms) -> PartitionDefinition:
        """The partition for a new queue, among the partitions with these replicas in this order.

        It is the one with the fewest queues; a new one where each has `share` queues, up to
        `PARTITIONS_ALIKE`.
        """
        size, share = terms.size or len(replicas), terms.share
        alike = [
            one
            for one in self.replicated()
            if one.replicas == replicas
            and (one.size == size or not share)
            and one.apart is terms.apart
            and one.domain == terms.domain
        ]
        there = [one for one in alike if one.id not in terms.elsewhere]
        if not there:
            return self.add(PartitionKind.REPLICATED, replicas, terms=terms)
        if not share:
            return there[0]
        emptiest = min(there, key=lambda one: (self.queues[one.id], one.id))
        if self.queues[emptiest.id] >= share and len(alike) < PARTITIONS_ALIKE:
            return self.add(PartitionKind.REPLICATED, replicas, terms=terms)
        return emptiest

    # -- moves ----------------------------------------------------------------------------------

    def _put(self, partition: PartitionDefinition) -> None:
        self.partitions[partition.id] = partition
        self._observer.partition_changed(partition)

    def _begin(self, partition: int, add: str, remove: str, owner: str) -> bool:
        """Begin a move. Returns False, and changes nothing, where another move is under way, or where the
        move does not fit the present replicas.
        """
        known = self.partitions.get(partition)
        if known is None or known.kind is not PartitionKind.REPLICATED or known.move is not None:
            return False
        replicas = set(known.replicas)
        if add in replicas or (remove and remove not in replicas) or not ({add} | replicas) - {remove, ""}:
            return False
        self._put(replace(known, move=Move(add, remove, owner)))
        return True

    def _revise(self, partition: int, add: str, remove: str, owner: str) -> bool:
        """Replace a move under way that cannot be carried out. Returns False where there is none."""
        known = self.partitions.get(partition)
        if known is None or known.move is None:
            return False
        self._put(replace(known, move=Move(add, remove, owner)))
        return True

    def _settle(self, partition: int, move: dict[str, str], replicas: list[str], owner: str) -> bool:
        """End a move: the group's voters are `replicas` now. Returns False where the move has been replaced.

        Replicas that stay keep their order; an `owner` comes first.
        """
        known = self.partitions.get(partition)
        if known is None or known.move != Move(**move):
            return False
        kept = [name for name in known.replicas if name in replicas]
        ordered = kept + sorted(set(replicas) - set(kept))
        if owner in ordered:
            ordered = [owner, *(name for name in ordered if name != owner)]
        self._put(replace(known, replicas=tuple(ordered), move=None))
        return True

    # -- snapshots ------------------------------------------------------------------------------

    def to_plain(self) -> list[dict[str, Any]]:
        return [to_plain(partition) for partition in self.partitions.values()]

    def restore(self, plain: list[dict[str, Any]], last: int, queues: Iterable[int]) -> None:
        """Restore from a snapshot; `queues` has the partition of each queue."""
        partitions = map(partition_from_plain, plain)
        self.partitions = {partition.id: partition for partition in partitions}
        self.last = last
        self.queues = Counter(queues)
