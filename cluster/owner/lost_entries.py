"""Discards messages whose contents no replica can read any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from node.queue.decision_format import encode_note
from node.queue.entry_format import encode_batch, encode_discard, encode_entry
from node.queue.history_notes import HistoryNote, NoteKind
from node.queue.operations import OWNER
from node.queue.partition import PartitionMachine
from node.ranges.range_set import count_of
from replication.journal import DamagedEntryError

QueueName = Callable[[int], tuple[str, str] | None]
"""A queue's virtual host and name; None where this node's catalog does not know the queue."""


class MessageLoss(NamedTuple):
    """The number of lost messages of a queue. `name` is its virtual host and name, if this node knows it."""

    queue: int
    name: tuple[str, str] | None
    messages: int


class LostEntries:
    """The lost entries of all partitions of a node. `messages` counts the messages lost while it led them."""

    def __init__(
        self, queue_name: QueueName, told: Callable[[DamagedEntryError, list[MessageLoss]], None]
    ) -> None:
        """`told` is called with the number of an entry's lost messages by queue."""
        self.messages = 0
        self._queue_name, self._told = queue_name, told

    def discard(self, machine: PartitionMachine, error: DamagedEntryError) -> bytes:
        """An entry that discards the messages of a damaged one, for the leader to propose."""
        held = machine.held_in(error.index)
        losses = [
            MessageLoss(queue, self._queue_name(queue), count_of(ranges)) for queue, ranges in held.items()
        ]
        self.messages += sum(loss.messages for loss in losses)
        self._told(error, losses)
        discards = [encode_discard(queue, ranges) for queue, ranges in sorted(held.items())]
        if machine.chronicle.covers(error.index):
            discards.append(encode_note(HistoryNote(NoteKind.RESTART)))
        return encode_entry([encode_batch(OWNER, 0, 1, discards)])
