"""What clients are told where an owner refuses what they ask for."""

from __future__ import annotations

from typing import Any

from cluster.gateway.queue_declarations import home_node_down
from cluster.peers.ports import ACCESS_REFUSED, NOT_FOUND, UNREACHABLE
from node.refusal import AccessRefusedError, NotFoundError, Refusal
from node.session.ports import QueueRef


def refusal_of(queue: QueueRef, value: Any) -> Refusal | None:
    """What a client is told where an owner answers with a reply code; None where it answers anything else."""
    if value == UNREACHABLE:
        return home_node_down(queue)
    if value == ACCESS_REFUSED:
        return AccessRefusedError(f"{queue} in exclusive use")
    return NotFoundError(f"no {queue}") if value == NOT_FOUND else None
