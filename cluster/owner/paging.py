"""Keeps ranges and annotations of a partition's queues outside of memory, where queues ask for it (D14).

Every replica does so by what this node's catalog says of the queue. No entry of the log tells of it, and
replicas with and without have the same state.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.owner.context import OwnerContext
from node.queue.features.file_backed import FILE_BACKED
from node.queue.partition import PartitionMachine
from node.queue.queue import QueueState
from node.queue.settings import QueueSettings
from node.ranges.cold import ColdSpace


class Paging:
    """Gives spaces to the states of queues, and to their owners on this node. Methods raise OSError where a
    space cannot be read.
    """

    def __init__(self, machine: PartitionMachine, context: OwnerContext) -> None:
        self._machine, self._context = machine, context
        self._of_owners: dict[int, ColdSpace] = {}

    def look(self, queue: int) -> None:
        """The partition has a queue, which this node's catalog may know."""
        settings = self._context.queues.settings(queue)
        if settings is not None:
            self.settings_known(queue, settings)

    def settings_known(self, queue: int, settings: QueueSettings) -> None:
        """This node's catalog has these settings of a queue, which the partition may not have yet."""
        state = self._machine.queues.get(queue)
        wanted = bool(FILE_BACKED.of(settings))
        if state is not None and wanted != (state.space is not None):
            space = self._context.new_space() if wanted else None
            if space is not None or not wanted:
                state.page(space)

    def restored(self, former: Mapping[int, QueueState]) -> None:
        """Other states have taken the place of these."""
        for state in former.values():
            state.close()
        for queue in self._machine.queues:
            self.look(queue)

    def for_owner(self, queue: int) -> ColdSpace | None:
        """The space for a new owner of the queue; None for memory alone."""
        self.owner_gone(queue)
        if self._machine.queues[queue].space is None:
            return None
        space = self._context.new_space()
        if space is not None:
            self._of_owners[queue] = space
        return space

    def owner_gone(self, queue: int) -> None:
        """The queue has no owner on this node any more."""
        space = self._of_owners.pop(queue, None)
        if space is not None:
            space.close()

    def clear(self) -> None:
        """This replica does not lead any more."""
        for queue in list(self._of_owners):
            self.owner_gone(queue)

    def close(self) -> None:
        """The replica is dropped."""
        self.clear()
        for state in self._machine.queues.values():
            state.close()
