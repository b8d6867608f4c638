"""Reads the routing keys of runs whose messages state them in their method frames (`run.OWN_METHODS`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Final

from node.message.run import Run, method_octets
from node.wire.amqp091.native import NATIVE_ROUTING_KEYS

EXCHANGE_AT: Final = 13
"""Where the exchange's name begins in the frame of a basic.publish: behind the frame's header, class, method,
and a reserved short integer.
"""


def routing_keys(run: Run) -> list[bytes]:
    """The routing key of each message."""
    assert run.lengths is not None
    if NATIVE_ROUTING_KEYS is not None:
        return NATIVE_ROUTING_KEYS(run.raw, run.lengths)
    raw, keys, at = run.raw, list[bytes](), 0
    for length in run.lengths:
        key_at = at + EXCHANGE_AT + 1 + raw[at + EXCHANGE_AT]
        keys.append(bytes(raw[key_at + 1 : key_at + 1 + raw[key_at]]))
        at += length
    return keys


def by_key(run: Run) -> Iterator[tuple[str, Run]]:
    """The messages of a run, of whichever kind, as runs of one routing key each, in order; and that key."""
    if run.routing_key is not None:
        yield run.routing_key, run
        return
    first = 0
    for octets, same in groupby(routing_keys(run)):
        piece = run.slice(first, len(list(same)))
        key = octets.decode("utf-8", "surrogateescape")
        yield key, replace(piece, routing_key=key, skip=method_octets(piece.raw, 0))
        first += piece.count
