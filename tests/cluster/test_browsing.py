"""Browsing a queue changes neither its messages nor the queue nor the log, and delivers no message."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from cluster.gateway.browsing import BEGINNING, Bookmark, Shown
from cluster.owner.browsing import PAGE_MESSAGES, PAGE_OCTETS
from cluster.peers.link_messages import NOT_FOUND, NOTHING_TO_GET
from node.expressions.condition import encoded_condition
from node.queue.dispatch import QueueOwner
from node.refusal import Refusal
from tests import messages
from tests.cluster.kinds import KINDS, declare
from tests.inside import machine_of
from tests.site import Client, Site

ARGUMENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "at-most-once": {"semantics": "at-most-once"},
    "priorities": {"max_priority": 5},
    "groups": {"group_by": "routing-key"},
    "single active": {"single_active_consumer": True},
    "limited": {
        "delivery_limit": 1,
        "redelivery_backoff": {"initial": 1000},
        "dead_letter_exchange": "amq.fanout",
    },
    "lives": {"message_ttl": 60_000, "expires": 100_000},
}


@pytest.fixture
def site() -> Site:
    return Site("n1", "n2", "n3")


def look_at(
    client: Client, queue: str, behind: Bookmark = BEGINNING, wanted: int = 100, filter: str = ""
) -> list[Shown]:
    """The messages of a queue that a client's node shows."""
    front_end, answers = client.site.front_end(client.node.name), list[tuple[int, list[Shown]]]()

    def answered(ready: int, shown: list[Shown], refusal: Refusal | None) -> None:
        assert refusal is None
        answers.append((ready, shown))

    ref = front_end.queue("/", queue, client.holder)
    octets = encoded_condition(filter) if filter else b""
    client.node.input(lambda: front_end.browse(ref, behind, wanted, octets, answered))
    client.site.until(lambda: answers)
    return answers[0][1]


def bodies(shown: list[Shown]) -> list[bytes]:
    return [messages.parts(next(one.run.contents()))[1] for one in shown]


def state_of(site: Site) -> list[Any]:
    """The states of all replicas and owners."""
    found: list[Any] = []
    for node in site.nodes.values():
        for number, owner in sorted(node.broker.owners.items()):
            found.append((node.name, number, machine_of(owner).snapshot()))
            found += [described(queue) for _, queue in sorted(owner.queues.items())]
    return found


def described(queue: QueueOwner) -> dict[str, Any]:
    return {
        "ready": list(queue.delivery.ready.ranges()),
        "leases": {holder: list(lease.ranges()) for holder, lease in queue.delivery.leases.items()},
        "scheduled": queue.delivery.scheduled_count,
        "redelivered": list(queue.delivery.redelivered.ranges()),
        "soft": (list(queue.delivery.soft.numbers.ranges()), list(queue.delivery.soft.failures.all())),
        "told": asdict(queue.delivery.tally),
        "consumers": len(list(queue.delivery.consumers)),
    }


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [1, 2])
def test_looking_changes_nothing(site: Site, kind: str, arguments: str, mode: int) -> None:
    client = site.client("n1")
    queue = declare(client, kind, **ARGUMENTS[arguments])
    other = client if kind == "exclusive" else site.client("n3")
    client.confirms(client.publish(queue, b"a", b"b", b"c", delivery_mode=mode))
    site.run(1.5)
    before = state_of(site)
    for _ in range(3):
        assert bodies(look_at(other, queue)) == [b"a", b"b", b"c"]
    site.run(1.5)
    assert state_of(site) == before
    assert [(one.body, one.method.redelivered) for one in client.drain(queue)] == [
        (b"a", False),
        (b"b", False),
        (b"c", False),
    ]


def test_a_queue_is_looked_at_in_the_order_of_delivery_page_by_page(site: Site) -> None:
    client = site.client("n2")
    client.declare("q", max_priority=3)
    for number in range(300):
        client.publish("q", b"%d" % number, priority=number % 4)
    client.confirms(client.publish("q", b"last", priority=0))
    pages = [look_at(site.client("n1"), "q")]
    while pages[-1]:
        pages.append(look_at(site.client("n1"), "q", pages[-1][-1].place, 1000))
    assert len(pages[0]) == 100 and max(map(len, pages)) <= PAGE_MESSAGES
    assert bodies([one for page in pages for one in page]) == [one.body for one in client.drain("q")]


def test_a_page_has_a_bounded_size(site: Site) -> None:
    client = site.client("n2")
    client.declare("q")
    client.confirms(client.publish("q", *[bytes(PAGE_OCTETS // 16)] * 20))
    first = look_at(site.client("n1"), "q")
    assert len(first) == 16
    assert len(look_at(site.client("n1"), "q", first[-1].place)) == 4


def test_what_is_not_ready_is_not_shown(site: Site) -> None:
    """Delayed, resting and leased messages are not shown: a basic.get would not get them either."""
    client, other = site.client("n1"), site.client("n2")
    client.declare("q", redelivery_backoff={"initial": 60_000})
    client.confirms(client.publish("q", b"failed", b"leased", b"ready"))
    client.confirms(client.publish("q", b"delayed", headers={"x-delay": 60_000}))
    failed = client.get("q", no_ack=False)
    leased = client.get("q", no_ack=False)
    assert failed is not None and leased is not None
    client.nack(failed, requeue=True)
    site.run(0.1)
    assert bodies(look_at(other, "q")) == [b"ready"]


def test_a_message_is_shown_as_a_consumer_would_get_it(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    client.confirms(client.publish("q", b"a"))
    got = client.get("q", no_ack=False)
    assert got is not None
    client.nack(got, requeue=True)
    site.run(0.1)
    (shown,) = look_at(site.client("n3"), "q")
    properties, _ = messages.parts(next(shown.run.contents()))
    assert (shown.redelivered, properties.headers) == (True, {"x-delivery-count": 1})


def test_an_owner_of_the_release_before_gives_nothing_for_it(site: Site) -> None:
    """An owner of that release takes an unknown request for a basic.get of the queue in the first
    argument.
    """
    client = site.client("n1")
    client.declare("q")
    client.confirms(client.publish("q", b"a"))
    answers: list[Any] = []

    def answered(value: Any, delivery: Any) -> None:
        answers.append((value, delivery))

    for node in site.nodes.values():
        link = node.broker.links.to(node.broker.catalog.state.queues["/", "q"].partition)
        link.request(
            "get", [*NOTHING_TO_GET, 1, 256, 0, 10], lambda value, delivery: answers.append((value, delivery))
        )
        node.broker.wanted()
    site.until(lambda: len(answers) == 3)
    assert answers == [(NOT_FOUND, None)] * 3
    assert client.bodies("q") == [b"a"]


# -- queries ------------------------------------------------------------------------------------------


@pytest.mark.requirement("D15.1", "X4.1")
@pytest.mark.parametrize("persistent", [2, 1])
def test_a_query_shows_what_a_filter_takes_and_changes_nothing(site: Site, persistent: int) -> None:
    """In the order of delivery, page by page: more messages than the owner looks at in one turn. A message
    that a consumer has is not available.
    """
    client = site.client("n1")
    client.declare("q", max_priority=3)
    for number in range(1500):
        told = {"n": number, "kind": "b" if number % 100 == 7 else "a"}
        client.publish("q", b"%d" % number, priority=number % 2, headers=told, delivery_mode=persistent)
    site.until(lambda: client.depth("q") == 1500)
    holder = site.client("n2")
    holder.consume("q", prefetch=4)
    site.until(lambda: len(holder.deliveries) == 4)
    site.run(1.5)
    before = state_of(site)
    other, found, place = site.client("n3"), list[Shown](), BEGINNING
    while shown := look_at(other, "q", place, 4, "kind = 'b' AND n > 100"):
        assert len(shown) <= 4
        found += shown
        place = shown[-1].place
    assert bodies(found) == [b"%d" % number for number in range(107, 1500, 100)]
    assert [one.body for one in holder.deliveries] == [b"1", b"3", b"5", b"7"]
    assert not look_at(other, "q", filter="n = 7")
    assert state_of(site) == before


@pytest.mark.requirement("D15.1")
def test_a_query_follows_the_order_of_priorities(site: Site) -> None:
    client = site.client("n1")
    client.declare("q", max_priority=3)
    for number in range(8):
        client.publish("q", b"%d" % number, priority=number % 4, headers={"n": number})
    site.until(lambda: client.depth("q") == 8)
    assert bodies(look_at(client, "q", filter="n <> 3")) == [b"7", b"2", b"6", b"1", b"5", b"0", b"4"]
