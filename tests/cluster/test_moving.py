"""Messages that no client has go from queue to queue: by bookmark and by filter, each once (X4)."""

from __future__ import annotations

from typing import Any

import pytest

from node.delivery.deeds import Became, Deed, MoveTarget
from node.refusal import PreconditionFailedError
from tests.cluster.kept_links import site
from tests.cluster.test_settling_by_bookmark import QUEUE, Settlement, bookmarks_of, taking
from tests.site import Client, Site

__all__ = ["site"]

TARGET = "target"
MOVE, COPY = Deed.MOVE, Deed.COPY
PLACES = pytest.mark.parametrize("there", ["n1", "n2"])
"""The node of the target's owner: in the source's partition, or in another one."""


@pytest.fixture
def client(site: Site) -> Client:
    client = site.client("n1")
    client.declare(QUEUE)
    return client


def target(site: Site, there: str, **arguments: Any) -> None:
    site.client(there).declare(TARGET, **arguments)


def move(site: Site, *bookmarks: str, node: str = "n3", deed: Deed = MOVE, **options: Any) -> Settlement:
    return Settlement(site, node, deed, *bookmarks, target=place(site, TARGET), **options)


def place(site: Site, queue: str) -> MoveTarget:
    definition = site.nodes["n3"].broker.catalog.state.queues["/", queue]
    return MoveTarget(definition.partition, definition.id)


def names(client: Client, queue: str) -> list[bytes]:
    client.site.run(0.1)
    return client.bodies(queue)


@pytest.mark.requirement("X4.2")
@PLACES
@pytest.mark.parametrize("persistent", [2, 1])
def test_messages_that_a_filter_takes_are_in_the_other_queue_alone(
    site: Site, client: Client, there: str, persistent: int
) -> None:
    target(site, there)
    for number in range(40):
        headers = {"kind": "ab"[number % 2], "number": number}
        client.confirms(client.publish(QUEUE, b"%d" % number, headers=headers, delivery_mode=persistent))
    assert move(site, filter="kind = 'a'").answer.counts == {Became.SETTLED: 20}
    assert names(client, TARGET) == [b"%d" % number for number in range(0, 40, 2)]
    assert names(client, QUEUE) == [b"%d" % number for number in range(1, 40, 2)]


@pytest.mark.requirement("X4.2")
@PLACES
def test_a_moved_message_is_as_it_was_published(site: Site, client: Client, there: str) -> None:
    """Its exchange and key, its properties, and no delivery that has failed."""
    target(site, there)
    client.declare_exchange("orders", "topic")
    client.bind(QUEUE, "orders", "eu.#")
    told = {"message_id": "m1", "correlation_id": "c", "headers": {"x": 1}, "priority": 3}
    client.confirms(client.publish("eu.fr", b"1", exchange="orders", **told))
    assert move(site, filter="TRUE").answer.counts == {Became.SETTLED: 1}
    client.consume(TARGET)
    site.until(lambda: client.deliveries)
    [moved] = client.deliveries
    assert (moved.method.exchange, moved.method.routing_key) == ("orders", "eu.fr")
    assert not moved.method.redelivered
    properties = moved.properties
    assert (properties.message_id, properties.correlation_id, properties.priority) == ("m1", "c", 3)
    assert moved.headers["x"] == 1


@pytest.mark.requirement("X4.2")
def test_bookmarks_name_messages(site: Site, client: Client) -> None:
    """A message that a consumer has is not moved, and neither is one that is gone."""
    target(site, "n2")
    client.confirms(client.publish(QUEUE, b"1", b"2", b"3", b"4"))
    holder = taking(site, "n2", 2)
    first, second = bookmarks_of(holder)
    third = f"{first[:8]}{int(first[8:], 16) + 2:016x}"
    holder.cancel(holder.deliveries[0].method.consumer_tag)
    holder.ack(holder.deliveries[0])
    site.run(0.1)
    never = first[:8] + "f" * 16
    found = move(site, first, second, third, never)
    assert found.answer.bookmarks == {
        first: Became.GONE, second: Became.LEASED, third: Became.SETTLED, never: Became.NOT_FOUND,
    }  # fmt: skip
    assert names(client, TARGET) == [b"3"]
    holder.close()
    assert names(client, QUEUE) == [b"2", b"4"]


@pytest.mark.requirement("X4.2")
def test_a_copy_leaves_the_message(site: Site, client: Client) -> None:
    target(site, "n2")
    client.confirms(client.publish(QUEUE, b"1", b"2"))
    assert move(site, filter="TRUE", deed=COPY).answer.counts == {Became.SETTLED: 2}
    assert names(client, TARGET) == names(client, QUEUE) == [b"1", b"2"]


@pytest.mark.requirement("X4.2")
def test_a_dry_run_counts_and_moves_none(site: Site, client: Client) -> None:
    target(site, "n2")
    client.confirms(client.publish(QUEUE, b"1", b"2"))
    assert move(site, filter="TRUE", tries=True).answer.counts == {Became.SETTLED: 2}
    assert Settlement(site, "n3", Deed.EXPIRE, filter="TRUE", tries=True).answer.counts == {Became.SETTLED: 2}
    assert names(client, TARGET) == []
    assert names(client, QUEUE) == [b"1", b"2"]


@pytest.mark.requirement("X4.2")
def test_requests_with_a_limit_go_on_where_the_last_one_has_ended(site: Site, client: Client) -> None:
    """Messages that come meanwhile stay: the first answer tells the last message."""
    target(site, "n2")
    client.confirms(client.publish(QUEUE, *[b"%d" % number for number in range(25)]))
    answer = move(site, filter="TRUE", limit=10).answer
    assert answer.counts == {Became.SETTLED: 10} and answer.left is not None
    client.confirms(client.publish(QUEUE, b"later"))
    rounds = 1
    while answer.left is not None:
        first, last = answer.left
        answer = move(site, filter="TRUE", limit=10, first=first, last=last).answer
        rounds += 1
    assert rounds == 3
    assert names(client, TARGET) == [b"%d" % number for number in range(25)]
    assert names(client, QUEUE) == [b"later"]


@pytest.mark.requirement("X4.2")
def test_delayed_messages_move_before_they_are_due(site: Site, client: Client) -> None:
    target(site, "n2")
    client.confirms(client.publish(QUEUE, b"1", headers={"x-delay": 60_000}))
    assert move(site, filter="TRUE").answer.counts == {Became.SETTLED: 1}
    assert client.depth(QUEUE) == 0


@pytest.mark.requirement("X4.2")
@PLACES
def test_dead_letters_go_back_to_a_queue_that_knows_their_ids(site: Site, there: str) -> None:
    client = site.client(there)
    client.declare(
        TARGET, deduplication_window=60_000, dead_letter_exchange="", dead_letter_routing_key=QUEUE
    )
    site.client("n1").declare(QUEUE)
    client.confirms(client.publish(TARGET, b"1", message_id="m"))
    client.consume(TARGET, "c")
    site.until(lambda: client.deliveries)
    client.reject(client.deliveries[0], requeue=False)
    client.cancel("c")
    site.until(lambda: client.depth(QUEUE) == 1)
    assert move(site, filter="TRUE").answer.counts == {Became.SETTLED: 1}
    assert names(client, TARGET) == [b"1"]


@pytest.mark.requirement("X4.2")
@pytest.mark.parametrize(
    "arguments",
    [
        {"group_by": "kind"},
        {"lease_period": 60_000},
        {"max_priority": 3},
        {"priority_expression": "/price"},
        {"single_active_consumer": True},
        {"max_unsettled": 1},
        {"delivery_limit": 1, "redelivery_backoff": {"initial": 1}},
    ],
    ids=str,
)
def test_a_queue_with_any_argument_goes_on_without_what_has_moved(
    site: Site, arguments: dict[str, Any]
) -> None:
    """A consumer has a message meanwhile, and the others wait behind it, or beside it."""
    target(site, "n2")
    client = site.client("n1")
    client.declare(QUEUE, **arguments)
    client.confirms(client.publish(QUEUE, *[b"%d" % number for number in range(6)], headers={"kind": "a"}))
    holder = taking(site, "n2", 1)
    assert move(site, filter="TRUE").answer.counts == {Became.SETTLED: 5, Became.LEASED: 1}
    assert names(client, TARGET) == [b"1", b"2", b"3", b"4", b"5"]
    client.confirms(client.publish(QUEUE, b"6", headers={"kind": "a"}))
    holder.ack(holder.deliveries[0])
    site.until(lambda: len(holder.deliveries) == 2)
    assert holder.deliveries[1].body == b"6" and not holder.deliveries[1].method.redelivered
    holder.ack(holder.deliveries[1])
    site.run(0.1)
    assert client.depth(QUEUE) == 0


# -- refusals -----------------------------------------------------------------------------------------


@pytest.mark.requirement("X4.2")
@PLACES
def test_a_full_queue_takes_what_it_has_room_for(site: Site, client: Client, there: str) -> None:
    target(site, there, max_length=5, overflow="reject-publish")
    client.confirms(client.publish(QUEUE, *[b"%d" % number for number in range(12)]))
    answer = move(site, filter="TRUE").answer
    assert answer.counts == {Became.SETTLED: 5, Became.REFUSED: 1} and answer.left is not None
    assert names(client, TARGET) == [b"%d" % number for number in range(5)]
    client.consume(QUEUE)
    site.until(lambda: len(client.deliveries) == 7)
    assert [one.body for one in client.deliveries] == [b"%d" % number for number in range(5, 12)]
    # A refused move is no delivery.
    assert all("x-delivery-count" not in (one.headers or {}) for one in client.deliveries)
    assert not any(one.method.redelivered for one in client.deliveries)


@pytest.mark.requirement("X4.2")
@PLACES
def test_a_filter_of_the_other_queue_keeps_the_message_where_it_is(
    site: Site, client: Client, there: str
) -> None:
    target(site, there, filter="kind = 'a'")
    client.confirms(client.publish(QUEUE, b"1", headers={"kind": "b"}))
    assert move(site, filter="TRUE").answer.counts == {Became.REFUSED: 1}
    assert names(client, TARGET) == []
    assert names(client, QUEUE) == [b"1"]


def test_a_queue_that_removes_messages_first_moves_none(site: Site) -> None:
    client = site.client("n1")
    client.declare(QUEUE, semantics="at-most-once")
    target(site, "n1")
    client.confirms(client.publish(QUEUE, b"1"))
    refusal = move(site, filter="TRUE").answer
    assert isinstance(refusal, PreconditionFailedError) and "before it delivers" in str(refusal)
    assert names(client, QUEUE) == [b"1"]


def test_the_other_queue_is_another_one(site: Site, client: Client) -> None:
    refusal = Settlement(site, "n3", MOVE, filter="TRUE", target=place(site, QUEUE)).answer
    assert isinstance(refusal, PreconditionFailedError) and "already" in str(refusal)


@pytest.mark.requirement("X4.2")
def test_a_queue_that_is_deleted_takes_none(site: Site, client: Client) -> None:
    target(site, "n2")
    gone = place(site, TARGET)
    client.confirms(client.publish(QUEUE, b"1"))
    client.delete(TARGET)
    found = Settlement(site, "n3", MOVE, filter="TRUE", target=gone).answer
    assert found.counts == {Became.REFUSED: 1}
    assert names(client, QUEUE) == [b"1"]


@pytest.mark.interpreted
def test_no_message_moves_while_a_node_of_the_last_release_is_a_member(
    site: Site, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    target(site, "n2")
    monkeypatch.setattr("cluster.catalog.membership.formats.Formats.know_moves", lambda self: False)
    refusal = move(site, filter="TRUE").answer
    assert isinstance(refusal, PreconditionFailedError) and "upgrade" in str(refusal)


# -- what happens meanwhile ---------------------------------------------------------------------------


@pytest.mark.requirement("X4.2")
@PLACES
def test_a_message_goes_to_a_consumer_or_moves(site: Site, client: Client, there: str) -> None:
    """Consumers take messages while they move: each comes to one of the two queues' consumers."""
    target(site, there)
    bodies = [b"%d" % number for number in range(400)]
    client.confirms(client.publish(QUEUE, *bodies))
    moving = move(site, filter="TRUE", wait=False)
    taker = site.client("n2")
    taker.consume(QUEUE, prefetch=3)
    handled = 0

    def step() -> bool:
        nonlocal handled
        for one in taker.deliveries[handled:]:
            taker.ack(one)
        handled = len(taker.deliveries)
        return bool(moving.answers)

    site.until(step)
    site.run(0.1)
    step()
    moved = names(client, TARGET)
    site.until(lambda: step() and client.depth(QUEUE) == 0)
    taken = [one.body for one in taker.deliveries]
    assert sorted(moved + taken) == sorted(bodies)
    assert moved


@pytest.mark.requirement("X4.2")
@PLACES
@pytest.mark.parametrize("lost", ["n1", "n2", "n3"])
@pytest.mark.parametrize("after_s", [0.002, 0.006, 0.01, 0.02])
def test_each_message_is_in_one_queue_whichever_node_is_lost(
    site: Site, client: Client, there: str, lost: str, after_s: float
) -> None:
    """n1 owns the source, n2 may own the target, and n3 is the client's node."""
    target(site, there, deduplication_window=60_000)
    bodies = [b"%d" % number for number in range(300)]
    for body in bodies:
        client.publish(QUEUE, body, message_id=body.decode())
    site.until(lambda: client.depth(QUEUE) == len(bodies))
    moving = move(site, filter="TRUE", wait=False)
    site.run(after_s)
    site.nodes[lost].stop(power=True)
    site.run(4.0)
    other = next(name for name in site.nodes if name not in (lost, "n3"))
    if lost != "n3":
        assert moving.answers and moving.answer.counts == {Became.SETTLED: len(bodies)}
    # Consumers take in few turns of the nodes what gets would take in 300.
    reader = site.client(other)
    for queue in (TARGET, QUEUE):
        reader.consume(queue, no_ack=True)
    site.until(lambda: len(reader.deliveries) >= len(bodies))
    site.run(0.2)
    assert sorted(one.body for one in reader.deliveries) == sorted(bodies)
