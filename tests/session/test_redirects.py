"""A node may send clients of AMQP 1.0 to the node that owns a queue (part 2, section 2.8.18)."""

from __future__ import annotations

from typing import Any

import pytest

from node.refusal import NotFoundError
from node.wire.amqp10 import definitions as d
from tests.session.attached import Client, NodeBroker
from tests.wire.amqp10.performatives import LARGE, receiver, sender

OWNER = ("node2.example.com", 5673)


class Elsewhere(NodeBroker):
    """The queues with a name that begins with `far` are on another node."""

    def owner_elsewhere(self, vhost: str, name: str, holder: int) -> tuple[str, int] | None:
        return OWNER if self.queue(vhost, name, holder).name.startswith("far") else None


class AtHost(Client):
    """A client that has named its virtual host."""

    def send(self, *sent: Any, channel: int = 0) -> list[Any]:
        named = [d.Open("c", "vhost:/", LARGE) if isinstance(one, d.Open) else one for one in sent]
        return super().send(*named, channel=channel)


@pytest.fixture
def client() -> Client:
    return Client(Elsewhere())


def refused(told: list[Any]) -> d.Error:
    attach, detach = told
    assert isinstance(attach, d.Attach) and isinstance(detach, d.Detach) and detach.closed
    assert (attach.target if attach.role is d.Role.RECEIVER else attach.source) is None
    assert detach.error is not None
    return detach.error


@pytest.mark.requirement("B13.1")
@pytest.mark.parametrize("address", ["far", "/queues/far"])
@pytest.mark.parametrize("attach", [sender, receiver])
def test_a_link_to_a_queue_of_another_node_is_sent_there(client: Client, attach: Any, address: str) -> None:
    error = refused(client.send(attach(3, address)))
    assert error.condition == "amqp:link:redirect"
    assert error.info == {"network-host": OWNER[0], "port": OWNER[1], "address": address}
    assert not client.broker.consumed


@pytest.mark.parametrize("attach", [sender, receiver])
def test_a_link_to_a_queue_of_this_node_is_attached(client: Client, attach: Any) -> None:
    told = client.send(attach(3, "near"))[0]
    assert isinstance(told, d.Attach) and told.source is not None and told.target is not None


def test_the_peer_is_told_its_virtual_host_again() -> None:
    """The hostname of an Open names the virtual host, which the client needs there as well."""
    error = refused(AtHost(Elsewhere()).send(receiver(3, "far")))
    assert error.info is not None and error.info["hostname"] == "vhost:/"


def test_exchanges_and_dynamic_nodes_have_no_other_place(client: Client) -> None:
    told = client.send(sender(1, "/exchanges/far/key"), receiver(2, None, source=d.Source(dynamic=True)))
    assert [type(one) for one in told if isinstance(one, d.Detach)] == []


def test_a_queue_that_is_not_there_is_not_found(client: Client) -> None:
    client.broker.refusals["queue far"] = NotFoundError("no queue 'far'")
    client.broker.missing.add("far")
    assert refused(client.send(receiver(3, "far"))).condition == "amqp:not-found"
