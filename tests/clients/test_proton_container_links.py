"""Links that a node attaches to a container of Qpid Proton."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from proton import Condition, Message

from tests.clients.proton_links import durable_queue, left
from tests.clients.test_proton_reactor import Program
from tests.processes.nodes import Cluster, Node, until

pytestmark = pytest.mark.clients

COUNT = 1000
OUT, INTO = "to-inbox", "from-outbox"


@pytest.fixture(scope="module")
def linked_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    links = {
        OUT: {
            "container": "billing-*", "direction": "send", "address": "/queues/invoices",
            "container_address": "inbox",
        },
        INTO: {
            "container": "billing-*", "direction": "receive", "address": "/queues/orders",
            "container_address": "outbox",
        },
    }  # fmt: skip
    cluster = Cluster(tmp_path_factory.mktemp("linked"), {"links": links}, nodes=1)
    with cluster.running():
        yield cluster[0]
        assert not cluster.new_errors()


class Billing(Program):
    """Attaches no link itself: takes what comes to its inbox, and sends orders from its outbox."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node
        self.links: list[tuple[str, str | None, str | None]] = []
        self.got: list[bytes] = []
        self.sent = self.accepted = 0

    def begin(self, container: Any) -> None:
        container.container_id = "billing-1"
        self.connect(container, self.node)

    def on_link_opening(self, event: Any) -> None:
        link = event.link
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        self.links.append((link.name, link.remote_source.address, link.remote_target.address))

    def on_message(self, event: Any) -> None:
        self.got.append(bytes(event.message.body))
        self.look()

    def on_sendable(self, event: Any) -> None:
        while event.sender.credit and self.sent < COUNT:
            event.sender.send(Message(body=self.sent, durable=True))
            self.sent += 1

    def on_accepted(self, event: Any) -> None:
        self.accepted += 1
        self.look()

    def look(self) -> None:
        if len(self.got) == self.accepted == COUNT:
            self.end()


@pytest.mark.requirement("B4.3", "B4.4")
def test_messages_go_both_ways_over_links_of_the_node(linked_node: Node) -> None:
    with durable_queue(linked_node, "invoices") as invoices, durable_queue(linked_node, "orders") as orders:
        with linked_node.connect() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for number in range(COUNT):
                channel.basic_publish("", "invoices", str(number).encode())
        program = Billing(linked_node)
        program.run()
        assert sorted(program.links) == [(INTO, "outbox", orders), (OUT, invoices, "inbox")]
        assert program.got == [str(number).encode() for number in range(COUNT)]
        assert (left(linked_node, invoices), left(linked_node, orders)) == (0, COUNT)


class Unwilling(Program):
    """Refuses each link."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node
        self.refused = 0

    def begin(self, container: Any) -> None:
        container.container_id = "billing-2"
        self.connect(container, self.node)

    def on_link_opened(self, event: Any) -> None:
        event.link.condition = Condition("amqp:not-allowed", "no links, please")
        event.link.close()

    def on_link_closed(self, event: Any) -> None:
        self.refused += 1
        if self.refused == 2:
            self.end()


@pytest.mark.requirement("B4.3", "B4.4")
def test_a_container_that_refuses_is_not_asked_again(linked_node: Node) -> None:
    program = Unwilling(linked_node)
    program.run()

    def ends() -> list[str]:
        lines = linked_node.local.log_file.read_text(encoding="utf-8").splitlines()
        return [one for one in lines if "no links, please" in one]

    until(lambda: len(ends()) == 2, "the node has logged the end of both links")
    assert all("offered_link_ended" in one for one in ends())
