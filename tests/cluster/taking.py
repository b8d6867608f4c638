"""Clients that take messages of a queue in takes, at the nodes of a site."""

from __future__ import annotations

import asyncio
from typing import Any

from cluster.admin.api.log_replicas import LogReplicas
from cluster.owner.log_reading import NamedTake
from node.queue.takes import QueueTakes
from node.ranges.range_set import Range
from tests.cluster.logs import LogReading
from tests.cluster.sinks import Asked, OwnedQueue
from tests.inside import machine_of
from tests.site import Site


class Reader(OwnedQueue):
    """A reader of the queue, with the name `reader`."""

    def __init__(self, site: Site, queue: str, reader: bytes = b"r") -> None:
        super().__init__(site, queue)
        self.reader = reader

    def takes(self, node: str) -> QueueTakes:
        """The takes of the queue as a node's replica has them."""
        state = machine_of(self.replica(node)).queues.get(self.definition.id)
        return QueueTakes() if state is None or state.takes is None else state.takes

    def take(self, node: str, number: int, rows: int = 100, octets: int = 0, end: int = 0) -> Asked:
        port, asked = self.site.front_end(node), Asked(self.site)
        self.site.nodes[node].input(
            lambda: port.takes.take(self._ref(node), self.reader, number, rows, octets, asked.take, end=end)
        )
        return asked

    def settle(self, node: str, number: int) -> Asked:
        port, asked = self.site.front_end(node), Asked(self.site)
        self.site.nodes[node].input(
            lambda: port.takes.settle(self._ref(node), self.reader, number, asked.take)
        )
        return asked

    def release(self, node: str, number: int = 0) -> Asked:
        port, asked = self.site.front_end(node), Asked(self.site)
        self.site.nodes[node].input(
            lambda: port.takes.release(self._ref(node), self.reader, number, asked.take)
        )
        return asked

    def show(self, node: str) -> list[Any]:
        """The rows of all readers."""
        port, asked = self.site.front_end(node), Asked(self.site)
        self.site.nodes[node].input(lambda: port.takes.show(self._ref(node), asked.take))
        assert asked.answer == "show_readers"
        return list(asked.told[0][1])

    def next(self, node: str) -> int:
        """The first number of a reader that the queue does not know."""
        return self._told_of_all(node)[0] + 1

    def end(self, node: str) -> int:
        """The number behind all messages of the queue."""
        return self._told_of_all(node)[1]

    def _told_of_all(self, node: str) -> tuple[int, int]:
        port, asked = self.site.front_end(node), Asked(self.site)
        self.site.nodes[node].input(lambda: port.takes.show(self._ref(node), asked.take))
        assert asked.answer == "show_readers"
        _, _, released, end = asked.told[0]
        return released, end

    def _ref(self, node: str) -> Any:
        return self.site.front_end(node).queue("/", self.name, 0)

    def taken(self, asked: Asked) -> list[Range]:
        """The messages that an answer says are held."""
        assert asked.answer == "held", asked.told
        return [(first, last) for first, last in asked.told[0][2]]

    # -- reading --------------------------------------------------------------------------------

    def bodies(self, number: int, ranges: list[Range], *nodes: str) -> list[bytes]:
        """The messages of a take, out of the replicas of nodes, or of all that run."""
        reading = TakeReading(self.site, self.name, NamedTake(self.reader, number))
        return [row.body for row in reading.rows(ranges[0][0], ranges[-1][1] + 1, *nodes)]

    def plan(self, number: int, ranges: list[Range], range_octets: int) -> list[Any]:
        """The ranges of a take."""
        reading = TakeReading(self.site, self.name, NamedTake(self.reader, number))
        replicas = reading.replicas()
        return asyncio.run(replicas.plan_take(ranges[0][0], ranges[-1][1] + 1, range_octets))


class TakeReading(LogReading):
    """As `LogReading`, of the messages of a take."""

    def __init__(self, site: Site, queue: str, take: NamedTake) -> None:
        super().__init__(site, queue)
        self._take = take

    def replicas(self, nodes: Any = ()) -> LogReplicas:
        names = list(nodes or self.running)
        return LogReplicas(self.inquiries[names[0]], self.definition, names, self._take)
