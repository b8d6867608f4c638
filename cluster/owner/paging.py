"""Keeps ranges and annotations of a partition's queues outside of memory, where queues ask for it (D14).

Every replica does so by what this node's catalog says of the queue. No entry of the log tells of it, and
replicas with and without have the same state.
"""

from __future__ import annotations

from cluster.owner.context import OwnerContext
from node.queue.features.registry import rules_of
from node.queue.operations import Applied
from node.queue.partition import PartitionMachine
from node.queue.settings import QueueSettings
from node.ranges.cold import ColdSpace

Spaces = dict[int, ColdSpace]
"""Spaces by queue."""


class Paging:
    """Gives spaces to the states of queues, and to their owners on this node. Methods raise OSError where a
    space cannot be read.
    """

    def __init__(self, machine: PartitionMachine, context: OwnerContext) -> None:
        self._machine, self._context = machine, context
        self._of_states, self._of_owners = Spaces(), Spaces()

    def applied(self, applied: Applied) -> None:
        """An entry is applied that has created queues, or dropped some."""
        for queue in applied.dropped:
            _close(self._of_states, queue)
            _close(self._of_owners, queue)
        for queue in applied.created:
            self._look(queue)

    def restored(self) -> None:
        """Other states have taken the place of all states."""
        _close_all(self._of_states)
        self.catalog_replaced()

    def catalog_replaced(self) -> None:
        """This node's catalog may have other settings of every queue."""
        for queue in self._machine.queues:
            self._look(queue)

    def _look(self, queue: int) -> None:
        settings = self._context.queues.settings(queue)
        if settings is not None:
            self.settings_known(queue, settings)

    def settings_known(self, queue: int, settings: QueueSettings) -> None:
        """This node's catalog has these settings of a queue, which the partition may not have yet."""
        state, wanted = self._machine.queues.get(queue), rules_of(settings).described.file_backed
        if state is None or wanted == (queue in self._of_states):
            return
        space = self._context.new_space() if wanted else None
        if space is not None or not wanted:
            state.page(space)
            _close(self._of_states, queue)
        if space is not None:
            self._of_states[queue] = space

    def for_owner(self, queue: int) -> ColdSpace | None:
        """The space for a new owner of the queue; None for memory alone."""
        _close(self._of_owners, queue)
        space = self._context.new_space() if queue in self._of_states else None
        if space is not None:
            self._of_owners[queue] = space
        return space

    def clear(self) -> None:
        """This replica does not lead any more."""
        _close_all(self._of_owners)

    def close(self) -> None:
        """This node drops the replica."""
        self.clear()
        _close_all(self._of_states)


def _close(spaces: Spaces, queue: int) -> None:
    space = spaces.pop(queue, None)
    if space is not None:
        space.close()


def _close_all(spaces: Spaces) -> None:
    for space in spaces.values():
        space.close()
    spaces.clear()
