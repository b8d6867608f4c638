"""Clients that have readers of a stream at the nodes of a site."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.gateway.readers import FrontEndReaders
from cluster.owner.readers import ReaderRow
from cluster.peers.reader_requests import READERS_TOLD
from node.message.streams import OffsetKind, StreamOffset
from node.queue.queue import QueueState
from node.queue.subscriptions import MaxLag
from node.session.ports import QueueRef
from tests.cluster.lives import owner_of
from tests.cluster.sinks import Asked
from tests.cluster.test_streams import STREAM
from tests.inside import machine_of
from tests.site import Site

EARLIEST = StreamOffset(OffsetKind.FIRST)


class Readers:
    """The readers of the stream of a site, which exists."""

    def __init__(self, site: Site) -> None:
        self.site = site

    @property
    def definition(self) -> Any:
        node = next(node for node in self.site.nodes.values() if node.up)
        return node.broker.catalog.state.queues["/", STREAM]

    @property
    def owner(self) -> str:
        """The node that owns the stream."""
        partition = self.definition.partition
        self.site.until(lambda: owner_of(self.site, partition))
        return str(owner_of(self.site, partition))

    def state(self, node: str = "") -> QueueState:
        """The stream as a node's replica has it; as its owner has it."""
        broker = self.site.nodes[node or self.owner].broker
        return machine_of(broker.owners[self.definition.partition]).queues[self.definition.id]

    def numbers(self) -> list[int]:
        """The messages that the stream has."""
        return [one for first, last in self.state().alive.ranges() for one in range(first, last + 1)]

    def ask(self, node: str, begin: Callable[[FrontEndReaders, QueueRef, Any], None]) -> Asked:
        port, asked = self.site.front_end(node), Asked(self.site)
        self.site.nodes[node].input(lambda: begin(port.readers, port.queue("/", STREAM, 0), asked.take))
        return asked

    def make(
        self, name: bytes, max_lag: MaxLag, begin: StreamOffset = EARLIEST, node: str = "n1"
    ) -> list[Any]:
        """Make a reader. Returns the answer."""
        asked = self.ask(node, lambda port, to, take: port.make(to, name, begin, tuple(max_lag), take))
        self.site.until(lambda: asked.told)
        return asked.told[0]

    def advance(self, name: bytes, position: int, node: str = "n1") -> list[Any]:
        asked = self.ask(node, lambda port, to, take: port.advance(to, name, position, take))
        self.site.until(lambda: asked.told)
        return asked.told[0]

    def forget(self, name: bytes, node: str = "n1") -> list[Any]:
        asked = self.ask(node, lambda port, to, take: port.forget(to, name, take))
        self.site.until(lambda: asked.told)
        return asked.told[0]

    def rows(self, node: str = "n1") -> dict[bytes, ReaderRow]:
        """The readers that the owner tells, by name."""
        asked = self.ask(node, lambda port, to, take: port.show(to, take))
        assert asked.answer == READERS_TOLD
        return {row[0]: ReaderRow(*row) for row in asked.told[0][1]}

    def row(self, name: bytes) -> ReaderRow:
        return self.rows()[name]
