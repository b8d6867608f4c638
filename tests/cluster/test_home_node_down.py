"""A classic queue whose node is down: every request for the queue is answered so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from cluster.broker.lost_nodes import FRONT_END_GRACE_S
from cluster.catalog.replica import CATALOG
from node.wire.amqp091 import methods as m
from replication.raft import Role
from tests.site import ChannelClosedError, Client, Site

DOWN = "404 NOT_FOUND - home node of queue 'q' in vhost '/' is down or inaccessible"

ASKED: dict[str, Callable[[Client], object]] = {
    "passive declare": lambda client: client.declare("q", passive=True),
    "declare": lambda client: client.declare("q", queue_type="classic"),
    "delete": lambda client: client.delete("q"),
    "purge": lambda client: client.purge("q"),
    "get": lambda client: client.get("q"),
    "consume": lambda client: client.consume("q"),
    "bind": lambda client: client.bind("q", "amq.direct", "other"),
}


@pytest.fixture
def client() -> Client:
    """A client on one of two nodes. The other node, which has the queue, is down."""
    site = Site("n1", "n2", "n3")
    owner = site.client("n3")
    owner.declare("q", queue_type="classic")
    owner.bind("q", "amq.direct", "key")
    client = site.client("n1")
    site.nodes["n3"].stop(power=False)
    queue = site.nodes["n1"].broker.catalog.state.queues["/", "q"]
    site.until(lambda: site.nodes["n1"].broker.links.to(queue.partition).unreachable)
    return client


@pytest.mark.parametrize("asked", ASKED)
def test_a_client_is_told_that_the_node_of_a_queue_is_down(client: Client, asked: str) -> None:
    with pytest.raises(ChannelClosedError, match=DOWN):
        ASKED[asked](client)
    state = client.node.broker.catalog.state
    assert ("/", "q") in state.queues


def test_a_queue_whose_node_is_down_can_be_unbound(client: Client) -> None:
    client.call(m.QueueUnbind("q", "amq.direct", "key"), m.QueueUnbindOk)
    assert client.node.broker.catalog.state.vhosts["/"].exchanges.bindings("amq.direct") == []


@pytest.mark.requirement("A23.1")
def test_what_was_on_its_way_to_a_node_that_died_is_answered_and_not_doubled() -> None:
    site = Site("n1", "n2", "n3")
    owner, client = site.client("n3"), site.client("n1")
    owner.declare("q", queue_type="classic")
    owner.declare("replicated")
    for queue in ("q", "replicated"):
        owner.bind(queue, "amq.fanout")
    site.nodes["n3"].stop(power=True)
    assert client.confirms(client.publish("", b"on its way", exchange="amq.fanout")) == [False]
    assert client.confirms(client.publish("", b"too late", exchange="amq.fanout")) == [False]
    assert client.bodies("replicated") == [b"on its way", b"too late"]
    site.nodes["n3"].start()
    partition = client.node.broker.catalog.state.queue("/", "q").partition
    site.until(lambda: not client.node.broker.links.to(partition).unreachable)
    assert client.confirms(client.publish("", b"again", exchange="amq.fanout")) == [True]
    assert client.bodies("q") == [b"on its way", b"again"]


@pytest.mark.requirement("A23.1")
def test_a_node_that_is_back_at_once_confirms_what_was_on_its_way() -> None:
    site = Site("n1", "n2", "n3")
    owner, client = site.client("n3"), site.client("n1")
    owner.declare("q", queue_type="classic")
    mend = site.network.cut([("n1", "n3"), ("n3", "n1")])
    broker = site.nodes["n1"].broker
    tags = client.publish("q", b"on its way")
    site.until(lambda: "n3" not in broker.connected)
    site.run(FRONT_END_GRACE_S / 2)
    mend()
    assert client.confirms(tags) == [True]
    assert client.bodies("q") == [b"on its way"]


def test_a_node_that_is_heard_and_does_not_hear_is_there_again_when_it_does() -> None:
    site = Site("n1", "n2", "n3")
    owner, client = site.client("n3"), site.client("n1")
    owner.declare("q", queue_type="classic")
    mend = site.network.cut([("n1", "n3")])
    site.run(10 * FRONT_END_GRACE_S)
    mend()
    site.run(FRONT_END_GRACE_S)
    assert client.confirms(client.publish("q", b"there")) == [True]
    assert client.bodies("q") == [b"there"]


def test_a_node_that_starts_meanwhile_knows_that_another_is_down() -> None:
    site = Site("n1", "n2", "n3")
    site.client("n3").declare("q", queue_type="classic")
    site.nodes["n3"].stop(power=False)
    site.nodes["n1"].stop(power=False)
    site.nodes["n1"].start()
    site.until(lambda: site.nodes["n1"].ready)
    client = site.client("n1")
    assert client.confirms(client.publish("q", b"")) == [False]
    for ask in ASKED.values():
        with pytest.raises(ChannelClosedError, match=DOWN):
            ask(client)
        client.open_channel()


@pytest.mark.requirement("A23.6")
def test_a_reply_queue_is_gone_with_its_node() -> None:
    """A replying client may check first whether the requesting client still waits (RabbitMQ's direct
    reply-to).
    """
    site = Site("n1", "n2", "n3")
    server, asker = site.client("n1"), site.client("n2")
    server.declare("q")
    asker.consume("amq.rabbitmq.reply-to", no_ack=True)
    asker.confirms(asker.publish("q", b"?", reply_to="amq.rabbitmq.reply-to"))
    question = server.get("q")
    assert question is not None
    name = str(question.properties.reply_to)
    assert server.declare(name, passive=True).consumer_count == 1
    site.nodes["n2"].stop(power=False)
    for seconds in (0.1, 5.0):
        site.run(seconds)
        with pytest.raises(ChannelClosedError, match="404 NOT_FOUND - no queue"):
            server.declare(name, passive=True)
        server.open_channel()


def test_a_node_that_was_given_up_is_asked_to_greet_once_it_hears_again() -> None:
    """The node has noticed no fault: its messages arrived all the time, and none was sent to it."""
    site = Site("n1", "n2", "n3")
    home, client = site.nodes["n3"], site.client("n1")
    site.client("n3").declare("q", queue_type="classic")
    client.consume("q")
    site.run(0.1)
    home.input(lambda: home.broker.peer_down("n1", home.clock()))
    site.run(2 * FRONT_END_GRACE_S)
    home.input(lambda: home.broker.peer_up("n1", home.clock()))
    site.run(FRONT_END_GRACE_S)
    assert client.confirms(client.publish("q", b"there")) == [True]
    site.until(lambda: [one.body for one in client.deliveries] == [b"there"])


def test_a_front_end_that_a_snapshot_of_the_catalog_tells_of_is_asked_to_greet() -> None:
    """The front end has greeted before the owner knew its node, and so could not get an answer."""
    site = Site("n1", "n2", "n3")
    home = site.nodes["n3"].broker
    site.client("n3").declare("q", queue_type="classic")
    site.until(lambda: home.catalog_fresh() and site.nodes["n1"].broker.connected)
    lead(site, "n1")
    mends = {name: site.network.cut([(name, "n3"), ("n3", name)]) for name in ("n1", "n2")}
    site.run(2 * FRONT_END_GRACE_S)
    site.nodes["n2"].stop(power=False)
    site.nodes["n2"].start()
    site.until(lambda: site.nodes["n2"].ready)
    grow(site, "n1")
    mends["n2"]()
    site.until(lambda: "n2" in home.connected)
    site.run(1.0)
    assert site.nodes["n2"].front_end != home.catalog.state.nodes["n2"].front_end
    mends["n1"]()
    client = site.client("n2")
    assert client.confirms(client.publish("q", b"there")) == [True]


def lead(site: Site, name: str) -> None:
    """Have the node lead the catalog."""
    for node in site.nodes.values():
        host = node.broker.host
        if node.name != name and host.groups[CATALOG].raft.role is Role.LEADER:
            node.input(partial(host.hand_over, CATALOG, name, node.clock()))
    site.until(lambda: site.nodes[name].broker.host.leads(CATALOG, site.nodes[name].clock()))


def grow(site: Site, name: str) -> None:
    """Have the catalog's log grow until its leader has compacted it."""
    group = site.nodes[name].broker.host.groups[CATALOG]
    last, number = group.log.last_index(), 0
    while group.log.first_index() <= last:
        number += 1
        exchange = {"name": f"{number:0200}", "kind": "direct"}
        site.submit(name, "declare_exchange", {"vhost": "/", "exchange": exchange})
        site.run(0.05)
