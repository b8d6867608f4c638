"""Local queues: under one name each node has a queue of its own (requirement D20)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.test_domains import refused, replicas_of
from tests.cluster.test_placement import owner_of
from tests.membership.test_commands import Catalog
from tests.site import Client, Site

NAMES = ("n1", "n2", "n3")


class Locals:
    """A client at each of three nodes, each of which has a part of the local queue `q`."""

    def __init__(self, *, durable: bool = True) -> None:
        self.site = Site(*NAMES)
        self.clients = [self.site.client(name) for name in NAMES]
        for client in self.clients:
            answer = client.declare("q", durable=durable, replication="local")
            assert answer.queue == "q"

    def publish(self, client: Client, *bodies: bytes, exchange: str = "", key: str = "q") -> None:
        assert all(client.confirms(client.publish(key, *bodies, exchange=exchange)))


@pytest.mark.requirement("D20.2")
@pytest.mark.parametrize("durable", [True, False])
def test_each_node_has_its_own_part(durable: bool) -> None:
    found = Locals(durable=durable)
    for place, client in enumerate(found.clients):
        found.publish(client, b"%d" % place)
    for place, client in enumerate(found.clients):
        assert client.depth("q") == 1
        assert client.bodies("q") == [b"%d" % place]
        assert replicas_of(found.site, f"q@{NAMES[place]}") == (NAMES[place],)
        assert owner_of(found.site, "n1", f"q@{NAMES[place]}") == NAMES[place]


@pytest.mark.requirement("D20.2")
def test_a_durable_part_is_there_again_with_its_node_and_others_go_on() -> None:
    found = Locals()
    site, (first, second, _) = found.site, found.clients
    found.publish(first, b"kept")
    found.publish(second, b"other")
    site.nodes["n1"].stop(power=True)
    site.run(3.0)
    assert second.bodies("q") == [b"other"]
    found.publish(second, b"later")
    site.nodes["n1"].start()
    site.until(lambda: site.nodes["n1"].ready and site.front_end("n1").ready())
    again = site.client("n1")
    assert again.declare("q", replication="local").message_count == 1
    assert again.bodies("q") == [b"kept"]
    assert second.bodies("q") == [b"later"]


@pytest.mark.requirement("D20.2")
def test_consumers_get_the_messages_of_their_node_alone() -> None:
    found = Locals()
    for client in found.clients:
        client.consume("q")
    for place, client in enumerate(found.clients):
        found.publish(client, b"a%d" % place, b"b%d" % place)
    found.site.run(0.5)
    for place, client in enumerate(found.clients):
        assert [one.body for one in client.deliveries] == [b"a%d" % place, b"b%d" % place]


@pytest.mark.requirement("D20.2")
def test_bindings_purges_and_deletions_are_those_of_the_part() -> None:
    found = Locals()
    first, second, third = found.clients
    first.declare_exchange("sales", "topic")
    for client in (first, second):
        client.bind("q", "sales", "eu.*")
    for place, client in enumerate(found.clients):
        found.publish(client, b"%d" % place, exchange="sales", key="eu.berlin")
    assert [client.depth("q") for client in found.clients] == [1, 1, 0]
    assert first.purge("q") == 1
    assert [client.depth("q") for client in found.clients] == [0, 1, 0]
    first.delete("q")
    assert refused(first, "depth", "q") == "404 NOT_FOUND - no queue 'q' in vhost '/'"
    assert second.bodies("q") == [b"1"]
    found.publish(first, b"lost", exchange="sales", key="eu.berlin")
    found.publish(first, b"lost")
    assert [client.depth("q") for client in (second, third)] == [0, 0]
    first.declare("q", replication="local")
    found.publish(first, b"unbound", exchange="sales", key="eu.berlin")
    assert first.depth("q") == 0


@pytest.mark.requirement("D20.2")
def test_a_node_without_a_part_has_no_such_queue() -> None:
    site = Site(*NAMES)
    site.client("n1").declare("q", replication="local")
    client = site.client("n2")
    assert refused(client, "consume", "q") == "404 NOT_FOUND - no queue 'q' in vhost '/'"
    assert client.confirms(client.publish("q", b"lost")) == [True]
    assert site.client("n1").depth("q") == 0


@pytest.mark.requirement("D20.2")
def test_the_part_of_a_node_has_a_name_at_every_node() -> None:
    """So what is left of a node that is drained, or removed, can be taken."""
    found = Locals()
    first, second, _ = found.clients
    found.publish(first, b"one", b"two")
    assert second.declare("q@n1", replication="local").message_count == 2
    assert second.bodies("q@n1") == [b"one", b"two"]
    found.site.submit("n1", "found_members", {"nodes": {name: {"peers": name} for name in NAMES}})
    found.publish(first, b"left")
    found.site.submit("n2", "drain_member", {"name": "n1"})
    found.site.until(lambda: "n1" not in replicas_of(found.site, "q@n1"))
    # Its clients still use the part, wherever that is.
    found.publish(first, b"last")
    assert first.depth("q") == 2
    assert second.bodies("q@n1") == [b"left", b"last"]
    assert second.depth("q") == 0


@pytest.mark.requirement("D20.2")
def test_dead_letters_go_to_the_part_of_the_owners_node() -> None:
    found = Locals()
    first, second, third = found.clients
    second.declare("work", queue_type="classic", dead_letter_exchange="", dead_letter_routing_key="q")
    found.publish(first, b"dead", key="work")
    message = first.get("work", no_ack=False)
    assert message is not None
    first.reject(message, requeue=False)
    found.site.until(lambda: second.depth("q"))
    assert [first.depth("q"), third.depth("q")] == [0, 0]


@pytest.mark.requirement("D20.2")
def test_a_name_is_that_of_a_local_queue_or_of_another_one() -> None:
    site = Site(*NAMES)
    first, second = site.client("n1"), site.client("n2")
    first.declare("q", replication="local")
    told = "406 PRECONDITION_FAILED - inequivalent arg 'x-replication' for queue 'q"
    assert refused(first, "declare", "q").startswith(told)
    assert refused(second, "declare", "q").startswith(told)
    second.declare("r")
    for client in (first, second):
        assert refused(client, "declare", "r", replication="local").startswith(
            "406 PRECONDITION_FAILED - inequivalent arg 'x-replication' for queue 'r'"
        )
    first.delete("q")
    second.declare("q")


@pytest.mark.requirement("D20.2")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            {"replication": "everywhere"},
            "invalid arg 'x-replication' for queue 'q' in vhost '/': invalid_replic",
        ),
        (
            {"replication": "local", "queue_type": "quorum"},
            "a local queue is on one node, and no queue of type",
        ),
        ({"replication": "local", "exclusive": True}, "a local queue is for all clients of its node"),
        ({"replication": "local", "domain": "east"}, "no queue has both x-replication and x-domain"),
        ({"replication": "local", "initial_owner": "n1"}, "no queue has both x-replication and x-initial"),
        ({"replication": "local", "history": "1D"}, "no queue has both x-replication and x-history"),
        ({"replication": "local", "queue_type": "stream"}, "invalid arg 'x-replication' for queue 'q"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], told: str) -> None:
    closed = refused(Site(*NAMES).client("n1"), "declare", "q", **arguments)
    assert closed.startswith("406 PRECONDITION_FAILED - ") and told in closed


@pytest.mark.requirement("D20.2")
def test_no_policy_takes_a_part_from_its_node() -> None:
    site = Site(*NAMES)
    policy = {
        "name": "p", "pattern": "^q", "apply_to": "queues", "priority": 0,
        "definition": {"queue-leader-locator": "balanced", "initial-owner": "n2", "max-length": 1},
    }  # fmt: skip
    site.submit("n1", "put_policy", {"vhost": "/", "operator": False, "policy": policy})
    client = site.client("n3")
    client.declare("q", replication="local")
    assert replicas_of(site, "q@n3") == ("n3",)
    assert all(client.confirms(client.publish("q", b"one", b"two")))
    assert client.bodies("q") == [b"two"]


def test_a_queue_with_the_argument_from_an_earlier_release_is_no_part() -> None:
    """Earlier releases took arguments that they did not know."""
    catalog = Catalog()
    catalog.do(
        "declare_queue", vhost="/", name="old", replicas=["n1"], transient=False, durable=True,
        exclusive=False, auto_delete=False, arguments={"x-replication": "local"}, semantics=1, front_end=0,
        holder=0,
    )  # fmt: skip
    parts = catalog.copied().parts
    assert parts.routed("/", {"old"}, "n2") == {"old"}
    assert not parts.by_name


def test_no_client_declares_a_part_by_the_name_of_the_part() -> None:
    """A user with the right to that name alone would get messages for another name."""
    site = Site(*NAMES)
    client = site.client("n1")
    for name in ("q@n1", "q@n2"):
        told = refused(client, "declare", name, replication="local")
        assert told.startswith(f"406 PRECONDITION_FAILED - cannot declare queue '{name}'")
        assert told.endswith(f"declare 'q' at node '{name[2:]}'")
    client.declare("q", replication="local")
    assert client.declare("q@n1", replication="local").queue == "q@n1"
    client.declare("mail@example", replication="local")
    assert replicas_of(site, "mail@example@n1") == ("n1",)
