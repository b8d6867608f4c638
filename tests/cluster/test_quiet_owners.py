"""Nodes know for how long their owners had no work, and run fewer timers then (`cluster.process.node`)."""

from __future__ import annotations

import pytest

from tests.site import Site


@pytest.mark.requirement("A23.1")
def test_waiting_messages_and_consumers_are_no_work_for_an_owner() -> None:
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    client.declare("q")
    client.consume("q", prefetch=1)
    client.confirms(client.publish("q", b"one", b"two"))
    site.until(lambda: len(client.deliveries) == 1)
    # The owner of a new partition waits for its front ends.
    site.run(10.0)

    def served() -> list[float]:
        return [node.broker.served_at for node in site.nodes.values()]

    before = served()
    site.run(5.0)
    assert served() == before
    client.ack(client.deliveries[0])
    site.until(lambda: len(client.deliveries) == 2)
    assert served() != before
