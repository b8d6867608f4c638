"""Queues are spread over the nodes, and arguments set the number of their replicas."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.catalog.placement import local_or_balanced, place
from cluster.gateway.queue_placing import queues_owned
from node.refusal import PreconditionFailedError
from node.session.ports import QueueDeclaration
from tests.site import Site

MEMBERS = ("n1", "n2", "n3", "n4")


def declared(durable: bool = True, exclusive: bool = False, **arguments: Any) -> QueueDeclaration:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return QueueDeclaration("q", durable, exclusive, False, named)


def test_a_durable_queue_is_replicated_on_three_nodes_and_owned_where_it_was_declared() -> None:
    placed = place(declared(), "n3", MEMBERS, "quorum")
    assert placed.replicas == ("n3", "n4", "n1")
    assert not placed.transient


@pytest.mark.parametrize(("size", "replicas"), [(1, ("n1",)), (None, ("n1", "n2", "n3"))])
def test_a_stream_states_its_replicas_as_on_rabbitmq(size: int | None, replicas: tuple[str, ...]) -> None:
    sized = {} if size is None else {"x_initial_cluster_size": size}
    assert place(declared(x_queue_type="stream", **sized), "n1", MEMBERS, "classic").replicas == replicas


@pytest.mark.requirement("A24.16")
@pytest.mark.parametrize(("size", "replicas"), [(1, ("n1",)), (4, MEMBERS), (9, MEMBERS)])
def test_the_group_size_can_be_asked_for(size: int, replicas: tuple[str, ...]) -> None:
    assert place(declared(x_quorum_initial_group_size=size), "n1", MEMBERS, "quorum").replicas == replicas


@pytest.mark.requirement("A24.14")
def test_classic_means_one_node() -> None:
    assert place(declared(x_queue_type="classic"), "n2", MEMBERS, "quorum").replicas == ("n2",)
    assert place(declared(), "n2", MEMBERS, "classic").replicas == ("n2",)
    assert place(declared(x_queue_type="quorum"), "n2", MEMBERS, "classic").replicas != ("n2",)


@pytest.mark.requirement("A24.15")
@pytest.mark.parametrize(
    ("asked", "leader"),
    [
        ({}, "n3"),
        ({"x-queue-leader-locator": "client-local"}, "n3"),
        ({"x-queue-leader-locator": "balanced"}, "n4"),
        ({"x-queue-master-locator": "min-masters"}, "n4"),
    ],
)
def test_a_queue_is_local_or_where_the_fewest_are(asked: dict[str, str], leader: str) -> None:
    assert local_or_balanced(asked, "n3", MEMBERS, lambda: {"n1": 2, "n2": 1, "n3": 5, "n4": 1}) == leader
    assert local_or_balanced(asked, "n3", MEMBERS, dict) == "n3"


@pytest.mark.requirement("A24.15")
@pytest.mark.parametrize("by_policy", [False, True])
def test_balanced_queues_are_owned_by_the_nodes_with_the_fewest(by_policy: bool) -> None:
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    for name in ("a", "b"):
        client.declare(name)
    arguments = {} if by_policy else {"queue_leader_locator": "balanced"}
    if by_policy:
        policy = {
            "name": "p", "pattern": "^s", "apply_to": "queues", "priority": 0,
            "definition": {"queue-leader-locator": "balanced"},
        }  # fmt: skip
        site.submit("n1", "put_policy", {"vhost": "/", "operator": False, "policy": policy})
    for number in range(4):
        client.declare(f"s{number}", **arguments)
    broker = site.nodes["n1"].broker
    site.until(lambda: queues_owned(broker.catalog.state, broker.announced) == {"n1": 2, "n2": 2, "n3": 2})
    for number in range(4):
        assert client.confirms(client.publish(f"s{number}", b"m")) == [True]


def owner_of(site: Site, asked: str, queue: str) -> str:
    """The node that owns a queue, by the catalog of a running node."""
    partition = site.nodes[asked].broker.catalog.state.queues["/", queue].partition
    running = [node for node in site.nodes.values() if node.up]
    owners = [one.name for one in running if partition in one.broker.owners]
    active = [name for name in owners if site.nodes[name].broker.owners[partition].active]
    return active[0] if len(active) == 1 else ""


@pytest.mark.requirement("A24.15")
@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_locator_says_where_a_queue_is_declared_and_nothing_of_later(kind: str) -> None:
    """The queue's owner is lost and comes back: the queue stays with its next owner, and so do replicated
    queues of the same partition. No queue is placed on a node that is down.
    """
    site = Site("n1", "n2", "n3")
    first, asking = site.client("n2"), site.client("n1")
    first.declare("a", queue_leader_locator="client-local")
    assert owner_of(site, "n1", "a") == "n2"
    assert first.confirms(first.publish("a", b"kept")) == [True]
    site.nodes["n2"].stop(power=False)
    site.until(lambda: owner_of(site, "n1", "a"))
    successor = owner_of(site, "n1", "a")
    site.client("n3").declare("b", queue_type=kind, queue_leader_locator="client-local")
    assert owner_of(site, "n1", "b") == "n3"
    asking.declare("c", queue_type=kind, queue_leader_locator="balanced")
    assert owner_of(site, "n1", "c") in ("n1", "n3")
    assert asking.confirms(asking.publish("c", b"m")) == [True]
    site.nodes["n2"].start()
    site.until(lambda: site.nodes["n2"].ready and site.front_end("n2").ready())
    again = site.client("n2")
    assert again.declare("a", queue_leader_locator="client-local").message_count == 1
    assert owner_of(site, "n1", "a") == successor
    again.declare("d", queue_type=kind, queue_leader_locator="client-local")
    assert owner_of(site, "n1", "d") == ("n2" if kind == "classic" else successor)


def test_transient_and_exclusive_queues_stay_in_the_memory_of_one_node() -> None:
    for declaration in (declared(durable=False), declared(exclusive=True)):
        placed = place(declaration, "n2", MEMBERS, "quorum")
        assert placed.transient
        assert placed.replicas == ("n2",)


@pytest.mark.parametrize(
    "declaration",
    [
        declared(x_queue_type="delayed"),
        declared(x_queue_type="stream", durable=False),
        declared(x_queue_type="stream", exclusive=True),
        declared(x_queue_type="stream", x_initial_cluster_size=0),
        declared(x_queue_type="quorum", durable=False),
        declared(x_queue_type="quorum", exclusive=True),
        declared(x_quorum_initial_group_size=0),
        declared(x_quorum_initial_group_size="3"),
    ],
)
def test_contradictions_are_refused(declaration: QueueDeclaration) -> None:
    with pytest.raises(PreconditionFailedError, match="for queue"):
        place(declaration, "n1", MEMBERS, "quorum")
