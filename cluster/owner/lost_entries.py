"""Messages whose contents no replica can read any more: their queue lets go of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from node.queue.entry import encode_batch, encode_entry
from node.queue.operation_format import encode_discard
from node.queue.operations import OWNER
from node.queue.partition import PartitionMachine
from node.ranges.numbers import count_of
from replication.journal import DamagedEntryError

QueueName = Callable[[int], tuple[str, str] | None]
"""A queue's virtual host and name, None where the catalog here does not know the queue."""


class MessageLoss(NamedTuple):
    """So many messages of a queue are lost; `name` is its virtual host and name, where these are known."""

    queue: int
    name: tuple[str, str] | None
    messages: int


class LostEntries:
    """Of the partitions of a node; `messages` counts what is lost while this node leads them."""

    def __init__(
        self, queue_name: QueueName, told: Callable[[DamagedEntryError, list[MessageLoss]], None]
    ) -> None:
        """`told` is called with the messages that an entry held, by queue."""
        self.messages = 0
        self._queue_name, self._told = queue_name, told

    def discard(self, machine: PartitionMachine, error: DamagedEntryError) -> bytes:
        """The entry that discards the messages of a damaged one."""
        held = machine.held_in(error.index)
        losses = [
            MessageLoss(queue, self._queue_name(queue), count_of(ranges)) for queue, ranges in held.items()
        ]
        self.messages += sum(loss.messages for loss in losses)
        self._told(error, losses)
        discards = [encode_discard(queue, ranges) for queue, ranges in sorted(held.items())]
        return encode_entry([encode_batch(OWNER, 0, 1, discards)])
