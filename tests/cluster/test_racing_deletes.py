"""Requests of clients for a queue while another client deletes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from node.wire.amqp091 import methods as m
from tests.site import Client, Site

ASKED: dict[str, Callable[[Client, str], object]] = {
    "delete": lambda client, queue: client.delete(queue),
    "declare": lambda client, queue: client.declare(queue),
}


@pytest.mark.parametrize("asked", ASKED)
def test_what_needs_no_queue_succeeds_whenever_that_goes(asked: str) -> None:
    """As in RabbitMQ, no client is refused because of a simultaneous deletion."""
    site = Site("n1", "n2", "n3")
    one, other = site.client("n1"), site.client("n3")
    for milliseconds in range(10):
        queue = f"q{milliseconds}"
        one.declare(queue)
        one.send(m.QueueDelete(queue, nowait=True))
        site.run(milliseconds / 1000)
        ASKED[asked](other, queue)


@pytest.mark.requirement("A15.5")
@pytest.mark.parametrize("node", ["n1", "n3"])
def test_an_exclusive_queue_goes_with_its_connection_also_while_it_is_declared(node: str) -> None:
    site = Site("n1", "n2", "n3")
    other = site.client("n2")
    for milliseconds in range(10):
        client = site.client(node)
        queue = f"q{milliseconds}"
        client.send(m.QueueDeclare(queue, exclusive=True))
        site.run(milliseconds / 1000)
        client.close()
        site.run(1.0)
        other.declare(queue, exclusive=True)
