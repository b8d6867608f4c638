"""Links of AMQP 1.0 on several nodes that compete for the messages of one queue, and what they park."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from node.wire.amqp10 import definitions as d
from tests.cluster.links import LinkClient
from tests.cluster.test_drains import publish
from tests.site import Client, Site
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import credit, receiver, settled
from tests.wire.amqp10.transacting import control, coordinator, within

ACCEPTED = d.Accepted()


@pytest.fixture
def client() -> Client:
    client = Site("n1", "n2", "n3").client("n1")
    client.declare("q")
    return client


def receiving(client: Client, name: str, link_credit: int, **source: Any) -> LinkClient:
    """A client with a link on handle 0 that has credit."""
    return LinkClient(client.site, name, receiver(0, source=d.Source("q", **source)), credit(link_credit))


def last_octets(link: LinkClient) -> bytes:
    """The last octet of each message that has come."""
    return b"".join(payload[-1:] for payload in link.payloads)


# -- credit -----------------------------------------------------------------------------------------


@pytest.mark.requirement("B8.1", "B8.5")
def test_a_link_gets_as_many_messages_as_it_has_credit_for(client: Client) -> None:
    publish(client, b"1", b"2", b"3", b"4")
    link = receiving(client, "n2", 0)
    assert last_octets(link) == b""
    link.send(credit(2))
    assert last_octets(link) == b"12"
    link.send(credit(1, 2))
    assert last_octets(link) == b"123"
    link.send(credit(9, 3))
    assert last_octets(link) == b"1234"
    link.send(credit(0, 4))
    publish(client, b"5")
    assert last_octets(link) == b"1234", "the credit is revoked"
    assert client.depth("q") == 1


@pytest.mark.requirement("B8.4")
@pytest.mark.parametrize("names", list(permutations(("n1", "n2", "n3"))))
def test_credit_that_finds_no_message_is_served_in_order_of_arrival(
    client: Client, names: tuple[str, ...]
) -> None:
    links = [receiving(client, name, 1) for name in names]
    publish(client, b"1")
    publish(client, b"2", b"3")
    assert [last_octets(link) for link in links] == [b"1", b"2", b"3"]


@pytest.mark.requirement("E12.1")
def test_links_on_several_nodes_share_what_arrives(client: Client) -> None:
    links = [receiving(client, name, 100) for name in ("n1", "n2", "n3")]
    for number in range(60):
        publish(client, b"%d" % number)
    shares = [len(link.payloads) for link in links]
    assert sum(shares) == 60 and min(shares) >= 15, shares


@pytest.mark.requirement("E12.2")
def test_no_message_waits_for_a_link_that_cannot_take_it(client: Client) -> None:
    """One link has no credit left and settles nothing, and one has none at all."""
    full, idle = receiving(client, "n2", 1), receiving(client, "n3", 0)
    publish(client, b"1", b"2")
    taking = receiving(client, "n3", 9)
    publish(client, b"3", b"4")
    assert [last_octets(link) for link in (full, idle, taking)] == [b"1", b"", b"234"]


# -- browsing ---------------------------------------------------------------------------------------


@pytest.mark.requirement("B11.3")
def test_a_link_with_the_distribution_mode_copy_takes_nothing(client: Client) -> None:
    publish(client, b"1", b"2")
    browsers = [receiving(client, name, 9, distribution_mode="copy") for name in ("n2", "n3")]
    for browser in browsers:
        browser.send(settled(0, 1, ACCEPTED))
    taking = receiving(client, "n3", 9)
    assert [last_octets(link) for link in (*browsers, taking)] == [b"12"] * 3


# -- parking ----------------------------------------------------------------------------------------


def parked(client: Client) -> tuple[LinkClient, LinkClient]:
    """A link that has parked message 2 and accepted message 1, and one with credit that has got message 3."""
    publish(client, b"1", b"2", b"3")
    parking, other = receiving(client, "n2", 2), receiving(client, "n3", 9)
    parking.send(settled(1, None, d.Received(0, 0), settled=False), settled(0, None, ACCEPTED))
    assert (last_octets(parking), last_octets(other)) == (b"12", b"3")
    return parking, other


@pytest.mark.requirement("E6.4", "E6.5", "E6.7")
@pytest.mark.parametrize("end", [d.Detach(0, True), d.Detach(0), d.End(), d.Close(), None])
def test_no_other_link_gets_a_parked_message_before_its_link_closes(client: Client, end: Any) -> None:
    parking, other = parked(client)
    publish(client, b"4")
    client.site.run(30.0)
    assert last_octets(other) == b"34"
    if end is None:
        parking.lose()
    else:
        parking.send(end)
    client.site.run(1.0)
    assert last_octets(other) == b"342"


@pytest.mark.requirement("E6.1", "E6.2", "E6.3", "E6.4")
@pytest.mark.parametrize(("state", "left"), [(ACCEPTED, b"3"), (d.Rejected(), b"3"), (d.Released(), b"32")])
def test_a_parked_message_has_its_outcome_later(client: Client, state: Any, left: bytes) -> None:
    parking, other = parked(client)
    parking.send(settled(1, None, state))
    parking.send(d.Detach(0, True))
    client.site.run(1.0)
    assert last_octets(other) == left


@pytest.mark.requirement("E6.6")
def test_a_parked_message_survives_a_rollback(client: Client) -> None:
    parking, other = parked(client)
    parking.send(coordinator(1))
    (told,) = parking.send(transfer(0, control(d.Declare()), 1))
    txn_id = told.state.txn_id
    parking.send(d.Disposition(d.Role.RECEIVER, 1, None, False, within(txn_id, d.Rejected())))
    (told,) = parking.send(transfer(1, control(d.Discharge(txn_id, True)), 1))
    assert told.state == ACCEPTED
    client.site.run(1.0)
    assert last_octets(other) == b"3", "it is parked again"
    parking.send(settled(1, None, ACCEPTED), d.Detach(0, True))
    client.site.run(1.0)
    assert last_octets(other) == b"3" and client.depth("q") == 0
