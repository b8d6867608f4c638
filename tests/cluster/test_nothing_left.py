"""Repeated actions of clients leave no state behind, neither on their node nor at owners."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from node.wire.amqp091 import methods as m
from tests.inside import state_of
from tests.site import Client, Site

TIMES = 60


def consume_and_cancel(client: Client) -> None:
    """Fetch one message with a consumer of its own, as some clients do for each message."""
    client.declare("q")
    tag = client.consume("q", prefetch=1)
    client.confirms(client.publish("q", b"m"))
    client.site.until(lambda: client.deliveries)
    client.ack(client.deliveries.pop())
    client.cancel(tag)


def consume_and_delete(client: Client) -> None:
    client.declare("q")
    client.consume("q")
    client.delete("q")
    client.site.until(lambda: client.cancelled)
    client.cancelled.clear()


def consume_with_a_priority(client: Client) -> None:
    client.declare("q")
    priority = client.site.world.now
    client.cancel(client.consume("q", arguments={"x-priority": int(priority * 1e6)}))


@pytest.mark.parametrize("over_and_over", [consume_and_cancel, consume_and_delete, consume_with_a_priority])
def test_consumers_that_have_ended_are_forgotten(over_and_over: Callable[[Client], None]) -> None:
    site = Site("n1")
    client = site.client("n1")
    for _ in range(TIMES):
        over_and_over(client)
    site.run(0.1)
    owners = site.nodes["n1"].broker.owners.values()
    states = [state_of(owner).front_ends.current(site.nodes["n1"].front_end) for owner in owners]
    kept = [len(site.front_end("n1")._consumers), len(client.connection.session._core._consumers)]
    kept += [len(state.consumers) for state in states if state is not None]
    kept += [len(queue.delivery.consumers.lines) for owner in owners for queue in owner.queues.values()]
    assert max(kept) < TIMES / 2


@pytest.mark.requirement("A17.7", "A17.9")
def test_a_cancelled_consumers_messages_may_be_settled_whatever_came_since() -> None:
    site = Site("n1")
    client = site.client("n1")
    client.declare("q")
    client.confirms(client.publish("q", b"m"))
    tag = client.consume("q", prefetch=1)
    site.until(lambda: client.deliveries)
    client.cancel(tag)
    for _ in range(TIMES):
        client.cancel(client.consume("q"))
    client.ack(client.deliveries[0])
    client.send(m.BasicRecover(True))
    site.run(0.1)
    client.close()
    site.run(0.1)
    assert site.client("n1").bodies("q") == []
