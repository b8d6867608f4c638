"""Programs of Qpid Proton's event-driven client of AMQP 1.0, on each node in turn."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import AtMostOnce, Container, LinkOption
from proton.utils import BlockingConnection

from tests.clients.proton_links import durable_queue, lasting_queue, left, send_all
from tests.processes.nodes import Cluster, Node

pytestmark = pytest.mark.clients

COUNT = 10_000
PROGRAM_S = 60.0


class Program(MessagingHandler):
    """A program with connections to some nodes. `late` says that it was stopped after `PROGRAM_S`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.late = False
        self.connections: list[Any] = []

    def on_start(self, event: Any) -> None:
        self.timer = event.reactor.schedule(PROGRAM_S, self)
        self.begin(event.container)

    def begin(self, container: Any) -> None:
        """Attach the links."""

    def on_timer_task(self, event: Any) -> None:
        self.late = True
        self.end()

    def connect(self, container: Any, *nodes: Node) -> Any:
        connection = container.connect(urls=[f"amqp://{node.amqp}" for node in nodes])
        self.connections.append(connection)
        return connection

    def end(self) -> None:
        self.timer.cancel()
        for connection in self.connections:
            connection.close()

    def run(self) -> None:
        container = Container(self)
        container.user = container.password = "guest"
        container.allowed_mechs = "PLAIN"
        container.run()
        assert not self.late, vars(self)


class Stream(Program):
    """Sends numbers as fast as there is credit, and receives them on another connection."""

    def __init__(self, node: Node, elsewhere: Node, queue: str, count: int, link: LinkOption | None) -> None:
        super().__init__(prefetch=500)
        self.nodes, self.queue, self.count, self.link = (node, elsewhere), queue, count, link
        self.sent = self.accepted = 0
        self.got: list[int] = []

    def begin(self, container: Any) -> None:
        node, elsewhere = self.nodes
        container.create_receiver(self.connect(container, elsewhere), self.queue, options=self.link)
        container.create_sender(self.connect(container, node), self.queue, options=self.link)

    def on_sendable(self, event: Any) -> None:
        while event.sender.credit and self.sent < self.count:
            event.sender.send(Message(body=self.sent, id=self.sent, durable=True))
            self.sent += 1

    def on_accepted(self, event: Any) -> None:
        self.accepted += 1
        self.look()

    def on_message(self, event: Any) -> None:
        self.got.append(event.message.body)
        self.look()

    def look(self) -> None:
        if len(self.got) >= self.count and (self.link is not None or self.accepted == self.count):
            self.end()


@pytest.mark.requirement("B5.3", "B6.1", "B6.2", "F2.1")
def test_a_stream_of_messages_that_are_accepted(node: Node, elsewhere: Node, queue: str) -> None:
    program = Stream(node, elsewhere, queue, COUNT, None)
    program.run()
    assert program.got == list(range(COUNT))
    assert program.accepted == COUNT
    assert left(node, queue) == 0


@pytest.mark.requirement("B5.1", "B5.2")
def test_a_stream_of_messages_settled_by_their_sender(node: Node, elsewhere: Node, queue: str) -> None:
    program = Stream(node, elsewhere, queue, COUNT // 5, AtMostOnce())
    program.run()
    assert program.got == list(range(COUNT // 5))
    assert program.accepted == 0
    assert left(node, queue) == 0


class Calls(Program):
    """A caller, and a server that answers to the address in `reply-to` over a link without a target."""

    def __init__(self, node: Node, elsewhere: Node, requests: str, replies: str, words: list[str]) -> None:
        super().__init__(prefetch=10)
        self.nodes, self.requests, self.replies, self.words = (node, elsewhere), requests, replies, words
        self.answers: dict[str, str] = {}

    def begin(self, container: Any) -> None:
        calling, serving = (self.connect(container, node) for node in self.nodes)
        self.answering = container.create_sender(serving, None)
        self.serving = container.create_receiver(serving, self.requests)
        container.create_receiver(calling, self.replies)
        self.calling = container.create_sender(calling, self.requests)

    def on_sendable(self, event: Any) -> None:
        while event.sender == self.calling and event.sender.credit and self.words:
            word = self.words.pop()
            event.sender.send(Message(body=word, reply_to=self.replies, correlation_id=word))

    def on_message(self, event: Any) -> None:
        message = event.message
        if event.receiver == self.serving:
            answer = Message(body=message.body.upper(), address=message.reply_to)
            answer.correlation_id = message.correlation_id
            self.answering.send(answer)
            return
        self.answers[message.correlation_id] = message.body
        if len(self.answers) == 100:
            self.end()


def test_a_server_answers_to_reply_to(node: Node, elsewhere: Node, name: str) -> None:
    words = [f"word {number}" for number in range(100)]
    with durable_queue(node, name) as requests, durable_queue(node, f"{name}-replies") as replies:
        program = Calls(node, elsewhere, requests, replies, list(words))
        program.run()
        assert program.answers == {word: word.upper() for word in words}


class Sharing(Program):
    """Three receivers on two nodes with the same credit, which they renew for each message."""

    def __init__(self, node: Node, elsewhere: Node, queue: str, count: int) -> None:
        super().__init__(prefetch=5)
        self.nodes, self.queue, self.count = (node, node, elsewhere), queue, count
        self.got: dict[str, list[int]] = {}

    def begin(self, container: Any) -> None:
        for number, node in enumerate(self.nodes):
            receiver = container.create_receiver(
                self.connect(container, node), self.queue, name=f"receiver {number}"
            )
            self.got[receiver.name] = []

    def on_message(self, event: Any) -> None:
        self.got[event.receiver.name].append(event.message.body)
        if sum(map(len, self.got.values())) == self.count:
            self.end()


@pytest.mark.requirement("E12.1")
def test_receivers_share_a_queue(node: Node, elsewhere: Node, client: BlockingConnection, queue: str) -> None:
    count = 1500
    send_all(client.create_sender(queue), range(count))
    program = Sharing(node, elsewhere, queue, count)
    program.run()
    assert sorted(chain(*program.got.values())) == list(range(count))
    shares = {name: len(got) for name, got in program.got.items()}
    assert min(shares.values()) > count / 10, shares


class Outliving(Program):
    """Sends and receives over the first node, which is killed in the middle, and then over the next ones."""

    def __init__(self, nodes: list[Node], queue: str, count: int) -> None:
        super().__init__(prefetch=50)
        self.nodes, self.queue, self.count = nodes, queue, count
        self.sent = self.confirmed = self.losses = 0
        self.got: list[int] = []

    def begin(self, container: Any) -> None:
        connection = self.connect(container, *self.nodes)
        container.create_receiver(connection, self.queue)
        container.create_sender(connection, self.queue)

    def on_sendable(self, event: Any) -> None:
        while event.sender.credit and self.sent < self.count and self.sent < self.confirmed + 100:
            event.sender.send(Message(body=self.sent, durable=True))
            self.sent += 1

    def on_accepted(self, event: Any) -> None:
        self.confirmed += 1
        self.on_sendable(event)
        self.look()

    def on_message(self, event: Any) -> None:
        self.got.append(event.message.body)
        if len(self.got) == self.count // 2:
            self.nodes[0].kill()
        self.look()

    def on_disconnected(self, event: Any) -> None:
        self.losses += 1
        self.sent = self.confirmed

    def look(self) -> None:
        if self.confirmed == self.count and set(self.got) == set(range(self.count)):
            self.end()


@pytest.mark.sentence("1.0/3.2.1-2")
def test_a_program_outlives_its_node(own_cluster: Cluster, name: str) -> None:
    """Its node is the owner of the queue."""
    owner = lasting_queue(own_cluster, name)
    program = Outliving([owner, *own_cluster.others(owner)], f"/queues/{name}", 2000)
    program.run()
    assert program.losses >= 1
    assert set(program.got) == set(range(2000))
    owner.start()
    own_cluster.wait_ready()
