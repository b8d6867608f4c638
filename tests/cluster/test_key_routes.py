"""Messages of one input with routing keys of their own travel in one run, and each keeps its key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from cluster.catalog.membership.formats import Formats
from cluster.config.formats import METHODS_IN_RUNS
from cluster.gateway import routes
from cluster.gateway.link import PartitionLink
from node.message.run import Run
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import encode_method
from tests import messages
from tests.simulation.front_ends import USER
from tests.site import CHANNEL, ChannelClosedError, Client, Site

KEYS = ("a.1", "a.2", "a.22", "b.3", "b.4", "", "a.5", "c.6", "a.7")


@pytest.fixture(params=["own", "one"])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client of a cluster whose nodes all read runs with keys of their own, or do not."""
    if request.param == "one":
        monkeypatch.setattr(Formats, "everywhere", METHODS_IN_RUNS - 1)
    return bound(Site("n1"))


def bound(site: Site) -> Client:
    client = site.client("n1")
    client.declare_exchange("e", "topic")
    for name in ("a", "b"):
        client.declare(name, dead_letter_exchange="dead")
        client.bind(name, "e", f"{name}.#")
    return client


def publish(client: Client, keys: Sequence[str], exchange: str = "e", **properties: Any) -> list[int]:
    """Publish a message for each key, in one piece of input; the body is the key."""
    mandatory = bool(properties.pop("mandatory", False))
    pieces = [
        encode_method(CHANNEL, m.BasicPublish(exchange, key, mandatory))
        + messages.content(key.encode(), delivery_mode=2, message_id=str(at), **properties)
        for at, key in enumerate(keys)
    ]
    client.connection.send_octets(b"".join(pieces))
    first = client._published + 1
    client._published += len(keys)
    return list(range(first, client._published + 1))


def arrived(client: Client, queue: str) -> list[str]:
    """The messages of a queue, taken out, by key; each has the key in its body."""
    found = client.drain(queue)
    for one in found:
        assert one.method.routing_key.encode() == one.body
    return [one.method.routing_key for one in found]


def test_each_message_goes_by_its_own_key_and_keeps_it(client: Client) -> None:
    assert all(client.confirms(publish(client, KEYS)))
    assert arrived(client, "a") == ["a.1", "a.2", "a.22", "a.5", "a.7"]
    assert arrived(client, "b") == ["b.3", "b.4"]


def test_deliveries_to_a_consumer_have_the_keys(client: Client) -> None:
    client.consume("a", prefetch=3)
    client.confirms(publish(client, KEYS))
    client.site.until(lambda: len(client.deliveries) == 3)
    client.nack(client.deliveries[2], requeue=True, multiple=True)
    client.site.until(lambda: len(client.deliveries) == 6)
    client.ack(client.deliveries[5], multiple=True)
    client.site.until(lambda: len(client.deliveries) == 8)
    keys = [one.method.routing_key for one in client.deliveries]
    assert keys == ["a.1", "a.2", "a.22", "a.1", "a.2", "a.22", "a.5", "a.7"]
    assert [one.body.decode() for one in client.deliveries] == keys
    assert [one.headers.get("x-delivery-count") for one in client.deliveries][:6] == [None] * 3 + [1] * 3


def test_mandatory_messages_that_no_queue_takes_come_back_with_their_keys(client: Client) -> None:
    assert all(client.confirms(publish(client, ["c.1", "a.1", "c.2", "c.3"], mandatory=True)))
    assert [one.method.routing_key for one in client.returned] == ["c.1", "c.2", "c.3"]
    assert [one.body for one in client.returned] == [b"c.1", b"c.2", b"c.3"]


def test_a_new_binding_counts_for_keys_that_were_seen_before(client: Client) -> None:
    client.confirms(publish(client, KEYS))
    client.bind("b", "e", "a.2")
    client.confirms(publish(client, KEYS))
    assert arrived(client, "b") == ["b.3", "b.4", "a.2", "b.3", "b.4"]


def test_headers_and_keys_count_together(client: Client) -> None:
    """A headers exchange behind the topic exchange: routes depend on both."""
    client.declare_exchange("h", "headers")
    client.call(m.ExchangeBind("h", "e", "a.2"), m.ExchangeBindOk)
    client.call(m.QueueBind("b", "h", "", arguments={"kind": 1}), m.QueueBindOk)
    client.confirms(publish(client, KEYS, headers={"kind": 1}))
    client.confirms(publish(client, KEYS, headers={"kind": 2}))
    assert arrived(client, "b") == ["a.2", "b.3", "b.4", "b.3", "b.4"]


def test_further_keys_of_each_message_count_as_well(client: Client) -> None:
    client.confirms(publish(client, ["a.1", "c.2", "b.3"], headers={"CC": ["b.9"]}))
    assert arrived(client, "a") == ["a.1"]
    assert arrived(client, "b") == ["a.1", "c.2", "b.3"]


def test_dead_letters_keep_the_keys_of_their_messages(client: Client) -> None:
    client.declare_exchange("dead", "topic")
    client.declare("graves")
    client.bind("graves", "dead", "#")
    client.consume("a")
    client.confirms(publish(client, KEYS))
    client.site.until(lambda: len(client.deliveries) == 5)
    client.nack(client.deliveries[-1], requeue=False, multiple=True)
    client.site.run(1.0)
    found = client.drain("graves")
    keys = ["a.1", "a.2", "a.22", "a.5", "a.7"]
    assert [one.method.routing_key for one in found] == keys
    assert [one.headers["x-death"][0]["routing-keys"] for one in found] == [[key] for key in keys]


def test_a_queue_may_group_messages_by_their_keys(client: Client) -> None:
    client.declare("grouped", group_by="routing_key")
    client.bind("grouped", "e", "#")
    client.consume("grouped", "one")
    client.consume("grouped", "two")
    client.confirms(publish(client, ["a.1", "b.2", "c.3", "d.4"] * 4))
    client.site.until(lambda: len(client.deliveries) == 16)
    consumers: dict[str, set[str]] = {}
    for one in client.deliveries:
        consumers.setdefault(one.method.routing_key, set()).add(one.method.consumer_tag)
    assert all(len(tags) == 1 for tags in consumers.values())


def test_a_transaction_keeps_the_keys(client: Client) -> None:
    other = client.site.client("n1", transactional=True)
    publish(other, KEYS)
    other.commit()
    assert arrived(client, "a") == ["a.1", "a.2", "a.22", "a.5", "a.7"]


def test_the_messages_before_a_refused_key_are_published(client: Client) -> None:
    rights = {"user": USER, "vhost": "/", "exchange": "e", "write": "^a", "read": ".*"}
    client.site.submit("n1", "set_topic_permissions", rights)
    publish(client, ["a.1", "a.2", "b.3", "a.4"])
    with pytest.raises(ChannelClosedError, match="403 ACCESS_REFUSED"):
        client.answer()
    client.open_channel()
    assert arrived(client, "a") == ["a.1", "a.2"]
    assert arrived(client, "b") == []


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Run]]:
    """The runs that sessions publish."""
    found: list[Run] = []
    publish = PartitionLink.publish

    def watched(link: PartitionLink, run: Run, *arguments: Any, **options: Any) -> None:
        found.append(run)
        publish(link, run, *arguments, **options)

    monkeypatch.setattr(PartitionLink, "publish", watched)
    return found


@pytest.mark.interpreted
def test_messages_of_one_route_are_one_run(runs: list[Run]) -> None:
    client = bound(Site("n1"))
    client.confirms(publish(client, [f"a.{number}" for number in range(300)]))
    assert [(run.routing_key, run.count) for run in runs] == [(None, 300)]
    assert arrived(client, "a") == [f"a.{number}" for number in range(300)]


@pytest.mark.interpreted
def test_nodes_of_the_last_release_get_runs_of_one_key(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Formats, "everywhere", METHODS_IN_RUNS - 1)
    client = bound(Site("n1"))
    client.confirms(publish(client, ["a.1", "a.2", "a.2", "a.3"]))
    assert [(run.routing_key, run.count) for run in runs] == [("a.1", 1), ("a.2", 2), ("a.3", 1)]


@pytest.mark.interpreted
def test_routes_to_ever_other_queues_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "REMEMBERED_ALIKE", 2)
    client = bound(Site("n1"))
    known = client.site.front_end("n1")._routes
    client.bind("b", "e", "a.2.#")
    client.confirms(publish(client, ["a.1", "b.1", "a.2", "c.3", "a.2.4"] * 3))
    assert sum(map(len, known._to_names.values())) <= 2
    assert arrived(client, "a") == ["a.1", "a.2", "a.2.4"] * 3
    assert arrived(client, "b") == ["b.1", "a.2", "a.2.4"] * 3


def test_messages_to_queues_by_name_go_by_their_own_keys(client: Client) -> None:
    assert all(client.confirms(publish(client, ["a", "b", "none", "b", "a"], exchange="")))
    assert arrived(client, "a") == ["a", "a"]
    assert arrived(client, "b") == ["b", "b"]


def test_keys_cross_nodes_and_survive_the_owner() -> None:
    site = Site("n1", "n2", "n3")
    bound(site)
    owner = owner_of(site, "a")
    publishing = next(name for name in site.nodes if name != owner)
    client = site.client(publishing)
    assert all(client.confirms(publish(client, KEYS * 21)))
    site.nodes[owner].stop(power=True)
    site.run(5.0)
    assert owner_of(site, "a") != owner
    assert arrived(client, "a") == ["a.1", "a.2", "a.22", "a.5", "a.7"] * 21


def owner_of(site: Site, queue: str) -> str:
    """The node that owns a queue."""
    for name, node in site.nodes.items():
        if node.up:
            ids = {one.id for one in node.broker.catalog.state.queues.values() if one.name == queue}
            if any(one.active and ids.intersection(one.queues) for one in node.broker.owners.values()):
                return name
    raise AssertionError(f"no node owns {queue}")
