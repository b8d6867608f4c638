"""Queues of every kind, all of which have the same features."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from cluster.system.build import SOURCES, build
from tests.simulation.lives import Lives
from tests.site import Client, Site

KINDS: dict[str, dict[str, Any]] = {
    "replicated": {},
    "classic": {"queue_type": "classic"},
    "transient": {"durable": False},
    "exclusive": {"exclusive": True},
}


def lives_of(kind: str) -> Lives | None:
    """A watch over the ways of messages in random programs. All kinds have the same owners: one is watched.
    The watch replaces a method of each owner, which compiled code does not call.
    """
    return Lives() if kind == "replicated" and build() == SOURCES else None


def declare(client: Client, kind: str, **arguments: Any) -> str:
    """Declare a queue of a kind; return its name."""
    name = "" if kind == "exclusive" else "q"
    return str(client.declare(name, **KINDS[kind], **arguments).queue)


@pytest.fixture
def client() -> Client:
    return Site("n1").client("n1")


@pytest.fixture(params=KINDS)
def declared(request: pytest.FixtureRequest, client: Client) -> Any:
    """Declares a queue of some kind; returns its name."""
    return partial(declare, client, request.param)
