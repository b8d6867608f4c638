"""Programs of several connections: each step is compared with `tests.broker_model`.

One client carries out a step, which ends when the broker is at rest. Clients in simulated time and clients of
real processes take the same steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tests.broker_model import CLIENTS, QUEUES, BrokerModel, Consumer, Held, Received

EXCHANGE = "amq.fanout"


class ProgramClient(Protocol):
    """A connection with one channel in confirm mode. A request is carried out when its call returns.

    `deliveries` are those since the last look; `cancelled` are the consumers that the broker has ended.
    """

    deliveries: list[Any]
    cancelled: list[str]

    def publish_confirmed(self, queue: str, bodies: Sequence[bytes], exchange: str, mode: int) -> list[bool]:
        """Publish the bodies; return which were confirmed, once all are, or the client's node is lost."""

    def declare(self, queue: str) -> Any: ...
    def bind(self, queue: str, exchange: str) -> None: ...
    def get(self, queue: str, *, no_ack: bool) -> Received | None: ...
    def qos(self, count: int, *, shared: bool) -> None: ...
    def consume(self, queue: str, *, no_ack: bool) -> str: ...
    def cancel(self, tag: str) -> None: ...
    def ack(self, delivery: Any, *, multiple: bool = False) -> None: ...
    def nack(self, delivery: Any, *, requeue: bool, multiple: bool = False) -> None: ...
    def reject(self, delivery: Any, *, requeue: bool) -> None: ...
    def recover(self) -> None: ...
    def purge(self, queue: str) -> int: ...
    def delete(self, queue: str) -> None: ...
    def depth(self, queue: str) -> int: ...
    def close(self) -> None: ...


class Stage(Protocol):
    """Nodes, counted from 0, which can be killed, and the time in which they live."""

    nodes: int

    def connect(self, node: int) -> ProgramClient: ...

    def pass_time(self) -> None:
        """Let a moment pass, in which clients take their deliveries."""

    def until(self, reached: Callable[[], bool], what: Callable[[], str]) -> None:
        """Wait for the condition. Fails with the text of `what` when it is not reached in time."""

    def kill(self, nodes: Sequence[int], *, power: bool, after_ms: float) -> None:
        """Kill the nodes after so many milliseconds; with `power` also lose unsynced data."""

    def killed(self) -> None:
        """Return when the nodes are killed."""

    def start(self, nodes: Sequence[int]) -> None:
        """Returns when they are ready."""


class Program:
    """The steps of three clients. `places` has the node of each client."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.model = BrokerModel()
        self.down: set[int] = set()
        self.places = [client % stage.nodes for client in range(CLIENTS)]
        self.clients = [stage.connect(place) for place in self.places]
        for name in QUEUES:
            self.clients[0].declare(name)

    # -- publishing -----------------------------------------------------------------------------

    def publish(self, client: int, queue: str, count: int, mode: int) -> None:
        numbers = self.model.numbers(count, mode)
        bodies = [b"%d" % number for number in numbers]
        assert all(self.clients[client].publish_confirmed(queue, bodies, "", mode))
        self.model.queues[queue].published(numbers)

    def publish_to_all_that_are_bound(self, client: int) -> None:
        [number] = self.model.numbers(1, 2)
        assert all(self.clients[client].publish_confirmed("", [b"%d" % number], EXCHANGE, 2))
        for queue in self.model.queues.values():
            if queue.bound:
                queue.published([number])

    def bind(self, client: int, queue: str) -> None:
        self.clients[client].bind(queue, EXCHANGE)
        self.model.queues[queue].bound = True

    # -- consuming ------------------------------------------------------------------------------

    def get(self, client: int, queue: str, no_ack: bool) -> None:
        got = self.clients[client].get(queue, no_ack=no_ack)
        if got is None:
            assert not self.model.queues[queue].ready
        else:
            self.model.got(client, queue, got, kept=not no_ack)

    def qos(self, client: int, count: int, shared: bool) -> None:
        self.clients[client].qos(count, shared=shared)
        if shared:
            self.model.channels[client].shared = count
            self.model.shared = True
        else:
            self.model.channels[client].prefetch = count

    def consume(self, client: int, queue: str, no_ack: bool) -> None:
        tag = self.clients[client].consume(queue, no_ack=no_ack)
        prefetch = self.model.channels[client].prefetch
        self.model.consumers.append(Consumer(client, queue, tag, prefetch, no_ack))

    def cancel(self, at: int) -> None:
        """Cancel a consumer; its channel keeps its unsettled messages."""
        consumer = self.model.consumers[at % len(self.model.consumers)]
        self.clients[consumer.client].cancel(consumer.tag)
        self.model.consumers.remove(consumer)

    # -- settling -------------------------------------------------------------------------------

    def settle(self, at: int, how: str) -> None:
        """`how` is one of SETTLEMENTS."""
        one = self.model.held[at % len(self.model.held)]
        client = self.clients[one.client]
        SETTLEMENTS[how](client, one.delivery)
        self._settled(one, how, doubtful=False)

    def _settled(self, one: Held, how: str, *, doubtful: bool) -> None:
        taken = [each for each in self.model.held if each.client == one.client]
        if "all" in how:
            last = one.delivery.method.delivery_tag
            taken = [each for each in taken if each.delivery.method.delivery_tag <= last]
        elif how != "recover":
            taken = [one]
        if how in REMOVING:
            self.model.settled(taken, doubtful=doubtful)
        else:
            self.model.back(taken)

    # -- the rest -------------------------------------------------------------------------------

    def purge(self, client: int, queue: str) -> None:
        self.model.cleared(queue, self.clients[client].purge(queue))

    def delete(self, client: int, queue: str) -> None:
        """Delete a queue and declare it again: it is empty and unbound, and its consumers get
        basic.cancel.
        """
        told = {(one.client, one.tag) for one in self.model.consumers if one.queue == queue}
        self.clients[client].delete(queue)
        self.stage.until(
            lambda: self._told(told),
            lambda: f"not all of {told} were told that {queue} is gone",
        )
        self.clients[client].declare(queue)
        for gone in self.model.deleted(queue):
            self.clients[gone.client].ack(gone.delivery)

    def _told(self, consumers: set[tuple[int, str]]) -> bool:
        self.stage.pass_time()
        return all(tag in self.clients[client].cancelled for client, tag in consumers)

    def close(self, client: int) -> None:
        self.clients[client].close()
        self.model.lost_client(client)
        self._connect(client)

    def _connect(self, client: int) -> None:
        """Connect a client to its node, or to the next running one."""
        places = [(client + step) % self.stage.nodes for step in range(self.stage.nodes)]
        self.places[client] = next(place for place in places if place not in self.down)
        self.clients[client] = self.stage.connect(self.places[client])

    # -- nodes that die -------------------------------------------------------------------------

    def kill(self, node: int, power: bool) -> None:
        self.stage.kill([node], power=power, after_ms=0)
        self._died([node])

    def kill_all(self) -> None:
        """Cut the power of all machines at once, and start them again."""
        everybody = range(self.stage.nodes)
        self.stage.kill(everybody, power=True, after_ms=0)
        self.stage.killed()
        self.stage.start(everybody)
        self._reconnect(everybody)

    def publish_and_kill(
        self, client: int, queue: str, count: int, node: int, power: bool, after_ms: float
    ) -> None:
        """Kill a node while the client publishes. Confirms may be missing only where the client is connected
        to that node.
        """
        numbers = self.model.numbers(count, 2)
        self.stage.kill([node], power=power, after_ms=after_ms)
        confirmed = self.clients[client].publish_confirmed(queue, [b"%d" % n for n in numbers], "", 2)
        assert all(confirmed) or self.places[client] == node, "a publisher of a living node is not answered"
        model = self.model.queues[queue]
        for number, known in zip(numbers, confirmed, strict=True):
            if known:
                model.published([number])
            else:
                model.may_be_published(number)
        self._died([node])

    def settle_and_kill(self, at: int, how: str, node: int, power: bool, after_ms: float) -> None:
        """Kill a node while the client settles. The settlement is certain if the client's own node lives."""
        one = self.model.held[at % len(self.model.held)]
        self.stage.kill([node], power=power, after_ms=after_ms)
        SETTLEMENTS[how](self.clients[one.client], one.delivery)
        self._settled(one, how, doubtful=self.places[one.client] == node)
        self._died([node])

    def _died(self, nodes: Sequence[int]) -> None:
        self.stage.killed()
        self.down.update(nodes)
        self._reconnect(nodes)

    def _reconnect(self, nodes: Sequence[int]) -> None:
        """Connect the clients of dead nodes again. The queues get their unsettled messages back, and may have
        delivered some of them to other clients already.
        """
        lost = [client for client, place in enumerate(self.places) if place in nodes]
        for client in lost:
            self._receive(client)
            self.model.lost_client(client)
        self.model.node_died()
        for client in lost:
            self._connect(client)

    def start(self) -> None:
        """Start all dead nodes."""
        self.stage.start(sorted(self.down))
        self.down.clear()

    # -- at rest --------------------------------------------------------------------------------

    def _receive(self, client: int) -> dict[Consumer, list[int]]:
        """Take what has come to a client; which messages each of its consumers got."""
        took: dict[Consumer, list[int]] = defaultdict(list)
        for delivery in self.clients[client].deliveries:
            took[self.model.delivered(client, delivery)].append(int(delivery.body))
        self.clients[client].deliveries.clear()
        return took

    def _receive_in_order(self) -> None:
        """Check that the messages of a step come in the order of their publishes, and that none is left."""
        took = {consumer: row for client in range(CLIENTS) for consumer, row in self._receive(client).items()}
        if self.model.hurt or self.model.shared:
            # Some of it may have been on its way to a node that died, or to a channel that has no room.
            return
        for consumer, numbers in took.items():
            for some, others in self.model.in_order(consumer.queue, numbers):
                assert some == sorted(some), f"{numbers} came out of {consumer.queue}"
                self.model.queues[consumer.queue].took_up_to(some[-1], others)

    def rest(self) -> None:
        """Wait until nothing more happens: all clients count the same number of messages in each queue, and
        no queue has both a message and a consumer with room.
        """
        depths: dict[str, set[int]] = {}

        def resting() -> bool:
            self.stage.pass_time()
            depths.update({q: {client.depth(q) for client in self.clients} for q in self.model.queues})
            for client in range(CLIENTS):
                self._receive(client)
            return all(self._rests(depths[queue], queue) for queue in self.model.queues)

        def what() -> str:
            return f"clients count {depths}; the model has {self.model.queues} and {self.model.consumers}"

        self.stage.pass_time()
        self._receive_in_order()
        self.stage.until(resting, what)

    def _rests(self, depths: set[int], queue: str) -> bool:
        model = self.model.queues[queue]
        if len(depths) != 1 or not len(model.ready) <= min(depths) <= len(model.ready | model.doubtful):
            return False
        return not (min(depths) and self.model.wanting(queue))


SETTLEMENTS: dict[str, Callable[[ProgramClient, Any], None]] = {
    "ack": lambda client, one: client.ack(one),
    "ack all": lambda client, one: client.ack(one, multiple=True),
    "nack discard": lambda client, one: client.nack(one, requeue=False),
    "nack requeue": lambda client, one: client.nack(one, requeue=True),
    "nack all requeue": lambda client, one: client.nack(one, requeue=True, multiple=True),
    "reject discard": lambda client, one: client.reject(one, requeue=False),
    "reject requeue": lambda client, one: client.reject(one, requeue=True),
    "recover": lambda client, _: client.recover(),
}
REMOVING = ("ack", "ack all", "nack discard", "reject discard")
