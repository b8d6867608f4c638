"""Sender-selected distribution: the headers CC and BCC of publishes (RabbitMQ's extension, A23)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.site import ChannelClosedError, Client, Site


@pytest.fixture
def client() -> Client:
    return Site("n1").client("n1")


def bodies(client: Client, queue: str) -> list[bytes]:
    found = []
    while (got := client.get(queue)) is not None:
        found.append(got.body)
    return found


def publish(client: Client, key: str, headers: dict[str, Any], exchange: str = "") -> list[bool]:
    return client.confirms(client.publish(key, b"m", exchange=exchange, headers=headers))


@pytest.mark.parametrize("durable", [True, False])
def test_a_message_goes_by_each_key_once(client: Client, durable: bool) -> None:
    for name in ("a", "b", "c", "d"):
        client.declare(name, durable=durable)
    assert publish(client, "a", {"CC": ["b", "a", "nowhere"], "BCC": ["c"]}) == [True]
    assert [bodies(client, name) for name in ("a", "b", "c", "d")] == [[b"m"], [b"m"], [b"m"], []]


def test_who_gets_it_sees_cc_and_not_bcc(client: Client) -> None:
    client.declare("a")
    client.declare("b")
    publish(client, "a", {"CC": ["b"], "BCC": ["x"], "other": 1})
    for queue in ("a", "b"):
        got = client.get(queue)
        assert got is not None
        assert got.properties.headers == {"CC": ["b"], "other": 1}
        assert got.method.routing_key == "a"


def test_bindings_are_looked_at_for_each_key(client: Client) -> None:
    client.declare_exchange("topics", "topic")
    for queue, key in (("a", "x.*"), ("b", "y.#"), ("c", "z")):
        client.declare(queue)
        client.bind(queue, "topics", key)
    publish(client, "x.1", {"CC": ["y.2.3", "x.9"]}, exchange="topics")
    assert [bodies(client, name) for name in ("a", "b", "c")] == [[b"m"], [b"m"], []]


def test_only_what_no_key_leads_anywhere_takes_the_alternate_exchange(client: Client) -> None:
    client.declare_exchange("rest", "fanout")
    client.declare_exchange("first", "direct", **{"alternate-exchange": "rest"})
    client.declare("bound")
    client.declare("others")
    client.bind("bound", "first", "k")
    client.bind("others", "rest")
    publish(client, "k", {"CC": ["unknown"]}, exchange="first")
    publish(client, "unknown", {"BCC": ["k"]}, exchange="first")
    assert [len(bodies(client, name)) for name in ("bound", "others")] == [2, 0]
    publish(client, "unknown", {"CC": ["unknown too"]}, exchange="first")
    assert [len(bodies(client, name)) for name in ("bound", "others")] == [0, 1]


@pytest.mark.parametrize(("value", "type_"), [("b", "longstr"), (7, "signedint"), ({"b": 1}, "table")])
def test_anything_but_an_array_is_refused(client: Client, value: Any, type_: str) -> None:
    client.declare("a")
    client.publish("a", b"m", headers={"CC": value})
    with pytest.raises(ChannelClosedError, match=f'unacceptable_type_in_header,"CC",{type_}') as caught:
        client.declare("a", passive=True)
    assert caught.value.code == 406


def test_a_transaction_takes_the_copies_with_it() -> None:
    site = Site("n1")
    client = site.client("n1", transactional=True)
    for name in ("a", "b"):
        client.declare(name)
    client.publish("a", b"m", headers={"BCC": ["b"]})
    assert bodies(client, "b") == []
    client.commit()
    assert [bodies(client, name) for name in ("a", "b")] == [[b"m"], [b"m"]]
