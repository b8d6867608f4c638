"""AMQP clients of whole nodes in simulated time: all but sockets, disks and clocks is real."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pika import BasicProperties

from cluster.gateway.broker_port import FrontEnd
from node.refusal import Refusal
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import encode_method
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.primitives import Method
from tests import messages
from tests.simulation.connection import Connection
from tests.simulation.front_ends import USERS, FrontEnds
from tests.simulation.lives import Lives
from tests.simulation.network import Network, NetworkFaults
from tests.simulation.node import NodeSettings, SimulatedNode
from tests.simulation.world import World

PATIENCE_S = 30.0
CHANNEL = 1


class Site:
    """Nodes and the time that they live in."""

    def __init__(
        self, *names: str, seed: int = 1, default_type: str = "quorum", drift: float = 0.0,
        auto_delete_after_s: float = 0.0, lives: Lives | None = None,
        domains: Mapping[str, tuple[str, ...]] | None = None, epoch_timeout_ms: int = 3_600_000,
        take_timeout_s: float = 3600.0, newcomers: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """`newcomers` run from the beginning, and are no members."""
        self.world = World(seed)
        everyone = names + newcomers
        self.network = Network(self.world, everyone, NetworkFaults())
        settings = NodeSettings(
            snapshot_bytes=1 << 16, segment_bytes=1 << 16, cache_bytes=1 << 16, drift=drift,
            auto_delete_after_s=auto_delete_after_s, epoch_timeout_ms=epoch_timeout_ms,
            take_timeout_s=take_timeout_s,
        )  # fmt: skip
        self.nodes = {
            name: SimulatedNode(name, names, self.world, self.network, settings) for name in everyone
        }
        self._front_ends = FrontEnds(default_type)
        for node in self.nodes.values():
            if lives is not None:
                lives.watch(node)
            node.domains = (domains or {}).get(node.name, ())
            node.start()
        self.until(lambda: all(self.nodes[name].ready for name in names))
        self.submit(names[0], "found_access", {"vhost": "/", "users": USERS})

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def until(self, reached: Callable[[], Any], step_s: float = 0.002) -> None:
        limit = self.world.now + PATIENCE_S
        while not reached():
            assert self.world.now < limit, "this takes too long"
            self.run(step_s)

    def submit(self, name: str, command: str, arguments: dict[str, Any]) -> None:
        """Have a command carried out by the catalog."""
        done: list[Refusal | None] = []
        node = self.nodes[name]
        node.broker.catalog.submit(command, arguments, lambda _, refusal: done.append(refusal))
        node.wanted()
        self.until(lambda: done)
        assert done == [None]

    def front_end(self, name: str) -> FrontEnd:
        """The front end of a node's present process."""
        return self._front_ends.of(self.nodes[name])

    def client(self, name: str, *, transactional: bool = False) -> Client:
        """A client with an open channel: a confirmed one, or a transactional one."""
        return Client(self, name, transactional)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as a client gets it."""

    method: Any
    properties: BasicProperties
    body: bytes

    @property
    def headers(self) -> dict[str, Any]:
        return dict(self.properties.headers or {})


class ChannelClosedError(AssertionError):
    """The broker closed the channel; the text is its reply text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code


class Client:
    """A connection with one channel in confirm or tx mode. Calls return when the broker has answered."""

    def __init__(self, site: Site, name: str, transactional: bool = False) -> None:
        self.site = site
        self._transactional = transactional
        self.node = site.nodes[name]
        self.deliveries: list[Delivery] = []
        self.returned: list[Delivery] = []
        self.confirmed: set[int] = set()
        self.refused: set[int] = set()
        self.cancelled: list[str] = []
        self._published = 0
        self._answers: list[Method] = []
        self.connection = Connection(
            self.node, site.front_end(name), self, ConnectionLimits(first_window=2000)
        )
        self.connection.open()
        self.answer(m.ConnectionOpenOk)
        self.open_channel()

    @property
    def holder(self) -> int:
        """Whom exclusive queues of the connection belong to."""
        return int(self.connection.session._core.holder)

    # -- octets ---------------------------------------------------------------------------------

    def received(self, method: Method, content: bytes) -> None:
        if isinstance(method, m.BasicDeliver | m.BasicGetOk | m.BasicReturn):
            self._content(method, Delivery(method, *messages.parts(content)))
        elif isinstance(method, m.BasicAck | m.BasicNack):
            into = self.confirmed if isinstance(method, m.BasicAck) else self.refused
            low = method.delivery_tag
            if method.multiple:
                low = min(set(range(1, self._published + 1)) - self.confirmed - self.refused)
            into.update(range(low, method.delivery_tag + 1))
        elif isinstance(method, m.BasicCancel):
            self.cancelled.append(method.consumer_tag)
        elif not isinstance(method, m.ConnectionStart | m.ConnectionTune):
            self._answers.append(method)

    def _content(self, method: Method, delivery: Delivery) -> None:
        if isinstance(method, m.BasicDeliver):
            self.deliveries.append(delivery)
        elif isinstance(method, m.BasicReturn):
            self.returned.append(delivery)
        else:
            self._answers.append(method)
            self._got = delivery

    def read(self) -> None:
        """Calls look at what has come when they want it."""

    def answer(self, *kinds: type[Method]) -> Any:
        """Wait for the answer to what was sent. Raises ChannelClosedError."""
        self.site.until(lambda: self._answers)
        answer = self._answers.pop(0)
        if isinstance(answer, m.ChannelClose | m.ConnectionClose):
            if isinstance(answer, m.ChannelClose):
                self.send(m.ChannelCloseOk())
            raise ChannelClosedError(answer.reply_code, answer.reply_text)
        assert isinstance(answer, kinds), answer
        return answer

    def send(self, method: Method) -> None:
        """A method that has no answer."""
        self.connection.send(CHANNEL, method)

    def call(self, method: Method, *kinds: type[Method]) -> Any:
        """A method and its answer. Raises ChannelClosedError."""
        self.send(method)
        return self.answer(*kinds)

    # -- what clients do ------------------------------------------------------------------------

    def open_channel(self) -> None:
        self.call(m.ChannelOpen(), m.ChannelOpenOk)
        if self._transactional:
            self.call(m.TxSelect(), m.TxSelectOk)
        else:
            self.call(m.ConfirmSelect(), m.ConfirmSelectOk)
        self._published = 0
        self.confirmed.clear()
        self.refused.clear()

    def close(self) -> None:
        """The connection is lost."""
        self.connection.drop()
        self.site.run(0.01)

    def disconnect(self) -> None:
        """Close the connection, and wait for the answer."""
        self.connection.send(0, m.ConnectionClose(200, "", 0, 0))
        self.answer(m.ConnectionCloseOk)

    def declare(
        self,
        queue: str,
        *,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        passive: bool = False,
        **arguments: Any,
    ) -> m.QueueDeclareOk:
        """Arguments are named without `x-`, with underscores for hyphens."""
        named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        method = m.QueueDeclare(
            queue, passive=passive, durable=durable, exclusive=exclusive, auto_delete=auto_delete,
            arguments=named,
        )  # fmt: skip
        answer: m.QueueDeclareOk = self.call(method, m.QueueDeclareOk)
        return answer

    def cancel(self, tag: str) -> None:
        self.call(m.BasicCancel(tag), m.BasicCancelOk)

    def commit(self) -> None:
        """Raises ChannelClosedError."""
        self.call(m.TxCommit(), m.TxCommitOk)

    def ack(self, delivery: Delivery, *, multiple: bool = False) -> None:
        self.send(m.BasicAck(delivery.method.delivery_tag, multiple))

    def nack(self, delivery: Delivery, *, requeue: bool, multiple: bool = False) -> None:
        self.send(m.BasicNack(delivery.method.delivery_tag, multiple, requeue))

    def reject(self, delivery: Delivery, *, requeue: bool) -> None:
        self.send(m.BasicReject(delivery.method.delivery_tag, requeue))

    def declare_exchange(self, name: str, type_: str, **arguments: Any) -> None:
        self.call(m.ExchangeDeclare(name, type_, arguments=arguments), m.ExchangeDeclareOk)

    def bind(self, queue: str, exchange: str, key: str = "") -> None:
        self.call(m.QueueBind(queue, exchange, key), m.QueueBindOk)

    def purge(self, queue: str) -> int:
        answer: m.QueuePurgeOk = self.call(m.QueuePurge(queue), m.QueuePurgeOk)
        return answer.message_count

    def delete(self, queue: str, *, if_empty: bool = False) -> None:
        self.call(m.QueueDelete(queue, if_empty=if_empty), m.QueueDeleteOk)

    def depth(self, queue: str) -> int:
        """Ready messages."""
        return self.declare(queue, passive=True).message_count

    def publish(self, key: str, *bodies: bytes, exchange: str = "", **properties: Any) -> list[int]:
        """Publish messages in one go; returns their numbers."""
        properties.setdefault("delivery_mode", 2)
        method = encode_method(CHANNEL, m.BasicPublish(exchange, key))
        self.connection.send_octets(
            b"".join(method + messages.content(body, **properties) for body in bodies)
        )
        first = self._published + 1
        self._published += len(bodies)
        return list(range(first, self._published + 1))

    def confirms(self, tags: list[int]) -> list[bool]:
        """Wait until publishes are answered; which of them the broker took."""
        self.site.until(lambda: self.confirmed.union(self.refused).issuperset(tags))
        return [tag in self.confirmed for tag in tags]

    def consume(self, queue: str, tag: str = "", *, prefetch: int = 0, **options: Any) -> str:
        if prefetch:
            self.call(m.BasicQos(0, prefetch), m.BasicQosOk)
        answer = self.call(m.BasicConsume(queue, tag, **options), m.BasicConsumeOk)
        return str(answer.consumer_tag)

    def get(self, queue: str, *, no_ack: bool = True) -> Delivery | None:
        self.ask(queue, no_ack=no_ack)
        return self.got()

    def reading(self, method: Method, body: bytes) -> Callable[[], None]:
        """Publish as the node's event loop does when it reads a publish from this client's socket."""
        self._published += 1
        data = encode_method(CHANNEL, method) + messages.content(body, delivery_mode=2)
        return lambda: self.connection.session.receive(data)

    def ask(self, queue: str, *, no_ack: bool = True) -> None:
        """A basic.get, whose answer `got` gives."""
        self.send(m.BasicGet(queue, no_ack))

    def got(self) -> Delivery | None:
        answer = self.answer(m.BasicGetOk, m.BasicGetEmpty)
        return self._got if isinstance(answer, m.BasicGetOk) else None

    def drain(self, queue: str) -> list[Delivery]:
        """Everything that is ready, taken out."""
        found = []
        while (one := self.get(queue)) is not None:
            found.append(one)
        return found

    def bodies(self, queue: str) -> list[bytes]:
        """Take the ready messages out."""
        return [one.body for one in self.drain(queue)]
