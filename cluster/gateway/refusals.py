"""The refusals that clients get where an owner refuses a request."""

from __future__ import annotations

from typing import Any

from cluster.gateway.queue_declarations import home_node_down
from cluster.peers.link_messages import (
    ACCESS_REFUSED,
    NOT_FOUND,
    TAKEN_OUT_FIRST,
    TOO_MANY_FILTERS,
    TOO_MANY_SUBSCRIPTIONS,
    UNREACHABLE,
)
from node.refusal import AccessRefusedError, NotFoundError, PreconditionFailedError, Refusal, ResourceError
from node.session.ports import QueueRef


def refusal_of(queue: QueueRef, value: Any) -> Refusal | None:
    """The refusal for an owner's answer that is a reply code; None for every other answer."""
    if value == UNREACHABLE:
        return home_node_down(queue)
    if value == ACCESS_REFUSED:
        return AccessRefusedError(f"{queue} in exclusive use")
    if value == TOO_MANY_FILTERS:
        return ResourceError(f"the consumers of {queue} have too many different filters")
    if value == TOO_MANY_SUBSCRIPTIONS:
        return ResourceError(f"{queue} has too many subscriptions")
    if value == TAKEN_OUT_FIRST:
        return PreconditionFailedError(
            f"messages of {queue} cannot be moved or brought back: it removes each before it delivers it"
        )
    return NotFoundError(f"no {queue}") if value == NOT_FOUND else None
