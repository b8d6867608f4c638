"""Random programs of consumers on several nodes, in simulated time, against `tests.consumer_model`."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cluster.broker.lost_nodes import FRONT_END_GRACE_S
from tests.cluster.kinds import KINDS, lives_of
from tests.consumer_model import Consumer, ConsumerModel, Delivered, Message, Sharing
from tests.site import Client, Delivery, Site

QUEUE = "q"

REST_S = 0.1
"""The time in which all effects of a step have come."""

FAILOVER_S = 2 * FRONT_END_GRACE_S
"""The time in which a node is lost, given up, and back."""

VALUES = st.lists(st.integers(0, 3), min_size=1, max_size=6)
"""The priorities or groups of messages."""

SHARINGS = (
    Sharing(),
    Sharing(levels=2),
    Sharing(grouped=True),
    Sharing(single=True),
    Sharing(single=True, levels=2),
)


class ConsumerPrograms(RuleBasedStateMachine):
    """The steps of three clients. Hypothesis chooses them, and prints the shortest failing program."""

    kind: ClassVar[str]
    names: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        super().__init__()
        self.site = Site(*self.names, lives=lives_of(self.kind))
        self.clients: list[Client] = [self.site.client(self.names[at % len(self.names)]) for at in range(3)]
        self.subscribed: list[dict[str, Consumer]] = [{}, {}, {}]
        """Consumers by client and consumer tag, with cancelled ones whose messages the client has."""
        self.came: dict[Message, tuple[Client, Delivery]] = {}
        self.last = self.consumers = 0

    @initialize(
        sharing=st.sampled_from(SHARINGS),
        windows=st.lists(st.sampled_from((1, 2, 5)), min_size=2, max_size=3),
        values=VALUES,
    )
    def declare(self, sharing: Sharing, windows: list[int], values: list[int]) -> None:
        self.model = ConsumerModel(sharing, counts=self.kind == "replicated")
        said: dict[str, Any] = {}
        if sharing.levels is not None:
            said["max_priority"] = sharing.levels
        if sharing.grouped:
            said["group_by"] = "key"
        if sharing.single:
            said["single_active_consumer"] = True
        self.clients[0].declare(QUEUE, **KINDS[self.kind], **said)
        for at, window in enumerate(windows):
            self.subscribe(at, at % 2, window, no_ack=False)
        self.publish(values, at=0)

    # -- what clients do ------------------------------------------------------------------------

    @rule(values=VALUES, at=st.integers(0, 2))
    def publish(self, values: list[int], at: int) -> None:
        messages = [Message(self.last + place, value, value) for place, value in enumerate(values, 1)]
        self.last += len(messages)
        self.model.published(messages)
        client, tags = self.clients[at], []
        for one in messages:
            keyed = {"headers": {"key": f"group {one.group}"}} if one.group else {}
            tags += client.publish(QUEUE, b"%d" % one.number, priority=one.level, **keyed)
        assert all(client.confirms(tags))
        self.rest()

    @rule(
        at=st.integers(0, 2),
        priority=st.integers(0, 1),
        window=st.sampled_from((1, 1, 2, 3, 8)),
        no_ack=st.sampled_from((False, False, False, True)),
    )
    def subscribe(self, at: int, priority: int, window: int, no_ack: bool) -> None:
        if len(self.model.consumers) == 5:
            return
        no_ack = no_ack and not self.model.sharing.grouped
        self.consumers += 1
        consumer = Consumer(self.consumers, priority, None if no_ack else window)
        tag = f"consumer {consumer.number}"
        self.subscribed[at][tag] = consumer
        self.model.subscribed(consumer)
        said = {"x-priority": priority} if priority else {}
        self.clients[at].consume(QUEUE, tag, prefetch=window, no_ack=no_ack, arguments=said)
        self.rest()

    @precondition(lambda self: self.model.consumers)
    @rule(which=st.integers(0, 4), priority=st.integers(0, 1), window=st.sampled_from((1, 2, 3, 8)))
    def replace(self, which: int, priority: int, window: int) -> None:
        """A consumer goes on with another priority and window, and with its messages."""
        consumer = self.model.consumers[which % len(self.model.consumers)]
        tag = f"consumer {consumer.number}"
        [client] = [one for one, tags in zip(self.clients, self.subscribed, strict=True) if tag in tags]
        no_ack = consumer.window is None
        self.model.replaced(consumer, priority, None if no_ack else window)
        said = {"x-priority": priority, "x-replace": True}
        client.consume(QUEUE, tag, prefetch=window, no_ack=no_ack, arguments=said)
        self.rest()

    @precondition(lambda self: self.model.consumers)
    @rule(which=st.integers(0, 4))
    def cancel(self, which: int) -> None:
        consumer = self.model.consumers[which % len(self.model.consumers)]
        tag = f"consumer {consumer.number}"
        [client] = [one for one, tags in zip(self.clients, self.subscribed, strict=True) if tag in tags]
        self.model.cancelled(consumer)
        client.cancel(tag)
        self.rest()

    @precondition(lambda self: self.model.held)
    @rule(which=st.integers(0, 9), count=st.integers(1, 3), back=st.sampled_from((False, False, True)))
    def settle(self, which: int, count: int, back: bool) -> None:
        """Settle some messages of one client, in any order."""
        client = self.came[self.model.held[which % len(self.model.held)]][0]
        mine = [one for one in self.model.held if self.came[one][0] is client][:count]
        (self.model.given_back if back else self.model.settled)(mine)
        for one in mine:
            _, delivery = self.came.pop(one)
            if back:
                client.nack(delivery, requeue=True)
            else:
                client.ack(delivery)
        self.rest()

    @rule(at=st.integers(0, 2))
    def close(self, at: int) -> None:
        """Close the connection; the client connects again."""
        self.model.lost(self.gone(at))
        self.clients[at].close()
        self.clients[at] = self.site.client(self.clients[at].node.name)
        self.rest()

    def gone(self, at: int) -> list[Consumer]:
        consumers = list(self.subscribed[at].values())
        self.subscribed[at] = {}
        self.came = {one: came for one, came in self.came.items() if came[0] is not self.clients[at]}
        return consumers

    @precondition(lambda self: len(self.names) > 1)
    @rule(at=st.integers(0, 2))
    def lose_a_node(self, at: int) -> None:
        """Kill a node, which may be the owner, with its client."""
        self.model.lost(self.gone(at), owner=True)
        node = self.site.nodes[self.names[at]]
        node.stop(power=False)
        self.site.run(FAILOVER_S)
        node.start()
        self.site.until(lambda: node.ready)
        self.clients[at] = self.site.client(node.name)
        self.rest()

    # -- what comes of it -----------------------------------------------------------------------

    def rest(self) -> None:
        self.site.run(REST_S)
        found: list[Delivered] = []
        for at, client in enumerate(self.clients):
            while client.deliveries:
                delivery = client.deliveries.pop(0)
                consumer = self.subscribed[at][delivery.method.consumer_tag]
                failed = delivery.headers.get("x-delivery-count", 0)
                number = int(delivery.body)
                found.append(Delivered(consumer, number, delivery.method.redelivered, failed))
                message = next((one for one in self.model.ready if one.number == number), None)
                assert message is not None, f"{number} came, which is not ready"
                self.came[message] = (client, delivery)
        self.model.came(found)
        assert self.clients[0].depth(QUEUE) == len(self.model.ready)


@pytest.mark.requirement("A18.1", "A20.1", "A23.5", "A24.12", "D18.2", "D18.3", "X3.1", "X3.2")
@pytest.mark.parametrize(
    ("kind", "names"), [("replicated", ("n1", "n2", "n3")), ("classic", ("n1",)), ("transient", ("n1",))]
)
def test_consumers_get_what_the_model_says(kind: str, names: tuple[str, ...]) -> None:
    machine = type("Programs", (ConsumerPrograms,), {"kind": kind, "names": names})
    run_state_machine_as_test(machine, settings=LIMITS)


LIMITS = settings(
    max_examples=15, stateful_step_count=25, derandomize=True,
    suppress_health_check=list(HealthCheck), print_blob=True, deadline=None,
)  # fmt: skip
