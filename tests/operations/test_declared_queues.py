"""Queues of the configuration, on the nodes of a cluster that is new."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from cluster.catalog.access.control import Answer
from cluster.config.declared_queues import DeclaredQueueSettings
from cluster.config.formats import ARGUMENT_LEVELS, FORMAT_LEVEL
from cluster.config.models import ClusterConfig, Member
from cluster.gateway.broker_port import FrontEnd
from cluster.log.event_log import EventLog
from cluster.process.declared_queues import FirstStarts, declare_queues
from node.session.ports import QueueDeclaration
from tests.membership.test_commands import Catalog


class Declaring:
    """A front end that takes each declaration when all members have started."""

    def __init__(self, catalog: Catalog) -> None:
        self.waited: list[list[str]] = []
        self._catalog = catalog

    def declare_queue(self, _vhost: str, _queue: QueueDeclaration, _holder: int, answer: Answer) -> None:
        self.waited.append(self._catalog.state.members.never_started)
        answer(None, None)


class Log:
    """Starts the last members when the node says that it waits for them."""

    def __init__(self, catalog: Catalog) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.starts: FirstStarts | None = None
        self._catalog = catalog

    def info(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))
        asyncio.get_running_loop().call_soon(self._start, fields["nodes"])

    def _start(self, names: list[str]) -> None:
        assert self.starts is not None
        for number, name in enumerate(names, start=2):
            self._catalog.do("start_node", name=name, front_end=number, formats=FORMAT_LEVEL)
            self.starts.node_started(self._catalog.state.nodes[name], 0)


def declared(catalog: Catalog, **queue: Any) -> tuple[Declaring, Log]:
    front_end, log = Declaring(catalog), Log(catalog)
    member = Member.model_validate(dict.fromkeys(("peers", "amqp", "http"), "127.0.0.1:1"))
    config = ClusterConfig(nodes={"n1": member}, queues={"orders": DeclaredQueueSettings(**queue)})
    members = catalog.state.members

    def known(name: str) -> bool:
        return members.formats_of_all >= ARGUMENT_LEVELS.get(name, 0)

    async def declare() -> None:
        log.starts = FirstStarts(members, known)
        await declare_queues(config, cast(FrontEnd, front_end), log.starts, cast(EventLog, log))

    asyncio.run(declare())
    return front_end, log


@pytest.fixture
def catalog() -> Catalog:
    """Of a cluster of three founders, one of which has started."""
    made = Catalog()
    made.do("start_node", name="n1", front_end=1, formats=FORMAT_LEVEL)
    return made


def test_a_new_cluster_declares_streams_when_every_member_has_told_its_release(catalog: Catalog) -> None:
    """Before, they would be refused, and the node would not start."""
    front_end, log = declared(catalog, type="stream")
    assert front_end.waited == [[]]
    assert log.events == [("waits_for_first_starts", {"nodes": ["n2", "n3"]})]
    front_end, log = declared(catalog, type="stream")
    assert front_end.waited == [[]] and not log.events


def test_queues_that_every_release_knows_wait_for_no_member(catalog: Catalog) -> None:
    front_end, log = declared(catalog, arguments={"x-max-length": 5})
    assert front_end.waited == [["n2", "n3"]] and not log.events
