"""Queues with a part for each node (x-owners each-node): the commands by which parts come and go. Pure.

A part comes as OPENING. Front ends publish to the part once its owner has it in the log. A part goes as
CLOSING. It goes for good once its owner has given all messages to the other parts, and has sealed it; until
then nothing makes it OPEN again. The first part never goes, as the queue is known by its name: it becomes the
part of another node, whose own part goes instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import count
from typing import Any, Protocol

from cluster.catalog.definitions import PartitionDefinition, PartState, QueueDefinition
from cluster.catalog.owner_parts import OwnerParts, hidden_part_fields, hidden_part_name
from cluster.catalog.partition_table import PartitionTable, SharingTerms
from node.queue.operations import Semantics

PartPlace = tuple[Sequence[str], Sequence[int]]
"""The replicas of a part, its first owner first, and the partitions that another node owns than that one."""


class PartsState(Protocol):
    """The catalog's state, as the commands change it."""

    queues: dict[tuple[str, str], QueueDefinition]
    queues_by_id: dict[int, QueueDefinition]
    owner_parts: OwnerParts
    table: PartitionTable

    @property
    def partitions(self) -> dict[int, PartitionDefinition]:
        """The partitions by id."""

    def add_queue(self, partition: int, fields: dict[str, Any]) -> QueueDefinition:
        """Add a queue."""

    def change_queue(self, queue: QueueDefinition) -> None:
        """Give a queue other properties."""

    def remove_queue(self, queue: QueueDefinition) -> None:
        """Remove a queue."""

    def check_placed(self, replicas: Sequence[str], transient: bool, front_end: int) -> tuple[str, ...]:
        """The nodes for a new queue that are there. Raises RestartedError where none is."""


class NodeParts:
    """The commands, on the catalog's `state`. Each may be repeated: it says what should be."""

    def __init__(self, state: PartsState) -> None:
        self._state = state
        self.commands: dict[str, Callable[..., Any]] = {
            "follow_members": self._follow,
            "open_part": self._open,
            "remove_part": self._remove,
        }

    def _follow(
        self, queue: int, nodes: Sequence[str], places: Mapping[str, PartPlace], share: int = 0
    ) -> None:
        """Each of the `nodes` is to have a part of the queue, and no other node is. Nodes without a part get
        one where they have a place.

        Raises RestartedError where the nodes of a place are gone, and PreconditionFailedError for a part
        whose name is too long.
        """
        first = self._state.queues_by_id.get(queue)
        if first is None or not first.node:
            return
        hidden = [one for one in self._state.owner_parts.lasting(first) if one.id != first.id]
        for part in [one for one in hidden if one.node not in nodes]:
            self._close(part)
        staying = [one for one in hidden if one.node in nodes]
        if first.node not in nodes:
            first = self._hand_on(first, staying, nodes)
        having = {first.node, *(one.node for one in staying)}
        for node in nodes:
            if node in places and node not in having:
                self._add(first, node, places[node], share)
        for part in self._state.owner_parts.of(first):
            # The limits of the parts depend on their number.
            self._state.change_queue(part)

    def _hand_on(
        self, first: QueueDefinition, hidden: list[QueueDefinition], nodes: Sequence[str]
    ) -> QueueDefinition:
        """The first part becomes that of another node: one without a part, or else one whose part closes."""
        having = {one.node for one in hidden}
        node = next((one for one in nodes if one not in having), "")
        if not node and hidden:
            node = hidden[0].node
            self._close(hidden.pop(0))
        if not node:
            return first
        changed = replace(first, node=node)
        self._state.change_queue(changed)
        return changed

    def _close(self, part: QueueDefinition) -> None:
        self._state.change_queue(replace(part, part=PartState.CLOSING))

    def _add(self, first: QueueDefinition, node: str, place: PartPlace, share: int) -> None:
        state, (replicas, elsewhere) = self._state, place
        like = state.partitions[first.partition]
        others = [one.partition for one in state.owner_parts.of(first)]
        terms = SharingTerms(like.size, share, False, like.domain, frozenset((*elsewhere, *others)))
        number = next(
            number
            for number in count(2)
            if (first.vhost, hidden_part_name(first.name, number)) not in state.queues
        )
        fields = {**asdict(first), "semantics": Semantics(first.semantics)}
        for own in ("id", "partition"):
            del fields[own]
        fields = hidden_part_fields(fields, number) | {"node": node, "part": PartState.OPENING}
        partition = state.table.place(state.check_placed(replicas, False, 0), terms)
        state.add_queue(partition.id, fields)

    def _open(self, id: int) -> None:
        """The owner of a part has it in the log."""
        part = self._state.queues_by_id.get(id)
        if part is not None and part.part is PartState.OPENING:
            self._state.change_queue(replace(part, part=PartState.OPEN))

    def _remove(self, id: int) -> None:
        """The owner of a part has sealed it, with no message in it."""
        part = self._state.queues_by_id.get(id)
        if part is not None and part.part is PartState.CLOSING:
            self._state.remove_queue(part)
