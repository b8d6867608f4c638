"""Discarded messages go where their queue's dead-letter exchange routes them (A24)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.owner.dead_letters import TRANSFERS_UNDER_WAY
from node.wire.amqp091 import methods as m
from node.wire.amqp091.fields import MAX_FIELDS
from tests.cluster.kinds import client, declared
from tests.cluster.test_leases import leader_of, reset
from tests.inside import machine_of
from tests.site import Client, Delivery, Site

__all__ = ["client", "declared"]

MODES = pytest.mark.parametrize("mode", [1, 2])

GRAVES: dict[str, dict[str, Any]] = {
    "same partition": {},
    "classic": {"queue_type": "classic"},
    "transient": {"durable": False},
}


@pytest.fixture(params=GRAVES)
def grave(request: pytest.FixtureRequest, client: Client) -> str:
    """A queue for dead letters: in the partition of a replicated queue, or in another one."""
    return client.declare("grave", **GRAVES[request.param]).queue


def wait_for(client: Client, queue: str, count: int) -> list[Delivery]:
    """Wait for `count` messages in a queue, and check that no more come."""
    client.site.until(lambda: client.depth(queue) >= count)
    client.site.run(0.1)
    found = client.drain(queue)
    assert len(found) == count
    return found


def dying(declared: Any, **arguments: Any) -> str:
    return str(declared(dead_letter_exchange="", dead_letter_routing_key="grave", **arguments))


@pytest.mark.requirement("A24.8", "A24.9", "A24.10")
@MODES
def test_rejected_messages_are_dead_letters(client: Client, declared: Any, grave: str, mode: int) -> None:
    queue = dying(declared)
    client.confirms(client.publish(queue, b"a", b"b", b"c", delivery_mode=mode, headers={"n": 1}))
    client.consume(queue, prefetch=3)
    client.site.until(lambda: len(client.deliveries) == 3)
    client.nack(client.deliveries[0], requeue=False)
    client.send(m.BasicReject(client.deliveries[2].method.delivery_tag, False))
    client.ack(client.deliveries[1])
    found = wait_for(client, grave, 2)
    assert [one.body for one in found] == [b"a", b"c"]
    (death,) = found[0].headers["x-death"]
    assert death.pop("time").timestamp() > 1_700_000_000
    assert death == {
        "count": 1, "reason": "rejected", "queue": queue, "exchange": "", "routing-keys": [queue],
    }  # fmt: skip
    headers = found[0].headers
    assert (headers["n"], headers["x-first-death-reason"], headers["x-first-death-queue"]) == (
        1,
        "rejected",
        queue,
    )
    assert (found[0].method.exchange, found[0].method.routing_key) == ("", "grave")
    assert found[0].properties.delivery_mode == mode
    assert client.depth(queue) == 0


@pytest.mark.requirement("A24.1", "A24.8", "A24.10")
@MODES
def test_expired_messages_are_dead_letters(client: Client, declared: Any, grave: str, mode: int) -> None:
    queue = dying(declared, message_ttl=100)
    client.publish(queue, b"a", delivery_mode=mode)
    client.confirms(client.publish(queue, b"b", expiration="30", delivery_mode=mode))
    found = wait_for(client, grave, 2)
    assert [one.body for one in found] == [b"b", b"a"]
    assert found[0].properties.expiration is None
    assert found[0].headers["x-death"][0]["original-expiration"] == "30"
    assert found[1].headers["x-death"][0]["reason"] == "expired"
    assert "original-expiration" not in found[1].headers["x-death"][0]


@pytest.mark.requirement("A24.3", "A24.8", "A24.10")
@MODES
def test_what_is_too_much_is_a_dead_letter(client: Client, declared: Any, grave: str, mode: int) -> None:
    queue = dying(declared, max_length=1)
    client.confirms(client.publish(queue, b"a", b"b", b"c", delivery_mode=mode))
    found = wait_for(client, grave, 2)
    assert [one.body for one in found] == [b"a", b"b"]
    assert {one.headers["x-death"][0]["reason"] for one in found} == {"maxlen"}
    assert client.bodies(queue) == [b"c"]


@pytest.mark.requirement("A24.7", "A24.8", "A24.10")
@MODES
def test_what_is_refused_may_be_a_dead_letter(client: Client, declared: Any, grave: str, mode: int) -> None:
    queue = dying(declared, max_length=1, overflow="reject-publish-dlx")
    assert client.confirms(client.publish(queue, b"a", b"b", b"c", delivery_mode=mode)) == [
        True,
        False,
        False,
    ]
    found = wait_for(client, grave, 2)
    assert [one.body for one in found] == [b"b", b"c"]
    assert {one.headers["x-death"][0]["reason"] for one in found} == {"maxlen"}
    assert client.bodies(queue) == [b"a"]


@pytest.mark.requirement("A24.8", "A24.10")
def test_without_a_key_the_keys_that_it_came_with_count(client: Client, declared: Any) -> None:
    client.declare_exchange("dlx", "direct")
    queue = declared(dead_letter_exchange="dlx", max_length=0)
    for name in ("one", "two"):
        client.declare(name)
    client.bind("one", "dlx", queue)
    client.bind("two", "dlx", "other")
    client.confirms(client.publish(queue, b"a"))
    (found,) = wait_for(client, "one", 1)
    assert (found.method.exchange, found.method.routing_key) == ("dlx", queue)
    client.confirms(client.publish(queue, b"b", headers={"CC": ["other"]}))
    (found,) = wait_for(client, "two", 1)
    assert found.headers["x-death"][0]["routing-keys"] == [queue, "other"]
    assert found.headers["CC"] == ["other"]


@pytest.mark.requirement("A24.9")
def test_a_key_of_the_queue_makes_the_copies_count_no_more(client: Client, declared: Any, grave: str) -> None:
    client.declare("other")
    queue = dying(declared, max_length=0)
    client.confirms(client.publish(queue, b"a", headers={"CC": ["unknown"]}))
    (found,) = wait_for(client, grave, 1)
    assert "CC" not in found.headers


@pytest.mark.requirement("A24.8")
def test_a_headers_exchange_sees_the_death(client: Client, declared: Any, grave: str) -> None:
    queue = declared(dead_letter_exchange="amq.match", max_length=0)
    client.call(
        m.QueueBind(grave, "amq.match", "", arguments={"x-first-death-reason": "maxlen", "n": 1}),
        m.QueueBindOk,
    )
    client.confirms(client.publish(queue, b"a", b"b", headers={"n": 1}))
    client.confirms(client.publish(queue, b"c", headers={"n": 2}))
    assert [one.body for one in wait_for(client, grave, 2)] == [b"a", b"b"]


@pytest.mark.parametrize("exchange", ["nowhere", "amq.direct"])
def test_what_leads_nowhere_is_gone(client: Client, declared: Any, exchange: str) -> None:
    queue = declared(dead_letter_exchange=exchange, max_length=0)
    client.confirms(client.publish(queue, b"a"))
    client.site.run(0.1)
    assert client.depth(queue) == 0
    owner = next(one for one in client.node.broker.owners.values() if one.queues)
    assert all(not state.alive for state in machine_of(owner).queues.values())


@pytest.mark.requirement("A24.8")
def test_a_dead_letter_may_go_to_several_queues_in_several_partitions(client: Client, declared: Any) -> None:
    queue = declared(dead_letter_exchange="amq.fanout", max_length=0)
    for name, kind in GRAVES.items():
        client.declare(name, **kind)
        client.bind(name, "amq.fanout")
    client.confirms(client.publish(queue, b"a", b"b"))
    for name in GRAVES:
        assert [one.body for one in wait_for(client, name, 2)] == [b"a", b"b"]


@pytest.mark.requirement("A24.10")
def test_deaths_in_several_queues_are_counted(client: Client, grave: str) -> None:
    """A queue to work on and a queue to wait in: a rejected message goes round between them."""
    client.declare("work", dead_letter_exchange="", dead_letter_routing_key="pause")
    client.declare("pause", message_ttl=20, dead_letter_exchange="", dead_letter_routing_key="work")
    client.confirms(client.publish("work", b"a"))
    client.consume("work", prefetch=1)
    for round_ in range(3):
        client.site.until(lambda count=round_ + 1: len(client.deliveries) == count)
        client.nack(client.deliveries[-1], requeue=False)
    client.site.until(lambda: len(client.deliveries) == 4)
    deaths = client.deliveries[-1].headers["x-death"]
    assert [(one["queue"], one["reason"], one["count"]) for one in deaths] == [
        ("pause", "expired", 3), ("work", "rejected", 3),
    ]  # fmt: skip


def test_a_cycle_without_a_rejection_ends(client: Client) -> None:
    client.declare("a", message_ttl=20, dead_letter_exchange="", dead_letter_routing_key="b")
    client.declare("b", message_ttl=20, dead_letter_exchange="", dead_letter_routing_key="a")
    client.confirms(client.publish("a", b"x"))
    client.site.run(1.0)
    assert client.depth("a") == client.depth("b") == 0


def test_limits_of_the_grave_count(client: Client, declared: Any) -> None:
    client.declare("grave", max_length=2)
    queue = dying(declared, max_length=0)
    client.confirms(client.publish(queue, b"a", b"b", b"c"))
    assert [one.body for one in wait_for(client, "grave", 2)] == [b"b", b"c"]
    client.declare("full", max_length=1, overflow="reject-publish")
    other = client.declare(
        "other", max_length=0, dead_letter_exchange="", dead_letter_routing_key="full"
    ).queue
    client.confirms(client.publish(other, b"a", b"b"))
    assert [one.body for one in wait_for(client, "full", 1)] == [b"a"]


@pytest.mark.requirement("A24.8")
def test_large_numbers_of_dead_letters_come_in_order() -> None:
    client = Site("n1").client("n1")
    client.declare("grave", queue_type="classic")
    client.declare("q", message_ttl=400, dead_letter_exchange="", dead_letter_routing_key="grave")
    bodies = [b"%d" % n + bytes(500) for n in range(3000)]
    for at in range(0, 3000, 100):
        client.publish("q", *bodies[at : at + 100])
    client.site.until(lambda: client.depth("grave") == 3000)
    client.consume("grave", no_ack=True)
    client.site.until(lambda: len(client.deliveries) == 3000)
    assert [one.body for one in client.deliveries] == bodies


def test_transient_dead_letters_for_a_node_that_is_down_take_no_memory() -> None:
    site = Site("n1", "n2", "n3")
    there, client = site.client("n3"), site.client("n1")
    there.declare("grave", queue_type="classic")
    client.declare("q", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="grave")
    partition = client.node.broker.catalog.state.queues["/", "grave"].partition
    site.nodes["n3"].stop(power=False)
    link = client.node.broker.links.to(partition)
    site.until(lambda: link.unreachable)
    client.publish("q", *[b"m" * 100] * 100, delivery_mode=1)
    site.run(0.5)
    assert client.depth("q") == 0
    assert link.unacknowledged_bytes == 0


def test_dead_letters_that_cannot_be_moved_do_not_hold_up_others() -> None:
    site = Site("n1", "n2", "n3")
    there, client = site.client("n3"), site.client("n1")
    there.declare("far", queue_type="classic")
    client.declare("near", queue_type="classic")
    for queue, grave in (("a", "far"), ("b", "near")):
        client.declare(queue, dead_letter_exchange="", dead_letter_routing_key=grave)
    site.nodes["n3"].stop(power=False)
    for _ in range(TRANSFERS_UNDER_WAY + 10):
        client.confirms(client.publish("a", b"a", expiration="1"))
        site.run(0.05)
    client.confirms(client.publish("b", b"b", expiration="1"))
    assert [one.body for one in wait_for(client, "near", 1)] == [b"b"]
    transfers = sum(
        len(machine_of(owner).transfers.to(partition))
        for owner in site.nodes["n1"].broker.owners.values()
        for partition in machine_of(owner).transfers.partitions()
    )
    assert TRANSFERS_UNDER_WAY <= transfers <= TRANSFERS_UNDER_WAY + 2
    site.nodes["n3"].start()
    site.until(lambda: site.nodes["n3"].ready)
    site.run(1.0)
    wait_for(client, "far", TRANSFERS_UNDER_WAY + 10)


def test_dead_letters_for_memory_that_is_lost_do_not_hold_up_later_ones() -> None:
    site = Site("n1", "n2", "n3")
    there, client = site.client("n3"), site.client("n1")
    there.declare("grave", durable=False)
    client.declare("q", dead_letter_exchange="", dead_letter_routing_key="grave")
    client.publish("q", *[b"old"] * (TRANSFERS_UNDER_WAY + 10))
    tag = client.consume("q")
    site.until(lambda: len(client.deliveries) == TRANSFERS_UNDER_WAY + 10)
    site.nodes["n3"].stop(power=False)
    for delivery in client.deliveries:
        client.nack(delivery, requeue=False)
        site.run(0.008)
    client.cancel(tag)
    site.nodes["n3"].start()
    site.until(lambda: site.nodes["n3"].ready)
    client.declare("grave", queue_type="classic")
    site.run(3.0)
    client.drain("grave")
    client.confirms(client.publish("q", b"new", expiration="1"))
    assert [one.body for one in wait_for(client, "grave", 1)] == [b"new"]


@MODES
def test_a_dead_letter_may_have_more_headers_than_a_client_may_send(
    client: Client, declared: Any, grave: str, mode: int
) -> None:
    queue = dying(declared, message_ttl=100)
    headers = {f"k{number}": number for number in range(MAX_FIELDS)}
    client.confirms(client.publish(queue, b"a", delivery_mode=mode, headers=headers))
    (found,) = wait_for(client, grave, 1)
    assert found.headers.items() >= headers.items()
    assert found.headers["x-death"][0]["reason"] == "expired"


@pytest.mark.requirement("A24.8", "A16.3")
def test_an_owner_whose_catalog_is_behind_routes_no_dead_letter() -> None:
    """The owner reaches a majority for its queue, and not the leader of the catalog, which has a binding by
    then that a client has been told of.
    """
    site = Site("n1", "n2", "n3")
    leader = leader_of(site)
    at_owner, other = (name for name in site.nodes if name != leader)
    client = site.client(at_owner)
    client.declare("q", dead_letter_exchange="late")
    assert client.confirms(client.publish("q", b"1")) == [True]
    beside = site.client(other)
    beside.consume("q", prefetch=1)
    site.until(lambda: beside.deliveries)
    mend = reset(site, [(at_owner, leader), (leader, at_owner)])
    beside.declare_exchange("late", "fanout")
    beside.declare("grave")
    beside.bind("grave", "late")
    beside.nack(beside.deliveries[0], requeue=False)
    site.run(1.0)
    mend()
    assert [one.body for one in wait_for(beside, "grave", 1)] == [b"1"]


@pytest.mark.requirement("A24.8", "D2.2")
@pytest.mark.parametrize("later", [False, True])
def test_a_new_owner_sends_the_dead_letters_that_its_predecessor_could_not_send(later: bool) -> None:
    """`later`: another message dies before the first has arrived."""
    site = Site("n1", "n2", "n3", "n4", "n5")
    client = site.client("n1")
    dying = client.declare("q", dead_letter_exchange="", dead_letter_routing_key="grave", max_length=1).queue
    away = site.client("n5")
    away.declare("grave")
    mend = reset(site, [("n1", "n5"), ("n5", "n1")])
    assert all(client.confirms(client.publish(dying, b"1", b"2")))
    site.run(0.1)
    site.nodes["n1"].stop(power=True)
    beside = site.client("n5")
    if later:
        assert all(beside.confirms(beside.publish(dying, b"3")))
    mend()
    assert [one.body for one in wait_for(beside, "grave", 1 + later)] == [b"1", b"2"][: 1 + later]


def test_a_partition_that_the_catalog_does_not_show_yet_is_not_gone() -> None:
    """Another node may have created it, and may have published to it."""
    broker = Site("n1").nodes["n1"].broker
    state = broker.catalog.state
    known = min(state.partitions)
    assert not broker.transit.gone(known) and not broker.transit.gone(state.table.last + 1)
    del state.partitions[known]
    assert broker.transit.gone(known)


@pytest.mark.requirement("A24.8")
def test_a_lost_greeting_of_a_partition_that_sends_dead_letters_is_sent_again() -> None:
    site = Site("n1", "n2", "n3")
    there, client = site.client("n3"), site.client("n1")
    there.declare("grave", queue_type="classic")
    client.declare("q", dead_letter_exchange="", dead_letter_routing_key="grave")
    transit, lost = client.node.broker.transit, list[Any]()
    send, losing = transit._send, True

    def lose(peer: str, parts: Any) -> None:
        if losing:
            lost.append(parts)
        else:
            send(peer, parts)

    transit._send = lose
    client.confirms(client.publish("q", b"1", expiration="1"))
    site.until(lambda: len(lost) > 1)
    losing = False
    there.node.input(lambda: there.node.broker.peer_gap("n1", there.node.clock()))
    assert [one.body for one in wait_for(there, "grave", 1)] == [b"1"]
