"""Descriptions of queues for clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class QueueDescription(NamedTuple):
    """A queue as its declaration has it, of the type `kind` (classic, quorum or stream), and its nodes."""

    name: str
    kind: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: Mapping[str, Any]
    leader: str
    """The node that owns the queue, as far as this node knows."""
    replicas: tuple[str, ...]
