"""Queues with several owners: each owner has a part, and lends messages to the others (requirement D20)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from cluster.catalog.definitions import QueueDefinition
from cluster.gateway.browsing import BEGINNING
from cluster.owner.partition import PartitionOwner
from node.queue.features.several_owners import OF_ONE_PLACE
from node.wire.amqp091 import methods as m
from tests.cluster.lives import chain, numbers, told
from tests.cluster.test_browsing import bodies, look_at
from tests.cluster.test_domains import refused
from tests.cluster.test_entitlements import entitle
from tests.cluster.test_placement import owner_of
from tests.cluster.test_subscription_filters import numbered
from tests.inside import askers_of
from tests.site import Client, Delivery, Site

NAMES = ("n1", "n2", "n3")


class Shared:
    """A client at each of three nodes, and a queue with three owners, or less: node i owns part i."""

    def __init__(self, owners: int = 3, **arguments: Any) -> None:
        self.site = Site(*NAMES)
        self.clients = [self.site.client(name) for name in NAMES]
        self.clients[0].declare("q", owners=owners, **arguments)

    def publish(self, client: Client, *bodies: bytes, **properties: Any) -> None:
        assert all(client.confirms(client.publish("q", *bodies, **properties)))

    def parts(self) -> list[QueueDefinition]:
        state = self.site.nodes["n3"].broker.catalog.state
        return state.owner_parts.of(state.queues["/", "q"])

    def owner(self, part: int) -> PartitionOwner | None:
        """The owner of a part, while there is one."""
        partition = self.parts()[part].partition
        owners = [node.broker.owners.get(partition) for node in self.site.nodes.values() if node.up]
        return next((one for one in owners if one is not None and one.active), None)

    def ready(self) -> list[int]:
        """The messages that wait in each part."""
        found = [self.owner(part) for part in range(len(self.parts()))]
        owned = [one and one.queues.get(part.id) for one, part in zip(found, self.parts(), strict=True)]
        return [0 if one is None else len(one.delivery.ready) for one in owned]

    def asked(self, part: int) -> list[int]:
        """The nodes whose owners wait for messages of a part, by their numbers from 1 on."""
        owner = self.owner(part)
        asking = [] if owner is None else askers_of(owner, self.parts()[part].id)
        return [number for number, each in enumerate(self.parts(), 1) if each.id in asking]

    def under_way(self, part: int) -> bool:
        """Whether the log of a part has a loan that is not known to have arrived."""
        owner = self.owner(part)
        return owner is not None and bool(owner.machine.transfers.partitions())


def acknowledge(client: Client, settled: list[Delivery]) -> None:
    """Acknowledge the deliveries that are not settled yet."""
    for delivery in client.deliveries[len(settled) :]:
        client.ack(delivery)
        settled.append(delivery)


def delivered_once(*clients: Client) -> set[bytes]:
    """The bodies that clients have got: each once without the mark that it may have been delivered before."""
    found = [one for client in clients for one in client.deliveries]
    first = Counter(one.body for one in found if not one.method.redelivered)
    assert all(count == 1 for count in first.values()), first
    return {one.body for one in found}


def test_each_node_owns_a_part_and_gets_the_publishes_of_its_clients() -> None:
    found = Shared()
    first, second, third = found.clients
    assert [one.name for one in found.parts()] == ["q", "amq.part-2.q", "amq.part-3.q"]
    assert [owner_of(found.site, "n1", one.name) for one in found.parts()] == list(NAMES)
    for client in found.clients:
        found.publish(client, b"a", b"b", delivery_mode=1)
    assert found.ready() == [2, 2, 2]
    assert second.declare("q", owners=3).message_count == 6
    assert refused(first, "declare", "q", owners=2).startswith("406")
    assert refused(first, "depth", "amq.part-2.q").startswith("404")
    assert first.confirms(first.publish("amq.part-2.q", b"lost")) == [True]
    assert third.purge("q") == 6
    second.delete("q")
    assert refused(first, "depth", "q").startswith("404")
    assert not found.site.nodes["n2"].broker.catalog.state.owner_parts.by_name
    assert not [one for one in found.site.nodes["n2"].broker.catalog.state.queues if "part" in one[1]]


@pytest.mark.requirement("D20.7")
def test_other_owners_get_messages_when_the_consumers_of_their_own_are_full() -> None:
    found = Shared()
    first, second, third = found.clients
    second.consume("q", prefetch=2)
    first.consume("q", prefetch=3)
    found.publish(first, b"1", b"2", b"3")
    found.site.run(0.5)
    assert [one.body for one in first.deliveries] == [b"1", b"2", b"3"]
    assert not second.deliveries
    found.publish(first, b"4", b"5", b"6", b"7")
    found.site.run(0.5)
    assert [one.body for one in second.deliveries] == [b"4", b"5"]
    assert found.ready() == [2, 0, 0]
    first.ack(first.deliveries[0])
    found.site.run(0.5)
    assert [one.body for one in first.deliveries[3:]] == [b"6"]
    settled: list[list[Delivery]] = [first.deliveries[:1], []]
    for _ in range(4):
        acknowledge(first, settled[0])
        acknowledge(second, settled[1])
        found.site.run(0.2)
    assert len(delivered_once(first, second)) == 7
    assert third.depth("q") == 0


@pytest.mark.requirement("D20.7", "D20.8")
@pytest.mark.parametrize("lost", ["n1", "n2"])
@pytest.mark.parametrize("moment", range(3))
def test_no_message_is_lost_or_doubled_when_an_owner_is_killed_in_a_loan(lost: str, moment: int) -> None:
    """`n1` lends, and `n2` borrows. The kill comes at some moment of the loan."""
    found = Shared()
    first, second, third = found.clients
    bodies = [b"%d" % number for number in range(60)]
    found.publish(first, *bodies)
    second.consume("q", prefetch=20)
    found.site.until(lambda: found.under_way(0), step_s=0.0005)
    found.site.run(0.001 * moment)
    found.site.nodes[lost].stop(power=True)
    found.site.run(5.0)
    consumers = [second, third] if lost == "n1" else [third]
    third.consume("q", prefetch=20)
    settled: list[list[Delivery]] = [[] for _ in consumers]
    for _ in range(20):
        for client, of_client in zip(consumers, settled, strict=True):
            acknowledge(client, of_client)
        found.site.run(0.2)
    assert delivered_once(second, third) == set(bodies)
    acknowledged = Counter(one.body for of_client in settled for one in of_client)
    assert acknowledged == Counter(bodies)
    assert third.depth("q") == 0


@pytest.mark.requirement("D20.7")
@pytest.mark.parametrize("how", ["cancelled", "lost", "back", "at another owner"])
def test_a_question_for_a_loan_is_taken_back_when_the_consumers_have_left(how: str) -> None:
    found = Shared()
    first, second, third = found.clients
    tag = second.consume("q", prefetch=5)
    found.site.run(0.5)
    assert found.asked(0) == [2]
    if how == "lost":
        found.site.nodes["n2"].stop(power=True)
        found.site.until(lambda: found.owner(1))
        found.site.run(5.0)
    else:
        second.call(m.BasicCancel(tag), m.BasicCancelOk)
        found.site.run(0.5)
    assert found.asked(0) == []
    if how == "back":
        second.consume("q", prefetch=2)
    elif how == "at another owner":
        third.consume("q", prefetch=2)
    found.site.run(0.5)
    found.publish(first, b"1", b"2", b"3")
    found.site.run(0.5)
    back = second if how == "back" else third
    taken = 2 if how in ("back", "at another owner") else 0
    assert [one.body for one in back.deliveries] == [b"1", b"2"][:taken]
    assert found.ready()[0] == 3 - taken
    assert sum(found.ready()[1:]) == 0


def test_a_node_without_a_part_uses_the_next_one_whose_owner_is_known() -> None:
    found = Shared(owners=2)
    third = found.clients[2]
    found.publish(third, b"a")
    assert found.ready() == [1, 0]
    found.site.nodes["n1"].stop(power=True)
    assert third.confirms(third.publish("q", b"b")) == [True]
    found.site.until(lambda: found.owner(0))
    found.publish(third, b"c")
    assert third.depth("q") == 3
    assert sorted(third.bodies("q")) == [b"a", b"b", b"c"]


def test_a_loan_keeps_failures_and_the_time_of_expiry() -> None:
    found = Shared(message_ttl=20_000, delivery_limit=2)
    first, second, third = found.clients
    found.publish(first, b"a")
    got = first.get("q", no_ack=False)
    assert got is not None
    first.reject(got, requeue=True)
    found.site.run(10.0)
    second.consume("q")
    found.site.until(lambda: second.deliveries)
    (delivery,) = second.deliveries
    assert delivery.method.redelivered
    assert delivery.headers["x-delivery-count"] == 1
    second.disconnect()
    found.site.run(5.0)
    assert third.depth("q") == 1
    found.site.run(6.0)
    assert third.depth("q") == 0


def test_the_life_of_a_lent_message_goes_on_at_the_borrower() -> None:
    found = Shared()
    first, second, _ = found.clients
    found.publish(first, b"a")
    (number,) = numbers(found.site, "q")
    second.consume("q")
    found.site.until(lambda: second.deliveries)
    second.ack(second.deliveries[0])
    found.site.run(0.5)
    lives = chain(found.site, "n3", "q", number)
    assert [told(found.site, life) for life in lives] == [
        ["published", "leaving", "moved"], ["published", "settled"],
    ]  # fmt: skip


def test_a_get_finds_the_message_in_whichever_part_it_is() -> None:
    found = Shared()
    first, _, third = found.clients
    found.publish(first, b"a", b"b")
    assert third.bodies("q") == [b"a", b"b"]


def test_limits_are_divided_and_the_rest_of_the_policies_apply_to_each_part() -> None:
    found = Shared(max_length=6, dead_letter_exchange="", dead_letter_routing_key="grave")
    first, second, _ = found.clients
    first.declare("grave")
    found.publish(first, *(b"%d" % number for number in range(4)))
    found.publish(second, *(b"%d" % number for number in range(4, 8)))
    assert first.depth("q") == 4
    dead: list[Delivery] = []
    found.site.until(lambda: dead.extend(first.drain("grave")) or len(dead) == 4)
    assert {one.headers["x-death"][0]["queue"] for one in dead} == {"q"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"owners": 1},
        {"owners": 17},
        {"owners": 4},
        {"owners": "every-node"},
        {"owners": 2, "group_by": "k"},
        {"owners": 2, "single_active_consumer": True},
        {"owners": 2, "key": "/id"},
        {"owners": 2, "deduplication_window": 1000},
        {"owners": 2, "max_priority": 3},
        {"owners": 2, "priority_expression": "/price"},
        {"owners": 2, "target_queue_depth": 10},
        {"owners": 2, "queue_type": "stream"},
        {"owners": 2, "queue_type": "classic"},
        {"owners": 2, "underlying_topic": "s"},
        {"owners": 2, "history": "1D"},
        {"owners": 2, "replication": "local"},
        {"owners": 2, "expires": 1000},
        {"owners": 2, "durable": False},
        {"owners": 2, "auto_delete": True},
        {"part_of": "r"},
    ],
    ids=str,
)
def test_arguments_that_need_one_owner_are_refused(three: Site, arguments: dict[str, Any]) -> None:
    answer = refused(three.client("n1"), "declare", "r", **arguments)
    assert answer.startswith("406 PRECONDITION_FAILED - ")
    reasons = [why for name, why in OF_ONE_PLACE.items() if name[2:].replace("-", "_") in arguments]
    assert not reasons or reasons[0] in answer
    assert refused(three.client("n1"), "depth", "r").startswith("404")


@pytest.fixture(scope="module")
def three() -> Site:
    return Site(*NAMES)


def test_requests_that_would_need_all_parts_at_a_time_are_refused() -> None:
    client = Shared().clients[1]
    for name, options in (
        ("consume", {"exclusive": True}),
        ("consume", {"arguments": {"x-tell": True}}),
        ("delete", {"if_empty": True}),
    ):
        answer = refused(client, name, "q", **options)
        assert answer.startswith("406 PRECONDITION_FAILED - "), name
        assert "which has several owners: " in answer


@pytest.mark.requirement("D15.1")
def test_one_look_shows_the_messages_of_all_parts() -> None:
    found = Shared()
    for client in found.clients:
        name = client.node.name.encode()
        found.publish(client, name + b"-1", name + b"-2", headers={"at": client.node.name})
    client = found.clients[1]
    everything = [b"n1-1", b"n1-2", b"n2-1", b"n2-2", b"n3-1", b"n3-2"]
    behind, seen = BEGINNING, list[bytes]()
    while page := look_at(client, "q", behind, wanted=1):
        seen += bodies(page)
        behind = page[-1].place
    assert seen == everything
    assert bodies(look_at(client, "q", filter="at = 'n3'")) == everything[4:]
    assert found.ready() == [2, 2, 2]
    found.site.nodes["n1"].stop(power=True)
    found.site.until(lambda: found.owner(0) is not None)
    assert bodies(look_at(client, "q", look_at(client, "q")[-1].place)) == everything[2:4]


@pytest.mark.requirement("D9.3")
def test_a_get_finds_in_any_part_what_its_user_may_read() -> None:
    found = Shared()
    for client in found.clients:
        found.publish(client, *numbered(1, 2))
    entitle(found.site, read_filter="/n = 2")
    got = [found.clients[2].get("q", no_ack=True) for _ in range(4)]
    assert [one and one.body for one in got] == [*numbered(2, 2, 2), None]
    assert found.ready() == [1, 1, 1]


def test_no_limit_drops_messages_for_which_another_owner_has_room() -> None:
    found = Shared(max_length=3)
    first, second, _ = found.clients
    second.consume("q", prefetch=10)
    found.site.run(0.5)
    bodies = [b"%d" % number for number in range(10)]
    found.publish(first, *bodies)
    found.site.until(lambda: len(second.deliveries) == 10)
    assert [one.body for one in second.deliveries] == bodies
