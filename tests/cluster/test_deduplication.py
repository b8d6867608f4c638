"""Deduplication by message id (X2), as clients see it, on every kind of queue."""

from __future__ import annotations

import pytest

from node.queue.dispatch import QueueOwner
from node.queue.features.deduplication import FEATURE, Deduplication, Window
from node.queue.operations import Semantics
from node.queue.queue import QueueState
from node.queue.seen_ids import digest_of
from node.queue.settings import QueueSettings
from tests.cluster.kinds import KINDS, declare
from tests.inside import machine_of
from tests.queue.owners import owner_of
from tests.site import Client, Site

every_kind = pytest.mark.parametrize("kind", KINDS)
persistent_or_not = pytest.mark.parametrize("mode", [1, 2])


@pytest.fixture
def client() -> Client:
    return Site("n1").client("n1")


@every_kind
@persistent_or_not
@pytest.mark.requirement("X2.1")
def test_a_duplicate_is_confirmed_and_dropped(client: Client, kind: str, mode: int) -> None:
    queue = declare(client, kind, deduplication_window=1000)
    for body, name in ((b"a", "1"), (b"b", "2"), (b"c", "1"), (b"d", "3")):
        tags = client.publish(queue, body, message_id=name, delivery_mode=mode)
        assert client.confirms(tags) == [True]
    assert client.depth(queue) == 3
    assert client.bodies(queue) == [b"a", b"b", b"d"]
    assert client.confirms(client.publish(queue, b"e", message_id="2", delivery_mode=mode)) == [True]
    assert client.bodies(queue) == []


@every_kind
@persistent_or_not
@pytest.mark.requirement("X2.1")
def test_duplicates_in_one_piece_of_input_are_told(client: Client, kind: str, mode: int) -> None:
    queue = declare(client, kind, deduplication_window=1000)
    client.publish(queue, b"a", b"b", message_id="1", delivery_mode=mode)
    client.publish(queue, b"c", message_id="2", delivery_mode=mode)
    client.publish(queue, b"d", b"e", message_id="1", delivery_mode=mode)
    client.confirms(client.publish(queue, b"f", b"g", message_id="3", delivery_mode=mode))
    assert client.bodies(queue) == [b"a", b"c", b"f"]


@every_kind
@pytest.mark.requirement("X2.1")
def test_the_window_counts_from_the_first_of_them(client: Client, kind: str) -> None:
    queue = declare(client, kind, deduplication_window=1000)
    client.confirms(client.publish(queue, b"a", message_id="1"))
    client.site.run(0.6)
    client.confirms(client.publish(queue, b"b", message_id="1"))
    client.site.run(0.6)
    client.confirms(client.publish(queue, b"c", message_id="1"))
    assert client.bodies(queue) == [b"a", b"c"]


@pytest.mark.requirement("X2.1")
def test_messages_without_an_id_are_no_duplicates(client: Client) -> None:
    queue = declare(client, "replicated", deduplication_window=1000)
    client.confirms(client.publish(queue, b"a", b"a"))
    assert client.bodies(queue) == [b"a", b"a"]


@pytest.mark.requirement("X2.1")
def test_each_queue_has_a_window_of_its_own(client: Client) -> None:
    for queue, arguments in (("one", {"deduplication_window": 1000}), ("two", {}), ("three", {})):
        client.declare(queue, **arguments)
        client.bind(queue, "amq.fanout")
    client.confirms(client.publish("", b"a", b"b", exchange="amq.fanout", message_id="1"))
    assert client.bodies("one") == [b"a"]
    assert client.bodies("two") == [b"a", b"b"]
    client.confirms(client.publish("three", b"c", message_id="1"))
    assert client.bodies("three") == [b"a", b"b", b"c"]


def test_duplicates_are_counted(client: Client) -> None:
    queue = declare(client, "replicated", deduplication_window=1000)
    client.confirms(client.publish(queue, *[b"a"] * 5, message_id="1"))
    (tally,) = [
        owned.delivery.tally
        for owner in client.node.broker.owners.values()
        for owned in owner.queues.values()
    ]
    assert tally.duplicates == 4


def test_ids_out_of_the_window_are_forgotten_by_all(client: Client) -> None:
    queue = declare(client, "replicated", deduplication_window=100)
    states = [
        state for owner in client.node.broker.owners.values() for state in machine_of(owner).queues.values()
    ]
    client.confirms(client.publish(queue, b"a", message_id="1"))
    assert [len(state.seen or ()) for state in states] == [1]
    client.site.run(1.3)
    assert [state.seen for state in states] == [None]


@persistent_or_not
def test_a_dead_letter_that_comes_back_is_no_duplicate_of_itself(client: Client, mode: int) -> None:
    """A queue for later attempts, in another partition."""
    client.declare("q", deduplication_window=60_000, dead_letter_exchange="", dead_letter_routing_key="later")
    client.declare(
        "later", queue_type="classic", message_ttl=50, dead_letter_exchange="", dead_letter_routing_key="q"
    )
    client.confirms(client.publish("q", b"m", message_id="1", delivery_mode=mode))
    client.consume("q")
    for count in (1, 2, 3):
        client.site.until(lambda count=count: len(client.deliveries) == count)
        client.nack(client.deliveries[-1], requeue=False)


def window_of(owner: QueueOwner) -> Window:
    share = owner.lifecycle.shares[FEATURE]
    assert isinstance(share, Deduplication)
    return share.window


def test_what_is_on_its_way_to_the_log_is_known_also_where_a_policy_changes() -> None:
    asked = QueueSettings(deduplication_window_ms=1000)
    owner = owner_of(QueueState(Semantics.AT_LEAST_ONCE), fresh=True, settings=asked)
    ids = [digest_of(b"1")]
    window = window_of(owner)
    assert window.fresh(ids, 10) == [True]
    owner.lifecycle.reconfigure(QueueSettings(deduplication_window_ms=1000, max_length=9))
    assert window_of(owner).fresh(ids, 11) == [False]
    owner.lifecycle.reconfigure(QueueSettings(deduplication_window_ms=500))
    assert window_of(owner).fresh(ids, 12) == [False]
    assert window_of(owner).fresh(ids, 600) == [True]


@pytest.mark.requirement("A24.6", "A24.7", "X2.1")
@persistent_or_not
@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
@every_kind
def test_a_full_queue_confirms_what_it_has_had(client: Client, kind: str, overflow: str, mode: int) -> None:
    """A publisher that missed a confirm publishes again until it gets one. The duplicate is no dead letter
    either.
    """
    client.declare("grave")
    queue = declare(
        client, kind, max_length=2, overflow=overflow, deduplication_window=60_000,
        dead_letter_exchange="", dead_letter_routing_key="grave",
    )  # fmt: skip
    named = {"message_id": "1", "delivery_mode": mode}
    assert client.confirms(client.publish(queue, b"a", delivery_mode=mode)) == [True]
    assert client.confirms(client.publish(queue, b"b", b"b again", b"and again", **named)) == [True] * 3
    assert client.confirms(client.publish(queue, b"b later", **named)) == [True]
    refused = client.publish(queue, b"c", b"c again", message_id="2", delivery_mode=mode)
    assert client.confirms(refused) == [False, False]
    client.site.run(0.1)
    moved = [b"c", b"c again"] if overflow == "reject-publish-dlx" else []
    assert (client.bodies("grave"), client.bodies(queue)) == (moved, [b"a", b"b"])
