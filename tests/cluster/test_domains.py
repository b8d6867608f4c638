"""Queues in a domain of nodes, and the first owners of queues (requirement D20)."""

from __future__ import annotations

from typing import Any

import pytest

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import AmqpCondition
from node.wire.amqp10.management import MANAGEMENT_ADDRESS
from tests.cluster.links import LinkClient
from tests.cluster.test_placement import owner_of
from tests.session.test_amqp10_management import parsed
from tests.site import ChannelClosedError, Client, Site
from tests.wire.amqp10.peer import error_in, transfer
from tests.wire.amqp10.performatives import credit, receiver, sender
from tests.wire.amqp10.test_management import request

NAMES = ("n1", "n2", "n3", "n4", "n5")
EAST = ("n1", "n2", "n3")
DOMAINS = {**dict.fromkeys(EAST, ("east",)), "n4": ("west", "edge")}


def site_with_domains() -> Site:
    """Three nodes in a domain, one in two others, one in none."""
    return Site(*NAMES, domains=DOMAINS)


def replicas_of(site: Site, queue: str) -> tuple[str, ...]:
    state = next(node for node in site.nodes.values() if node.up).broker.catalog.state
    return state.partitions[state.queues["/", queue].partition].replicas


def refused(client: Client, call: str, *given: str, **arguments: str) -> str:
    """The refusal that closes the channel of a call; opens the next channel."""
    with pytest.raises(ChannelClosedError) as closed:
        getattr(client, call)(*given, **arguments)
    client.open_channel()
    return str(closed.value)


@pytest.mark.requirement("D20.3", "D20.4")
def test_the_replicas_of_a_queue_are_in_its_domain() -> None:
    site = site_with_domains()
    client = site.client("n2")
    client.declare("orders", domain="east")
    assert replicas_of(site, "orders") == ("n2", "n3", "n1")
    site.client("n4").declare("edge", domain="edge")
    assert replicas_of(site, "edge") == ("n4",)
    client.declare("plain")
    assert replicas_of(site, "plain") == ("n2", "n3", "n4")
    state = site.nodes["n5"].broker.catalog.state
    assert state.queues["/", "orders"].partition != state.queues["/", "plain"].partition


@pytest.mark.requirement("D20.3")
def test_clients_of_other_nodes_are_told_that_there_is_no_such_queue() -> None:
    site = site_with_domains()
    inside, outside = site.client("n1"), site.client("n5")
    inside.declare("orders", domain="east")
    inside.declare_exchange("sales", "fanout")
    inside.bind("orders", "sales")
    told = (
        "404 NOT_FOUND - no queue 'orders' in vhost '/' at node 'n5': the queue is in the domain 'east', "
        "whose nodes are n1, n2, n3"
    )
    assert refused(outside, "consume", "orders") == told
    assert refused(outside, "get", "orders") == told
    assert refused(outside, "depth", "orders") == told
    assert refused(outside, "declare", "orders", domain="east") == told
    assert refused(outside, "declare", "orders") == told
    assert refused(outside, "declare", "another", domain="east") == told.replace("orders", "another")
    assert refused(outside, "purge", "orders") == told
    assert refused(outside, "delete", "orders") == told
    assert refused(outside, "bind", "orders", "sales") == told
    assert inside.depth("orders") == 0

    # Messages reach the queue from every node, as exchanges are those of the cluster.
    assert outside.confirms(outside.publish("", b"sold", exchange="sales")) == [True]
    assert outside.confirms(outside.publish("orders", b"direct")) == [True]
    assert inside.bodies("orders") == [b"sold", b"direct"]


@pytest.mark.requirement("D20.3", "D20.8")
def test_a_queue_stays_in_its_domain_whatever_is_lost() -> None:
    site = site_with_domains()
    client, owner = site.client("n2"), "n1"
    site.client("n1").declare("orders", domain="east")
    tags = client.publish("orders", b"one", b"two")
    assert client.confirms(tags) == [True, True]
    tag = client.consume("orders", prefetch=1)
    site.until(lambda: client.deliveries)
    for _ in range(3):
        owner = owner_of(site, "n2", "orders")
        if owner == "n2":
            break
        site.nodes[owner].stop(power=False)
        site.until(lambda: owner_of(site, "n2", "orders") in EAST)
        assert owner_of(site, "n2", "orders") != owner
        site.run(3.0)
        assert set(replicas_of(site, "orders")) == set(EAST)
        site.nodes[owner].start()
        site.until(lambda: all(node.ready for node in site.nodes.values()))
    client.ack(client.deliveries[0])
    site.until(lambda: len(client.deliveries) == 2)
    assert [one.body for one in client.deliveries] == [b"one", b"two"]
    assert not client.deliveries[1].method.redelivered
    client.cancel(tag)
    assert refused(site.client("n5"), "consume", "orders").startswith("404 ")


@pytest.mark.requirement("D20.5")
@pytest.mark.parametrize("kind", ["quorum", "classic", "stream"])
def test_a_queue_names_its_first_owner(kind: str) -> None:
    site = Site("n1", "n2", "n3", "n4")
    client = site.client("n1")
    client.declare("orders", queue_type=kind, initial_owner="n3")
    assert owner_of(site, "n1", "orders") == "n3"
    assert client.confirms(client.publish("orders", b"m")) == [True]
    told = refused(client, "declare", "orders", queue_type=kind, initial_owner="n2")
    assert told.startswith("406 PRECONDITION_FAILED - inequivalent arg 'x-initial-owner'")


@pytest.mark.requirement("D20.5")
def test_the_first_owner_is_that_node_also_where_others_own_the_partitions_there() -> None:
    """A failover has moved the queues that are like the new one."""
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    client.declare("before", initial_owner="n2")
    site.nodes["n2"].stop(power=False)
    site.until(lambda: owner_of(site, "n1", "before"))
    # While the node is down the queue begins where its client is.
    client.declare("meanwhile", initial_owner="n2")
    assert owner_of(site, "n1", "meanwhile") == "n1"
    site.nodes["n2"].start()
    site.until(lambda: site.nodes["n2"].ready)
    assert owner_of(site, "n1", "before") != "n2"
    for name in ("after", "also"):
        client.declare(name, initial_owner="n2")
        assert owner_of(site, "n1", name) == "n2"
    queues = site.nodes["n1"].broker.catalog.state.queues
    assert queues["/", "after"].partition == queues["/", "also"].partition != queues["/", "before"].partition


@pytest.mark.requirement("D20.5")
def test_a_policy_names_the_first_owner() -> None:
    site = Site("n1", "n2", "n3")
    for name, owner in (("third", "n3"), ("nobody", "n9")):
        policy = {
            "name": name, "pattern": f"^{name}", "apply_to": "queues", "priority": 0,
            "definition": {"initial-owner": owner},
        }  # fmt: skip
        site.submit("n1", "put_policy", {"vhost": "/", "operator": False, "policy": policy})
    client = site.client("n1")
    for name, owner in (("third", "n3"), ("nobody", "n1")):
        client.declare(name)
        assert owner_of(site, "n1", name) == owner


@pytest.mark.requirement("D20.4", "D20.5")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"domain": "north"}, "no node is in the domain 'north'; there are east, edge, west"),
        ({"domain": ""}, "invalid arg 'x-domain' for queue 'q' in vhost '/': {invalid_name,''}"),
        ({"domain": 5}, "invalid arg 'x-domain' for queue 'q' in vhost '/': {unacceptable_type,"),
        ({"initial_owner": "n9"}, "'n9' is no node of the cluster; its nodes are n1, n2, n3, n4, n5"),
        (
            {"initial_owner": "n 1"},
            "invalid arg 'x-initial-owner' for queue 'q' in vhost '/': {invalid_name,",
        ),
        (
            {"domain": "east", "initial_owner": "n4"},
            "'n4' is no node of the domain 'east'; its nodes are n1, n2, n3",
        ),
        ({"domain": "east", "underlying_topic": "t"}, "no queue has both x-domain and x-underlying-topic"),
        (
            {"initial_owner": "n1", "underlying_topic": "t"},
            "no queue has both x-initial-owner and x-underlying-topic",
        ),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], told: str) -> None:
    site = site_with_domains()
    closed = refused(site.client("n1"), "declare", "q", **arguments)
    assert closed.startswith("406 PRECONDITION_FAILED - ") and told in closed


@pytest.mark.requirement("D20.3", "D20.5")
@pytest.mark.parametrize("given", [{"domain": "east"}, {"initial_owner": "n2"}])
def test_queues_in_memory_stay_where_they_are_declared(given: dict[str, Any]) -> None:
    site = site_with_domains()
    client = site.client("n1")
    for kind in ({"durable": False}, {"exclusive": True}):
        told = refused(client, "declare", "q", **kind, **given)
        assert "stays on the node where it is declared" in told and told.startswith("406 ")
    with pytest.raises(ChannelClosedError, match=r"406 .* stays on the node where it is declared"):
        client.declare("", exclusive=True, **given)


@pytest.mark.requirement("D20.3", "D20.5")
def test_clients_of_amqp_10_declare_such_queues_and_find_none_elsewhere() -> None:
    site = site_with_domains()
    pair = (
        sender(0, MANAGEMENT_ADDRESS, "pair"),
        receiver(1, MANAGEMENT_ADDRESS, "pair"),
        credit(10, handle=1),
    )
    arguments = {"x-domain": "east", "x-initial-owner": "n2"}
    asked = request("/queues/orders", "PUT", {"durable": True, "arguments": arguments}, message_id="id")
    answers = {}
    for name in ("n5", "n1"):
        client = LinkClient(site, name, *pair)
        client.send(transfer(1, asked, settled=True))
        _, answers[name], _ = parsed(client.payloads[0])
    assert answers == {"n5": 404, "n1": 201}
    assert owner_of(site, "n1", "orders") == "n2"
    for attach in (receiver(0, "/queues/orders"), sender(0, "/queues/orders")):
        (*_, detach) = LinkClient(site, "n5").send(attach)
        error = error_in(detach, d.Detach)
        assert error.condition == AmqpCondition.NOT_FOUND and "the domain 'east'" in str(error.description)


@pytest.mark.requirement("D20.3")
def test_what_belongs_to_a_queue_is_in_its_domain() -> None:
    """The stream that keeps its history, and the queues over a stream."""
    site = site_with_domains()
    inside, outside = site.client("n1"), site.client("n4")
    inside.declare("kept", domain="east", history="1D")
    inside.declare("log", domain="east", queue_type="stream")
    inside.declare("over", underlying_topic="log")
    for name in ("kept.history", "log", "over"):
        assert refused(outside, "consume", name).startswith("404 ")
        assert set(replicas_of(site, name)) == set(EAST)


@pytest.mark.requirement("D20.3")
def test_a_node_that_is_in_the_domain_no_more_has_nothing_of_its_queues() -> None:
    site = site_with_domains()
    site.submit("n1", "found_members", {"nodes": {name: {"peers": name} for name in NAMES}})
    client = site.client("n1")
    client.declare("orders", domain="east")
    assert client.confirms(client.publish("orders", b"kept")) == [True]
    site.nodes["n1"].stop(power=False)
    site.nodes["n1"].domains = ()
    site.nodes["n4"].stop(power=False)
    site.nodes["n4"].domains = ("east",)
    for name in ("n1", "n4"):
        site.nodes[name].start()
    site.until(lambda: all(node.ready for node in site.nodes.values()))
    site.until(lambda: set(replicas_of(site, "orders")) == {"n2", "n3", "n4"})
    assert refused(site.client("n1"), "get", "orders").startswith("404 ")
    assert site.client("n4").bodies("orders") == [b"kept"]
