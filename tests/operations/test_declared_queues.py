"""Queues of the configuration, on the nodes of a cluster that is new."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from cluster.catalog.access.control import Answer
from cluster.config.declared_queues import DeclaredQueueSettings
from cluster.config.models import ClusterConfig, Member
from cluster.gateway.broker_port import FrontEnd
from cluster.log.event_log import EventLog
from cluster.process.declared_queues import declare_queues
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
        self._catalog = catalog

    def info(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))
        for number, name in enumerate(fields["nodes"], start=2):
            self._catalog.do("start_node", name=name, front_end=number, formats=1)


def declared(catalog: Catalog) -> tuple[Declaring, Log]:
    front_end, log = Declaring(catalog), Log(catalog)
    config = ClusterConfig(
        nodes={"n1": Member.model_validate(dict.fromkeys(("peers", "amqp", "http"), "127.0.0.1:1"))},
        queues={"orders": DeclaredQueueSettings(type="stream")},
    )
    asyncio.run(declare_queues(config, cast(FrontEnd, front_end), catalog.state.members, cast(EventLog, log)))
    return front_end, log


def test_a_new_cluster_declares_its_queues_when_every_member_has_told_its_release() -> None:
    """Before, arguments of this release would be refused, and the node would not start."""
    catalog = Catalog()
    catalog.do("start_node", name="n1", front_end=1, formats=1)
    front_end, log = declared(catalog)
    assert front_end.waited == [[]]
    assert log.events == [("waits_for_first_starts", {"nodes": ["n2", "n3"]})]
    front_end, log = declared(catalog)
    assert front_end.waited == [[]] and not log.events
