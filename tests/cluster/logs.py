"""Asks the nodes of a site for plans and blocks of streams, as an HTTP client's node does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from cluster.admin.api.log_answers import LOG_PLAN, LOG_READ, TAKE_PLAN, LogAnswers
from cluster.admin.api.log_replicas import LogReplicas
from cluster.catalog.definitions import QueueDefinition
from cluster.owner.log_plan import UNLIMITED, PlanLimits, Wish
from node.expressions.condition import encoded_condition
from node.message.streams import FROM_NEXT, OffsetKind, StreamOffset
from pipeline.log.blocks import Block, read_block
from pipeline.log.rows import Topic, TopicRow, rows_of_blocks
from tests.inquiries import inquiries
from tests.simulation.node import EPOCH_MS
from tests.site import Site

EARLIEST = StreamOffset(OffsetKind.FIRST)


def at(number: int) -> StreamOffset:
    return StreamOffset(OffsetKind.NUMBER, number)


class LogReading:
    """The running nodes of a site, which ask each other in octets, without a network. `asked` are the nodes
    that have told blocks.
    """

    def __init__(self, site: Site, stream: str) -> None:
        self._site, self._stream = site, stream
        self.running = [name for name, node in site.nodes.items() if node.up]
        self.asked: list[str] = []
        self.inquiries = inquiries(self.running)
        self.answers: dict[str, LogAnswers] = {}
        for name, inquiry in self.inquiries.items():
            broker = site.nodes[name].broker
            answers = LogAnswers(broker.owners, broker.host, self._now, self._wall_ms, lambda: site.run(0.1))
            self.answers[name] = answers
            inquiry.answer(LOG_PLAN, answers.plan)
            inquiry.answer(TAKE_PLAN, answers.plan_take)
            inquiry.answer(LOG_READ, self._noting(name, answers))

    def _now(self) -> float:
        return self._site.world.now

    def _wall_ms(self) -> int:
        return EPOCH_MS + int(self._now() * 1000)

    def _noting(self, name: str, answers: LogAnswers) -> Any:
        async def read(argument: Any) -> Any:
            told = await answers.read(argument)
            if told is not None and "refused" not in told:
                self.asked.append(name)
            return told

        return read

    @property
    def definition(self) -> QueueDefinition:
        node = self._site.nodes[self.running[0]]
        found: QueueDefinition = node.broker.catalog.state.queues["/", self._stream]
        return found

    def replicas(self, nodes: Sequence[str] = ()) -> LogReplicas:
        names = list(nodes or self.running)
        return LogReplicas(self.inquiries[names[0]], self.definition, names)

    def plan(
        self,
        first: StreamOffset = EARLIEST,
        end: StreamOffset = FROM_NEXT,
        rows: int = UNLIMITED,
        octets: int = UNLIMITED,
        range_octets: int = UNLIMITED,
        nodes: Sequence[str] = (),
        first_count: int | None = None,
    ) -> Any:
        """The owner, and its plan. Raises ApiError."""
        wish = Wish(first, end, PlanLimits(rows, octets, range_octets), first_count)
        return asyncio.run(self.replicas(nodes).plan(wish))

    def blocks(self, first: int, end: int, *nodes: str, taking: str = "") -> list[Block]:
        """The blocks of a range, of the messages that an expression takes. Raises ApiError."""
        filter = encoded_condition(taking) if taking else b""

        async def read() -> bytes:
            told = [blocks async for _, blocks in self.replicas(nodes).blocks(first, end, filter)]
            return b"".join(told)

        octets = asyncio.run(read())
        source, found = BytesIO(octets), []
        while source.tell() < len(octets):
            found.append(read_block(source.read, source.tell()))
        return found

    def rows(self, first: int, end: int, *nodes: str, taking: str = "") -> list[TopicRow]:
        """The messages of a range, or those that an expression takes."""
        topic = Topic(self._stream, self.definition.partition)
        return rows_of_blocks(topic, self.blocks(first, end, *nodes, taking=taking))

    def all_rows(self, **wishes: Any) -> list[TopicRow]:
        """The messages of all ranges of a plan."""
        _, plan = self.plan(**wishes)
        return [row for first, end, _, _ in plan["ranges"] for row in self.rows(first, end)]
