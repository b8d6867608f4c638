"""Routes through a headers exchange: remembered by the headers that its bindings compare (§3.1.3.4)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.gateway import routes
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import encode_method
from tests import messages
from tests.site import CHANNEL, Client, Site


@pytest.fixture
def client() -> Client:
    client = Site("n1").client("n1")
    client.declare_exchange("e", "headers", durable=True)
    for name in ("a", "b"):
        client.declare(name)
        bind(client, name, {"kind": name})
    return client


def bind(client: Client, queue: str, arguments: dict[str, Any]) -> None:
    client.call(m.QueueBind(queue, "e", "", arguments=arguments), m.QueueBindOk)


def publish(client: Client, kinds: str) -> list[bool]:
    """Publish one message for each kind, in one piece of input; each has another length and number."""
    method = encode_method(CHANNEL, m.BasicPublish("e", ""))
    pieces = [
        method + messages.content(b"%d" % at, delivery_mode=2, headers={"kind": kind, "number": at})
        for at, kind in enumerate(kinds)
    ]
    client.connection.send_octets(b"".join(pieces))
    first = client._published + 1
    client._published += len(kinds)
    return client.confirms(list(range(first, client._published + 1)))


def test_each_message_of_one_input_goes_by_its_own_headers(client: Client) -> None:
    assert all(publish(client, "aabcbbaca"))
    assert client.bodies("a") == [b"0", b"1", b"6", b"8"]
    assert client.bodies("b") == [b"2", b"4", b"5"]


def test_a_new_binding_counts_for_headers_that_were_seen_before(client: Client) -> None:
    assert all(publish(client, "ab"))
    bind(client, "b", {"kind": "a"})
    assert all(publish(client, "a"))
    bind(client, "a", {"number": 0})
    assert all(publish(client, "cb"))
    assert client.bodies("a") == [b"0", b"0", b"0"]
    assert client.bodies("b") == [b"1", b"0", b"1"]


@pytest.mark.interpreted
def test_headers_that_differ_in_each_message_take_no_other_route_away(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "REMEMBERED_ALIKE", 4)
    known = client.site.front_end("n1")._routes
    bind(client, "a", {"number": 99})
    assert client.confirms(client.publish("a", b"m")) == [True]
    before = dict(known._known)
    assert before
    assert all(publish(client, "abcabcabcabc"))
    assert known._known == before
    assert len(known._alike) <= 4
