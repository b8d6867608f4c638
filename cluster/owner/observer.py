"""The interface of observers of a partition's replica. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from node.queue.operations import Applied
from node.queue.queue import QueueState


class PartitionObserver(Protocol):
    """Observes the entries of one partition on this node. It changes nothing."""

    def proposed(self, index: int) -> None:
        """The owner, on this node, has proposed an entry with its operations."""

    def applied(self, term: int, data: bytes, applied: Applied) -> None:
        """A committed entry is applied. The owner, if it is on this node, has not acted on it yet.

        `term` is the term in which this replica was elected last, `data` are the entry's octets.
        """

    def restored(self, queues: Mapping[int, QueueState]) -> None:
        """A snapshot has replaced the replica's state: `queues`, by number, which observers do not change."""

    def following(self) -> None:
        """This replica does not lead any more: the entries that it has proposed may never be committed."""
