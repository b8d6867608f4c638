"""The interface of observers of a partition's replica. Pure."""

from __future__ import annotations

from typing import Protocol

from node.queue.operations import Applied


class PartitionObserver(Protocol):
    """Told what becomes of one partition's entries on this node. An observer decides nothing."""

    def proposed(self, index: int) -> None:
        """The owner, on this node, has proposed an entry with what it had collected."""

    def applied(self, term: int, data: bytes, applied: Applied) -> None:
        """A committed entry is applied, and its owner, if it is here, has not acted on it yet.

        `term` is the one that this replica was elected in last, `data` are the entry's octets.
        """

    def following(self) -> None:
        """This replica leads no more: what it has proposed may never be committed."""
