"""Queues of every kind: nothing that a queue can do is missing on some of them."""

from __future__ import annotations

from typing import Any

from tests.site import Client

KINDS: dict[str, dict[str, Any]] = {
    "replicated": {},
    "classic": {"queue_type": "classic"},
    "transient": {"durable": False},
    "exclusive": {"exclusive": True},
}


def declare(client: Client, kind: str, **arguments: Any) -> str:
    """Declares a queue of a kind; returns its name."""
    name = "" if kind == "exclusive" else "q"
    return str(client.declare(name, **KINDS[kind], **arguments).queue)
