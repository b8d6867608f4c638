"""The routes of runs whose messages may have different ones: by routing keys, by headers, by further keys.

Each function cuts a run into stretches of messages that have one route, in order. It raises Refusal where
the route of a message is refused, when the stretches before that message have been given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from node.message.run import Run
from node.refusal import Refusal
from node.session.permissions import Scope
from node.session.ports import BrokerPort, Route
from node.wire.formats import format_of

RoutedStretch = tuple[int, Run, Route]
"""The place of the first message in the run, the messages as a run, and their route."""


def by_keys(port: BrokerPort, scope: Scope, run: Run) -> Iterator[RoutedStretch]:
    """The stretches of a run whose messages state their routing keys each."""
    first = 0
    routes, refusal = port.route_keys(scope, run.exchange, format_of(run).routing_keys(run))
    for count, route in routes:
        yield first, run.slice(first, count), route
        first += count
    if refusal is not None:
        raise refusal


def by_contents(
    port: BrokerPort, scope: Scope, key: str, run: Run, names: tuple[str, ...] | None, *, copied: bool
) -> Iterator[RoutedStretch]:
    """The stretches of a run with one routing key, where the exchange routes by the headers `names`, or where
    messages may state further routing keys (`copied`).
    """
    if copied:
        return _one_by_one(port, scope, key, run, by_headers=names is not None)
    return _by_headers(port, scope, key, run, names or ())


def _one_by_one(
    port: BrokerPort, scope: Scope, key: str, run: Run, *, by_headers: bool
) -> Iterator[RoutedStretch]:
    """Route each stretch of messages with the same properties by its own headers and further keys."""
    messages = format_of(run)
    for first, count, properties in messages.properties_in(run):
        headers = messages.headers(properties) if by_headers else None
        copies = messages.copies(properties)
        route = port.route(scope, run.exchange, key, headers, copies.keys)
        piece = run.slice(first, count)
        yield first, messages.without_blind_copies(piece) if copies.blind else piece, route


def _by_headers(
    port: BrokerPort, scope: Scope, key: str, run: Run, names: tuple[str, ...]
) -> Iterator[RoutedStretch]:
    begin, latest = 0, None
    for first, _, alike in format_of(run).header_keys(run, names):
        headers = partial(_headers_at, run, first)
        try:
            route = port.route_alike(scope, run.exchange, key, alike, headers)
        except Refusal:
            if latest is not None:
                yield begin, run.slice(begin, first - begin), latest
            raise
        if latest is not None and route is not latest:
            yield begin, run.slice(begin, first - begin), latest
            begin = first
        latest = route
    if latest is not None:
        yield begin, run.slice(begin, run.count - begin), latest


def _headers_at(run: Run, index: int) -> Mapping[str, Any]:
    """The headers of one message of a run."""
    messages = format_of(run)
    _, _, properties = next(messages.properties_in(run.slice(index, 1)))
    return messages.headers(properties)
