"""What goes with its last use is gone for every client when the answer to that use's end arrives (A15, A14).

Whichever node the client is on: the one that owns the queue, the one that leads the catalog, or the third.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from node.wire.amqp091 import methods as m
from tests.cluster.kinds import KINDS
from tests.cluster.test_confirmed_answers import owners_of
from tests.site import Client, Site

PLACES = ("owner", "leader", "third")
"""Where a client is."""


class Cluster:
    """Three nodes with a part each."""

    def __init__(self) -> None:
        self.site = Site("n1", "n2", "n3")
        leader = self.site.nodes["n1"].broker.catalog.leader
        assert leader is not None
        owner, third = (name for name in self.site.nodes if name != leader)
        self.nodes = {"owner": owner, "leader": leader, "third": third}

    def client(self, place: str) -> Client:
        return self.site.client(self.nodes[place])

    def declare(self, queue: str, kind: str) -> None:
        """Have the node declare an auto-delete queue that is to own it."""
        self.client("owner").declare(queue, auto_delete=True, **KINDS[kind])
        broker = self.site.nodes[self.nodes["owner"]].broker
        assert owners_of(self.site, broker.catalog.state.queues["/", queue].partition) == [broker.node]

    def knowing(self, queue: str) -> list[str]:
        """The nodes whose clients find the queue."""
        nodes = self.site.nodes.values()
        return [node.name for node in nodes if ("/", queue) in node.broker.catalog.state.queues]


def close_channel(client: Client) -> None:
    client.call(m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)


LEAVING: dict[str, Callable[[Client, str], object]] = {
    "cancel": lambda client, tag: client.cancel(tag),
    "channel.close": lambda client, tag: close_channel(client),
    "connection.close": lambda client, tag: client.disconnect(),
}


@pytest.mark.requirement("A15")
@pytest.mark.parametrize("kind", ["replicated", "classic", "transient"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", LEAVING)
def test_an_auto_delete_queue_is_gone_when_its_last_consumer_is_answered(
    how: str, place: str, kind: str
) -> None:
    cluster = Cluster()
    cluster.declare("q", kind)
    client = cluster.client(place)
    first = client.consume("q")
    client.consume("q", "second")
    client.cancel(first)
    assert len(cluster.knowing("q")) == 3
    LEAVING[how](client, "second")
    assert cluster.knowing("q") == []


@pytest.mark.requirement("A15")
@pytest.mark.parametrize("kind", ["replicated", "classic"])
@pytest.mark.parametrize("place", PLACES)
def test_auto_delete_queues_are_gone_where_one_channel_had_all_their_consumers(place: str, kind: str) -> None:
    cluster = Cluster()
    client = cluster.client(place)
    for queue in ("a", "b"):
        cluster.declare(queue, kind)
        client.consume(queue)
        client.consume(queue)
    close_channel(client)
    assert cluster.knowing("a") == cluster.knowing("b") == []
