"""Random programs of several connections in simulated time, against `tests.broker_model`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

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

from node.wire.amqp091 import methods as m
from tests.broker_model import CLIENTS, QUEUES
from tests.broker_programs import SETTLEMENTS, Program, ProgramClient
from tests.site import Client, Site

queues = st.sampled_from(QUEUES)
clients = st.integers(0, CLIENTS - 1)
settlements = st.sampled_from(sorted(SETTLEMENTS))
milliseconds = st.integers(0, 60).map(lambda tenths: tenths / 10)


class SimulatedClient(Client):
    """`ProgramClient` in simulated time."""

    def publish_confirmed(self, queue: str, bodies: Sequence[bytes], exchange: str, mode: int) -> list[bool]:
        life = self.node.life
        tags = self.publish(queue, *bodies, exchange=exchange, delivery_mode=mode)
        self.site.until(lambda: self.confirmed.union(self.refused).issuperset(tags) or self.node.life != life)
        return [tag in self.confirmed for tag in tags]

    def qos(self, count: int, *, shared: bool) -> None:
        self.call(m.BasicQos(0, count, shared), m.BasicQosOk)

    def recover(self) -> None:
        self.call(m.BasicRecover(True), m.BasicRecoverOk)


class SimulatedStage:
    """`Stage` of nodes in simulated time."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.names = [f"n{number}" for number in range(1, nodes + 1)]
        self.site = Site(*self.names)
        self._dying: list[int] = []

    def connect(self, node: int) -> ProgramClient:
        return SimulatedClient(self.site, self.names[node])

    def pass_time(self) -> None:
        self.site.run(0.02)

    def until(self, reached: Callable[[], bool], what: Callable[[], str]) -> None:
        limit = self.site.world.now + 20.0
        while not reached():
            assert self.site.world.now < limit, what()
            self.site.run(0.05)

    def kill(self, nodes: Sequence[int], *, power: bool, after_ms: float) -> None:
        for node in nodes:
            self._dying.append(node)
            stop = partial(self.site.nodes[self.names[node]].stop, power=power)
            self.site.world.after(after_ms / 1000, stop)

    def killed(self) -> None:
        dying = [self.site.nodes[self.names[node]] for node in self._dying]
        self.site.until(lambda: not any(node.up for node in dying))
        self._dying.clear()

    def start(self, nodes: Sequence[int]) -> None:
        starting = [self.site.nodes[self.names[node]] for node in nodes]
        for node in starting:
            node.start()
        self.site.until(lambda: all(node.ready for node in starting))


class Programs(RuleBasedStateMachine):
    """The steps of `Program`. Hypothesis chooses them, and prints the shortest failing program."""

    nodes = 1
    stage: type[SimulatedStage] = SimulatedStage

    def __init__(self) -> None:
        super().__init__()
        self.program = Program(self.stage(self.nodes))

    def holding(self) -> bool:
        return bool(self.program.model.held)

    def consuming(self) -> bool:
        return bool(self.program.model.consumers)

    @rule(client=clients, queue=queues, count=st.integers(1, 3), mode=st.sampled_from((1, 2)))
    def publish(self, client: int, queue: str, count: int, mode: int) -> None:
        self.program.publish(client, queue, count, mode)

    @rule(client=clients)
    def publish_to_all_that_are_bound(self, client: int) -> None:
        self.program.publish_to_all_that_are_bound(client)

    @rule(client=clients, queue=queues)
    def bind(self, client: int, queue: str) -> None:
        self.program.bind(client, queue)

    @rule(client=clients, queue=queues, no_ack=st.booleans())
    def get(self, client: int, queue: str, no_ack: bool) -> None:
        self.program.get(client, queue, no_ack)

    @rule(client=clients, count=st.integers(0, 3), shared=st.booleans())
    def qos(self, client: int, count: int, shared: bool) -> None:
        self.program.qos(client, count, shared)

    @rule(client=clients, queue=queues)
    def consume(self, client: int, queue: str) -> None:
        self.program.consume(client, queue, no_ack=False)

    @precondition(consuming)
    @rule(at=st.integers(0, 5))
    def cancel(self, at: int) -> None:
        self.program.cancel(at)

    @precondition(holding)
    @rule(at=st.integers(0, 9), how=settlements)
    def settle(self, at: int, how: str) -> None:
        self.program.settle(at, how)

    @rule(client=clients, queue=queues)
    def purge(self, client: int, queue: str) -> None:
        self.program.purge(client, queue)

    @rule(client=clients, queue=queues)
    def delete(self, client: int, queue: str) -> None:
        self.program.delete(client, queue)

    @rule(client=clients)
    def close(self, client: int) -> None:
        self.program.close(client)

    @invariant()
    def the_broker_does_what_the_model_says(self) -> None:
        self.program.rest()


class ProgramsOfWhoDoesNotAcknowledge(Programs):
    """As `Programs`, with consumers without acknowledgements, which get all messages whatever the
    prefetch.
    """

    @rule(client=clients, queue=queues)
    def consume_without_acknowledgements(self, client: int, queue: str) -> None:
        self.program.consume(client, queue, no_ack=True)


class ProgramsOnThreeNodes(ProgramsOfWhoDoesNotAcknowledge):
    nodes = 3


class ProgramsUnderKills(Programs):
    """As `Programs`, where one node at a time, or all nodes, are killed and start again. Machines lose
    unsynced data.

    The programs begin with waiting messages, and with messages that a consumer of each node has.
    """

    nodes = 3

    def __init__(self) -> None:
        super().__init__()
        for client in range(CLIENTS):
            self.program.qos(client, 2, shared=False)
            self.program.consume(client, "a", no_ack=False)
        self.program.publish(0, "a", 9, 2)
        self.program.publish(1, "b", 3, 2)
        self.program.rest()

    def all_live(self) -> bool:
        return not self.program.down

    def may_settle(self) -> bool:
        return self.all_live() and self.holding()

    @precondition(all_live)
    @rule(node=st.sampled_from((None, 0, 1, 2)), power=st.booleans())
    def kill(self, node: int | None, power: bool) -> None:
        if node is None:
            self.program.kill_all()
        else:
            self.program.kill(node, power)

    @precondition(all_live)
    @rule(
        client=clients, queue=queues, count=st.integers(1, 3),
        node=st.integers(0, 2), power=st.booleans(), after_ms=milliseconds,
    )  # fmt: skip
    def publish_and_kill(
        self, client: int, queue: str, count: int, node: int, power: bool, after_ms: float
    ) -> None:
        self.program.publish_and_kill(client, queue, count, node, power, after_ms)

    @precondition(may_settle)
    @rule(
        at=st.integers(0, 9), how=settlements,
        node=st.integers(0, 2), power=st.booleans(), after_ms=milliseconds,
    )  # fmt: skip
    def settle_and_kill(self, at: int, how: str, node: int, power: bool, after_ms: float) -> None:
        self.program.settle_and_kill(at, how, node, power, after_ms)

    @precondition(lambda self: self.program.down)
    @rule()
    def start(self) -> None:
        self.program.start()


def run_programs(machine: type[Programs], examples: int, steps: int) -> None:
    """Run so many programs, each of so many steps at most; the same ones each time."""
    limits = settings(
        max_examples=examples, stateful_step_count=steps, derandomize=True,
        suppress_health_check=list(HealthCheck), print_blob=True,
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=limits)


@pytest.mark.requirement(
    "A17.1",
    "A17.4",
    "A17.5",
    "A17.6",
    "A17.7",
    "A17.9",
    "A17.10",
    "A17.11",
    "A17.12",
    "A17.13",
    "A18.1",
    "A18.2",
    "D2.1",
    "D2.2",
)
@pytest.mark.parametrize(
    ("machine", "examples", "steps"),
    [
        (Programs, 15, 25),
        (ProgramsOfWhoDoesNotAcknowledge, 10, 25),
        (ProgramsOnThreeNodes, 4, 15),
        (ProgramsUnderKills, 15, 25),
    ],
)
def test_programs_do_what_the_model_says(machine: type[Programs], examples: int, steps: int) -> None:
    run_programs(machine, examples, steps)
