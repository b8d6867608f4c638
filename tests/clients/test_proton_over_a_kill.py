"""Qpid Proton's blocking client, its transactions and its browsers, while the owner of the queue is killed.
The client's own nodes live.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from proton import Delivery, Message
from proton.reactor import Copy
from proton.utils import BlockingConnection

from tests.clients.proton_links import (
    bodies,
    lasting_queue,
    opened,
    put,
    receiving,
    send_all,
    settle,
    wait_for,
)
from tests.clients.test_proton_transactions import declared, ended
from tests.processes.nodes import Cluster, Node

pytestmark = pytest.mark.clients

COUNT = 200
TRANSACTIONS = 20
EACH = 10


class Place(NamedTuple):
    """The owner of a queue, and connections to the two other nodes."""

    owner: Node
    sending: BlockingConnection
    taking: BlockingConnection


ADDRESS = "/queues/lasting"


@pytest.fixture
def place(own_cluster: Cluster) -> Iterator[Place]:
    owner = lasting_queue(own_cluster, "lasting")
    first, second = own_cluster.others(owner)
    with opened(first) as sending, opened(second) as taking:
        yield Place(owner, sending, taking)
    owner.start()
    owner.wait_ready()


@pytest.mark.requirement("B6.1", "B6.2", "B5.3", "F2.1")
def test_messages_are_accepted_and_come_once_and_in_order(place: Place) -> None:
    receiver, received = receiving(place.taking, ADDRESS, 1000)
    sender = place.sending.create_sender(ADDRESS)
    deliveries = [put(sender, Message(body=number)) for number in range(COUNT)]
    wait_for(place.taking, received, COUNT // 2)
    place.owner.kill()
    deliveries += [put(sender, Message(body=number)) for number in range(COUNT, 2 * COUNT)]
    place.sending.wait(lambda: all(one.settled for one in deliveries), msg="for the outcomes")
    assert {one.remote_state for one in deliveries} == {Delivery.ACCEPTED}
    wait_for(place.taking, received, 2 * COUNT)
    assert [message.body for message in received.messages()] == list(range(2 * COUNT))
    for delivery in received.deliveries:
        settle(place.taking, delivery, Delivery.ACCEPTED)
    receiver.close()
    assert bodies(place.sending, ADDRESS) == []


@pytest.mark.requirement("B10.3", "B10.6")
def test_transactions_are_committed_whole_or_not(place: Place) -> None:
    """Each moves messages: it takes some of the queue, and sends as many others."""
    sender = place.sending.create_sender(ADDRESS)
    send_all(sender, [f"old {number}" for number in range(TRANSACTIONS * EACH)])
    receiver, received = receiving(place.sending, ADDRESS, TRANSACTIONS * EACH)
    wait_for(place.sending, received, TRANSACTIONS * EACH)
    expected = {f"old {number}" for number in range(TRANSACTIONS * EACH)}
    for number in range(TRANSACTIONS):
        transaction, told = declared(place.sending)
        mine = range(number * EACH, number * EACH + EACH)
        for one in mine:
            transaction.send(sender.link, Message(body=f"new {one}"))
            transaction.accept(received.deliveries[one])
        if number == TRANSACTIONS // 2:
            place.owner.kill()
        if ended(place.sending, transaction, told, failed=number % 4 == 3) == "committed":
            expected -= {f"old {one}" for one in mine}
            expected |= {f"new {one}" for one in mine}
    receiver.close()
    found = bodies(place.taking, ADDRESS)
    assert sorted(found) == sorted(expected)
    assert len([body for body in found if body.startswith("new")]) >= TRANSACTIONS * EACH // 2


@pytest.mark.requirement("B11.3")
def test_a_browser_goes_on_and_sees_each_message_once(place: Place) -> None:
    sender = place.sending.create_sender(ADDRESS)
    send_all(sender, range(COUNT))
    browser, seen = receiving(place.taking, ADDRESS, COUNT // 2, Copy())
    wait_for(place.taking, seen, COUNT // 2)
    place.owner.kill()
    send_all(sender, range(COUNT, COUNT + 10))
    browser.link.flow(1000)
    wait_for(place.taking, seen, COUNT + 10)
    assert [message.body for message in seen.messages()] == list(range(COUNT + 10))
    browser.close()
    assert bodies(place.sending, ADDRESS) == list(range(COUNT + 10))
