"""How much of the product a publish passes: the modules and functions from socket to confirm and delivery.

A client of one node publishes, another node owns the queue, a client of the third node consumes. Timers are
left out, as they run without any message; so is the client's own encoding, and `replication`, whose
interface is `Host`. `python -m tests.structure.publish_path` prints the functions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any

from node.wire.amqp091 import methods as m
from tests.simulation import front_ends
from tests.simulation.connection import Connection
from tests.simulation.node import SimulatedNode
from tests.site import Site
from tests.structure.tree import ROOT

PREFIXES = tuple(f"{ROOT / folder}/" for folder in ("node", "cluster"))
APART: tuple[Any, ...] = (
    SimulatedNode._tick, SimulatedNode._collect, front_ends._tick, Connection._tick, Connection._arrived,
)  # fmt: skip
"""Calls in these modules do not count: timers, and the clients' own half of a connection."""


class Passed:
    """The functions of the product that are called outside of `APART`, by module."""

    def __init__(self) -> None:
        self.functions: dict[str, set[str]] = {}
        self._apart: set[CodeType] = {function.__code__ for function in APART}
        self._within: FrameType | None = None

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if self._within is not None:
            if event == "return" and frame is self._within:
                self._within = None
        elif event == "call":
            if code in self._apart:
                self._within = frame
            elif code.co_filename.startswith(PREFIXES):
                module = code.co_filename.removeprefix(f"{ROOT}/")
                self.functions.setdefault(module, set()).add(code.co_qualname)


@contextmanager
def watched() -> Iterator[Passed]:
    passed, before = Passed(), sys.getprofile()
    sys.setprofile(passed)
    try:
        yield passed
    finally:
        sys.setprofile(before)


@cache
def publish_passes() -> dict[str, set[str]]:
    """Publish and deliver a message in a cluster at rest; the functions that are called, by module."""
    site = Site("n1", "n2", "n3")
    owner = next(name for name in site.nodes if _owns_after_declaring(site, name))
    publishing, consuming = (name for name in site.nodes if name != owner)
    publisher, consumer = site.client(publishing), site.client(consuming)
    consumer.consume("orders")
    site.run(1.05)
    arrival = publisher.reading(m.BasicPublish("", "orders"), b"one dozen")
    with watched() as passed:
        publisher.node.input(arrival)
        publisher.connection.send_octets(b"")
        assert publisher.confirms([1]) == [True]
        site.until(lambda: consumer.deliveries)
    return passed.functions


def _owns_after_declaring(site: Site, name: str) -> bool:
    """Whether a node owns the queue, which the first call declares."""
    node = site.nodes[name]
    if "orders" not in (queue.name for queue in node.broker.catalog.state.queues.values()):
        site.client(name).declare("orders")
        site.run(0.5)
    return any(owner.active and owner.queues for owner in node.broker.owners.values())


def main() -> None:
    found = publish_passes()
    for module, names in sorted(found.items()):
        print(module, *sorted(names), sep="\n    ")
    print(f"{len(found)} modules, {sum(map(len, found.values()))} functions")


if __name__ == "__main__":
    main()
