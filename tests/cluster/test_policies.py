"""Settings of policies count like arguments of queues and exchanges, as soon as the policy is set (A24)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cluster.catalog.effective import applied_to_queue, settings_of
from cluster.catalog.policies import ResourceKind
from tests.cluster.kinds import KINDS, client, declare, declared
from tests.cluster.test_leases import leader_of, reset
from tests.site import Client, Site

__all__ = ["client", "declared"]

MODES = pytest.mark.parametrize("mode", [1, 2])


def put(client: Client, name: str = "p", pattern: str = ".*", **fields: Any) -> None:
    """Set a policy. Fields are `apply_to`, `priority`, `operator`, and the definition with underscores for
    hyphens.
    """
    operator = fields.pop("operator", False)
    policy = {
        "name": name, "pattern": pattern, "apply_to": fields.pop("apply_to", "queues"),
        "priority": fields.pop("priority", 0),
        "definition": {key.replace("_", "-"): value for key, value in fields.items()},
    }  # fmt: skip
    client.site.submit(client.node.name, "put_policy", {"vhost": "/", "operator": operator, "policy": policy})


def drop(client: Client, name: str = "p", *, operator: bool = False) -> None:
    client.site.submit(client.node.name, "delete_policy", {"vhost": "/", "operator": operator, "name": name})


def publish(client: Client, queue: str, *bodies: bytes, **properties: Any) -> list[bool]:
    return client.confirms(client.publish(queue, *bodies, **properties))


@MODES
def test_a_queue_that_comes_later_has_its_policies(client: Client, declared: Any, mode: int) -> None:
    put(client, max_length=1)
    queue = declared()
    publish(client, queue, b"a", b"b", delivery_mode=mode)
    assert client.bodies(queue) == [b"b"]


@MODES
def test_a_limit_on_messages_counts_at_once(client: Client, declared: Any, mode: int) -> None:
    queue = declared()
    publish(client, queue, b"a", b"b", b"c", delivery_mode=mode)
    put(client, max_length=2)
    client.site.until(lambda: client.depth(queue) == 2)
    put(client, max_length=1, overflow="reject-publish")
    assert publish(client, queue, b"d", delivery_mode=mode) == [False]
    drop(client)
    assert publish(client, queue, b"e", delivery_mode=mode) == [True]
    assert client.bodies(queue) == [b"b", b"c", b"e"]


@MODES
def test_a_limit_on_octets_counts_messages_that_were_there(client: Client, declared: Any, mode: int) -> None:
    queue = declared()
    publish(client, queue, bytes(50), bytes(60), bytes(70), delivery_mode=mode)
    publish(client, queue, *[bytes(1)] * 5000, delivery_mode=mode)
    put(client, max_length_bytes=5075)
    client.site.until(lambda: client.depth(queue) == 5001)
    publish(client, queue, bytes(75), delivery_mode=mode)
    assert client.depth(queue) == 5001
    drop(client)
    publish(client, queue, bytes(9000), delivery_mode=mode)
    put(client, max_length_bytes=9002)
    client.site.until(lambda: client.depth(queue) == 1)


@MODES
def test_messages_that_were_there_live_as_long_as_new_ones(client: Client, declared: Any, mode: int) -> None:
    queue = declared()
    publish(client, queue, b"a", delivery_mode=mode)
    put(client, message_ttl=300)
    publish(client, queue, b"b", delivery_mode=mode)
    client.site.run(0.2)
    assert client.depth(queue) == 2
    client.site.run(0.2)
    assert client.depth(queue) == 0


def test_dead_letters_go_where_a_policy_says(client: Client, declared: Any) -> None:
    client.declare("grave")
    queue = declared(max_length=1)
    put(client, pattern="^(?!grave)", dead_letter_exchange="", dead_letter_routing_key="grave")
    publish(client, queue, b"a", b"b")
    client.site.until(lambda: client.depth("grave") == 1)
    put(
        client,
        pattern="^(?!grave)",
        delivery_limit=0,
        dead_letter_exchange="",
        dead_letter_routing_key="grave",
    )
    client.consume(queue)
    client.site.until(lambda: client.deliveries)
    client.nack(client.deliveries[0], requeue=True)
    client.site.until(lambda: client.depth("grave") == 2)


def test_an_unused_queue_goes_by_a_policy(client: Client, declared: Any) -> None:
    queue = declared()
    put(client, expires=500)
    client.site.run(0.3)
    assert client.depth(queue) == 0
    client.site.run(1.0)
    with pytest.raises(AssertionError, match="404 NOT_FOUND"):
        client.depth(queue)


def test_deduplication_and_backoff_may_be_policies(client: Client, declared: Any) -> None:
    queue = declared()
    put(client, deduplication_window=60_000, redelivery_backoff={"initial": 200})
    publish(client, queue, b"a", b"b", message_id="1")
    client.consume(queue)
    client.site.until(lambda: client.deliveries)
    client.nack(client.deliveries[0], requeue=True)
    client.site.run(0.1)
    assert len(client.deliveries) == 1
    client.site.run(0.2)
    assert [one.body for one in client.deliveries] == [b"a", b"a"]


def test_the_alternate_exchange_of_a_policy_takes_what_leads_nowhere(client: Client) -> None:
    client.declare_exchange("e", "direct")
    client.declare_exchange("own", "direct", **{"alternate-exchange": "amq.direct"})
    client.declare("q")
    client.bind("q", "amq.fanout")
    put(client, pattern="^(e|own|later)$", apply_to="exchanges", alternate_exchange="amq.fanout")
    client.declare_exchange("later", "direct")
    for exchange in ("e", "own", "later"):
        client.confirms(client.publish("k", exchange.encode(), exchange=exchange))
    assert client.bodies("q") == [b"e", b"later"]
    drop(client)
    client.confirms(client.publish("k", b"gone", exchange="e"))
    assert client.bodies("q") == []


@pytest.mark.parametrize(
    ("arguments", "user", "operator", "expected"),
    [
        ({"max_length": 5}, {"max_length": 3}, {}, 3),
        ({"max_length": 3}, {"max_length": 5}, {}, 3),
        ({}, {"max_length": 5}, {"max_length": 4}, 4),
        ({}, {"max_length": 4}, {"max_length": 5}, 4),
        ({"max_length": 2}, {}, {"max_length": 5}, 2),
        ({}, {"message_ttl": 1}, {"max_length": 5}, 5),
    ],
)  # fmt: skip
def test_the_lowest_limit_counts(
    client: Client, arguments: dict[str, Any], user: dict[str, Any], operator: dict[str, Any], expected: int
) -> None:
    if user:
        put(client, **user)
    if operator:
        put(client, operator=True, **operator)
    client.declare("q", **arguments)
    state = client.node.broker.catalog.state
    assert settings_of(state, state.queue("/", "q")).asked.get("max_length") == expected


def test_of_several_policies_the_one_of_highest_priority_applies(client: Client) -> None:
    client.declare("q", dead_letter_exchange="mine")
    put(client, "b", priority=1, max_length=1, dead_letter_exchange="theirs")
    put(client, "a", priority=1, max_length=2, dead_letter_exchange="others")
    put(client, "low", priority=-1, max_length=3, expires=5)
    put(client, "other", "^x", priority=9, max_length=4)
    put(client, "exchanges", apply_to="exchanges", priority=9, alternate_exchange="amq.fanout")
    put(client, "classic", apply_to="classic_queues", priority=9, max_length=5)
    put(client, "bound", operator=True, overflow="reject-publish")
    state = client.node.broker.catalog.state
    queue = state.queue("/", "q")
    assert applied_to_queue(state, queue) == (
        "a", "bound", {"max-length": 2, "dead-letter-exchange": "others", "overflow": "reject-publish"},
    )  # fmt: skip
    settings = settings_of(state, queue)
    asked = settings.asked
    assert (asked["max_length"], asked.get("expires_ms"), asked["dead_letter_exchange"]) == (2, None, "mine")
    drop(client, "a")
    assert applied_to_queue(state, queue).policy == "b"


def test_policies_are_told_apart_by_the_type_of_queue(client: Client) -> None:
    for kind in KINDS:
        if kind != "exclusive":
            client.declare(kind, **KINDS[kind])
    put(client, "c", apply_to="classic_queues", max_length=1)
    put(client, "q", apply_to="quorum_queues", max_length=2)
    state = client.node.broker.catalog.state
    found = {name: applied_to_queue(state, queue).policy for (_, name), queue in state.queues.items()}
    assert found == {"replicated": "q", "classic": "c", "transient": "c"}


def test_a_virtual_host_takes_its_policies_along(client: Client) -> None:
    put(client, max_length=1)
    state = client.node.broker.catalog.state
    client.site.submit("n1", "delete_vhost", {"vhost": "/"})
    client.site.submit("n1", "declare_vhost", {"vhost": "/"})
    assert state.policies.in_vhost("/", operator=False) == {}


def test_a_policy_counts_on_every_node_and_for_the_next_owner() -> None:
    site = Site("n1", "n2", "n3")
    client, other = site.client("n1"), site.client("n2")
    declare(client, "replicated")
    put(other, max_length_bytes=10)
    client.confirms(client.publish("q", bytes(4), bytes(5), bytes(6)))
    assert client.depth("q") == 1
    site.nodes["n1"].stop(power=False)
    other.confirms(other.publish("q", bytes(5)))
    assert other.depth("q") == 1
    put(other, max_length=0)
    site.until(lambda: other.depth("q") == 0)


def test_policies_are_in_snapshots(client: Client) -> None:
    put(client, "p", "^a", max_length=1)
    put(client, "o", operator=True, max_length=2)
    client.declare_exchange("amq", "direct")
    put(client, "e", apply_to="exchanges", alternate_exchange="amq.fanout")
    state = client.node.broker.catalog.state
    before = state.snapshot()
    state.restore(before)
    assert state.snapshot() == before
    assert state.policies.applied("/", ResourceKind.CLASSIC_QUEUE, "ab") == ("p", "o", {"max-length": 1})
    assert state.vhosts["/"].exchanges.get("amq").alternate is None


def cut_off_owner(**definition: Any) -> tuple[Client, Callable[[], None]]:
    """A client beside the owner of a queue with a policy. The owner reaches a majority for the queue, and not
    the leader of the catalog. The second result mends that.
    """
    site = Site("n1", "n2", "n3")
    leader = leader_of(site)
    at_owner, other = (name for name in site.nodes if name != leader)
    declare(site.client(at_owner), "replicated")
    beside = site.client(other)
    put(beside, **definition)
    return beside, reset(site, [(at_owner, leader), (leader, at_owner)])


@pytest.mark.requirement("A16.3")
def test_an_owner_whose_catalog_is_behind_drops_nothing_over_a_limit() -> None:
    """A client has been told that the limit is gone."""
    beside, mend = cut_off_owner(max_length=1)
    drop(beside)
    assert all(publish(beside, "q", b"1", b"2", b"3"))
    beside.site.run(0.5)
    mend()
    beside.site.run(3.0)
    assert beside.bodies("q") == [b"1", b"2", b"3"]


@pytest.mark.requirement("A16.3")
def test_an_owner_drops_what_is_over_a_limit_once_its_catalog_is_fresh() -> None:
    beside, mend = cut_off_owner(max_length=1)
    beside.site.run(1.0)
    assert all(publish(beside, "q", b"1", b"2", b"3"))
    mend()
    beside.site.until(lambda: beside.depth("q") == 1)
    assert beside.bodies("q") == [b"3"]


@pytest.mark.requirement("A16.3", "A24.8")
def test_an_owner_whose_catalog_is_behind_keeps_what_may_be_a_dead_letter() -> None:
    """A client has been told that a policy has given the queue a dead-letter exchange."""
    beside, mend = cut_off_owner(max_length=9)
    beside.declare("grave")
    put(beside, pattern="q", dead_letter_exchange="", dead_letter_routing_key="grave")
    assert all(publish(beside, "q", b"1"))
    beside.consume("q", prefetch=1)
    beside.site.until(lambda: beside.deliveries)
    beside.nack(beside.deliveries[0], requeue=False)
    beside.site.run(0.5)
    mend()
    beside.site.until(lambda: beside.depth("grave") == 1)


@pytest.mark.parametrize("mode", [1, 2])
def test_what_an_owner_keeps_as_a_dead_letter_by_mistake_is_gone(mode: int) -> None:
    beside, mend = cut_off_owner(max_length=9)
    assert all(publish(beside, "q", b"1", delivery_mode=mode))
    beside.consume("q", prefetch=1)
    beside.site.until(lambda: beside.deliveries)
    beside.site.run(1.0)
    beside.nack(beside.deliveries[0], requeue=False)
    beside.site.run(0.5)
    mend()
    beside.site.run(3.0)
    assert len(beside.deliveries) == 1
    assert beside.depth("q") == 0
