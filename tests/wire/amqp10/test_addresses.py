"""Addresses of nodes: the forms, and those that name no node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.addresses import address_in, destination_of, exchange_named
from node.wire.amqp10.errors import AddressError
from tests.wire.amqp10.sections import message


@pytest.mark.parametrize(
    ("address", "exchange", "key"),
    [
        ("orders", "", "orders"),
        ("or/ders %41", "", "or/ders %41"),
        ("/queues/orders", "", "orders"),
        ("/queues/a%20b%2Fc", "", "a b/c"),
        ("/exchanges/logs", "logs", ""),
        ("/exchanges/logs/", "logs", ""),
        ("/exchanges/lo%2Fgs/eu.%23", "lo/gs", "eu.#"),
        ("amqp://host/orders", "", "orders"),
        ("amqps://user@host:5671/a%20b", "", "a b"),
        ("amqp://host/queues/a%2Fb", "", "a/b"),
        ("amqp://host//queues/a", "", "a"),
        ("amqp://host:5672/exchanges/logs/key", "logs", "key"),
        ("http://host/orders", "", "http://host/orders"),
    ],
)
def test_an_address_is_a_queue_or_an_exchange_with_a_key(address: str, exchange: str, key: str) -> None:
    assert destination_of(address) == (exchange, key)


@pytest.mark.parametrize(
    "address",
    [
        None, "", "/queues/", "/queues/a/b", "/exchanges/", "/exchanges//key", "/exchanges/a/b/c", "/topics",
        "/", "/queues/%FF", "/exchanges/a/%C3", "amqp://host/queues/",
    ],
)  # fmt: skip
def test_an_address_that_names_no_node_is_refused(address: str | None) -> None:
    with pytest.raises(AddressError):
        destination_of(address)


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("logs", "/exchanges/logs"), ("lo/gs #", "/exchanges/lo%2Fgs%20%23"),
        ("amqp://host/logs", "/exchanges/logs"), ("/queues/logs", ""), ("/exchanges/logs", ""), ("", ""),
    ],
)  # fmt: skip
def test_a_plain_name_alone_may_be_an_exchange(address: str, named: str) -> None:
    assert exchange_named(address) == named


@given(st.text())
def test_any_text_names_a_node_or_is_refused(address: str) -> None:
    try:
        destination_of(address)
        exchange = exchange_named(address)
    except AddressError:
        return
    assert not exchange or destination_of(exchange)[1] == ""


def test_a_message_names_its_address() -> None:
    octets = message(d.Properties(to="/queues/a").encode(), body=b"x")
    assert address_in(octets, 0, len(octets)) == "/queues/a"
    assert address_in(message(), 0, len(message())) is None
