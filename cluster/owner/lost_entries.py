"""Messages whose contents no replica can read any more: their queue lets go of them, and says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cluster.owner.partition import PartitionOwner
from node.queue.entry import encode_batch, encode_entry
from node.queue.operation_format import encode_discard
from node.queue.operations import OWNER
from replication.group import Group
from replication.journal import DamagedEntryError
from replication.repair import Repair

Propose = Callable[[int, bytes], int | None]


class LostEntries:
    """`on_lost` is called with the number of messages of each queue, by the queue's id."""

    def __init__(self, owners: Mapping[int, PartitionOwner], propose: Propose, repair: Repair) -> None:
        self.messages = 0
        self.on_lost: Callable[[DamagedEntryError, dict[int, int]], None] = _unheard
        self._owners = owners
        self._propose = propose
        repair.on_lost = self.lost

    def lost(self, group: Group, error: DamagedEntryError) -> None:
        """Propose to let go of the entry's messages. Raises the error for what is no queue's entry.

        It comes before the first entry of the next owner, which then never grants them.
        """
        owner = self._owners.get(group.partition)
        if owner is None:
            raise error
        held = owner.machine.held_in(error.index)
        discards = [encode_discard(queue, ranges) for queue, ranges in sorted(held.items())]
        self._propose(group.partition, encode_entry([encode_batch(OWNER, 0, 1, discards)]))
        counts = {queue: sum(last - first + 1 for first, last in ranges) for queue, ranges in held.items()}
        self.messages += sum(counts.values())
        self.on_lost(error, counts)


def _unheard(error: DamagedEntryError, counts: dict[int, int]) -> None:
    """Nobody wants to be told."""
