"""A client leaves without a word, and its node has not processed all its input."""

from __future__ import annotations

from node.wire.amqp091 import methods as m
from tests.site import Site


def test_a_node_that_is_cut_off_does_not_look_at_what_a_client_sends_before_it_leaves() -> None:
    """So the messages that it settled are redelivered, which no checker may report."""
    site = Site("n1", "n2", "n3")
    staying, leaving = site.client("n1").connection, site.client("n1").connection
    read: list[int] = []
    staying.drop(read.append)
    assert read == [staying.sent]
    for other in ("n2", "n3"):
        site.nodes[other].stop(power=False)
    site.until(lambda: not site.front_end("n1").ready())
    before = leaving.sent
    leaving.send(1, m.BasicQos(0, 10))
    leaving.drop(read.append)
    assert read == [staying.sent, before]
