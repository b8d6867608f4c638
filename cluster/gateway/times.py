"""Narrows the messages that a client names to those of a time, by the times that their stream knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from cluster.gateway.link import Links
from cluster.gateway.refusals import refusal_of
from cluster.peers.link_messages import NOTHING_TO_GET
from node.delivery.deeds import Named
from node.refusal import Refusal
from node.session.ports import QueueRef

Narrowed = Callable[[Named | None, Refusal | None], None]
"""Takes the messages within the times, or a refusal."""


def within_times(links: Links, stream: QueueRef, named: Named, narrowed: Narrowed) -> None:
    """Ask the owner of the stream which of its messages come from the times on. A message of a queue over the
    stream has the number that it has in the stream.
    """
    if named.since is not None:
        rest = replace(named, since=None)
        _ask(links, stream, named.since, partial(_behind, links, stream, rest, narrowed))
    elif named.until is not None:
        _ask(links, stream, named.until, partial(_up_to, stream, named, narrowed))
    else:
        narrowed(named, None)


def _ask(
    links: Links, stream: QueueRef, place: tuple[int, int], answered: Callable[[Any, object], None]
) -> None:
    """Ask for the number behind which the messages from the place on are."""
    arguments = [*NOTHING_TO_GET, stream.id, *place]
    links.request(links.to(stream.partition), "stream_place", arguments, answered)


def _behind(links: Links, stream: QueueRef, named: Named, narrowed: Narrowed, value: Any, _: object) -> None:
    refusal = refusal_of(stream, value)
    if refusal is not None:
        narrowed(None, refusal)
        return
    first = value[0] + 1
    ranges = [(max(first, low), high) for low, high in named.ranges if high >= first]
    within_times(links, stream, replace(named, ranges=ranges), narrowed)


def _up_to(stream: QueueRef, named: Named, narrowed: Narrowed, value: Any, _: object) -> None:
    refusal = refusal_of(stream, value)
    if refusal is not None:
        narrowed(None, refusal)
        return
    ranges = [(low, min(value[0], high)) for low, high in named.ranges if low <= value[0]]
    narrowed(replace(named, ranges=ranges), None)
