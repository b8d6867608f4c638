"""Random programs of several connections against a model of one queue that anybody can check by reading."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.site import Client, Delivery, Site

QUEUES = ("a", "b")
CLIENTS = 3
EXCHANGE = "amq.fanout"

queues = st.sampled_from(QUEUES)
clients = st.integers(0, CLIENTS - 1)


@dataclass
class Queue:
    """What a queue must hold: messages by number, in the order in which they came."""

    ready: set[int] = field(default_factory=set)
    returned: set[int] = field(default_factory=set)
    bound: bool = False


@dataclass
class Held:
    """A delivery that a client has not settled."""

    client: int
    queue: str
    number: int
    delivery: Delivery


class Programs(RuleBasedStateMachine):
    """Every step is carried out by a client of some node, and its answer is compared with the model's."""

    nodes: tuple[str, ...] = ("n1",)

    def __init__(self) -> None:
        super().__init__()
        self.site = Site(*self.nodes)
        self.clients = [self.connect(place) for place in range(CLIENTS)]
        self.model = {name: Queue() for name in QUEUES}
        self.held: list[Held] = []
        self.last = 0
        for name in QUEUES:
            self.clients[0].declare(name)

    def connect(self, place: int) -> Client:
        return self.site.client(self.nodes[place % len(self.nodes)])

    def expect(self, one: Delivery, queue: str, client: int, *, kept: bool) -> None:
        """The oldest that is ready, marked if it came back."""
        model = self.model[queue]
        number = min(model.ready)
        assert one.body == b"%d" % number
        assert one.method.redelivered is (number in model.returned)
        model.ready.remove(number)
        if kept:
            self.held.append(Held(client, queue, number, one))

    def back(self, held: list[Held]) -> None:
        for one in held:
            self.model[one.queue].ready.add(one.number)
            self.model[one.queue].returned.add(one.number)
            self.held.remove(one)

    @rule(client=clients, queue=queues, count=st.integers(1, 3), mode=st.sampled_from((1, 2)))
    def publish(self, client: int, queue: str, count: int, mode: int) -> None:
        numbers = range(self.last + 1, self.last + count + 1)
        self.last += count
        bodies = [b"%d" % number for number in numbers]
        tags = self.clients[client].publish(queue, *bodies, delivery_mode=mode)
        assert all(self.clients[client].confirms(tags))
        self.model[queue].ready.update(numbers)

    @rule(client=clients)
    def publish_to_all_that_are_bound(self, client: int) -> None:
        self.last += 1
        one = self.clients[client]
        assert all(one.confirms(one.publish("", b"%d" % self.last, exchange=EXCHANGE)))
        for model in self.model.values():
            if model.bound:
                model.ready.add(self.last)

    @rule(client=clients, queue=queues)
    def bind(self, client: int, queue: str) -> None:
        self.clients[client].bind(queue, EXCHANGE)
        self.model[queue].bound = True

    @rule(client=clients, queue=queues, no_ack=st.booleans())
    def get(self, client: int, queue: str, no_ack: bool) -> None:
        got = self.clients[client].get(queue, no_ack=no_ack)
        if got is None:
            assert not self.model[queue].ready
        else:
            self.expect(got, queue, client, kept=not no_ack)

    @rule(client=clients, queue=queues, no_ack=st.booleans())
    def consume_and_cancel(self, client: int, queue: str, no_ack: bool) -> None:
        """Who consumes alone gets all that is ready."""
        one, wanted = self.clients[client], len(self.model[queue].ready)
        one.deliveries.clear()
        tag = one.consume(queue, no_ack=no_ack)
        self.site.until(lambda: len(one.deliveries) == wanted)
        one.cancel(tag)
        for delivery in one.deliveries:
            self.expect(delivery, queue, client, kept=not no_ack)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), how=st.sampled_from(("ack", "discard", "requeue")))
    def settle(self, data: st.DataObject, how: str) -> None:
        one = data.draw(st.sampled_from(range(len(self.held))))
        held = self.held[one]
        client = self.clients[held.client]
        if how == "ack":
            client.ack(held.delivery)
        else:
            client.nack(held.delivery, requeue=how == "requeue")
        if how == "requeue":
            self.back([held])
        else:
            self.held.remove(held)

    @rule(client=clients, queue=queues)
    def purge(self, client: int, queue: str) -> None:
        assert self.clients[client].purge(queue) == len(self.model[queue].ready)
        self.model[queue].ready.clear()

    @rule(client=clients, queue=queues)
    def delete(self, client: int, queue: str) -> None:
        """And declare it anew: it is empty, and bound to nothing."""
        self.clients[client].delete(queue)
        self.clients[client].declare(queue)
        self.model[queue] = Queue()
        for gone in [one for one in self.held if one.queue == queue]:
            self.clients[gone.client].ack(gone.delivery)
            self.held.remove(gone)

    @rule(client=clients)
    def close(self, client: int) -> None:
        self.clients[client].close()
        self.clients[client] = self.connect(client)
        self.back([one for one in self.held if one.client == client])

    @invariant()
    def every_client_counts_the_same(self) -> None:
        self.site.run(0.02)
        for queue, model in self.model.items():
            assert {client.depth(queue) for client in self.clients} == {len(model.ready)}


class ProgramsOnThreeNodes(Programs):
    nodes = ("n1", "n2", "n3")


@pytest.mark.requirement("A17", "A22", "A16")
@pytest.mark.parametrize(
    ("machine", "examples", "steps"), [(Programs, 15, 25), (ProgramsOnThreeNodes, 4, 12)]
)
def test_programs_do_what_the_model_says(machine: type[Programs], examples: int, steps: int) -> None:
    limits = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=limits)  # type: ignore[no-untyped-call]
