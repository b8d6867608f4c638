"""A commit in one partition is one entry of its journal, by either protocol (X7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from node.ranges.range_set import numbers_of
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import Role
from tests.cluster.kept_links import QUEUE, client, owner, site
from tests.cluster.links import LinkClient
from tests.inside import machine_of
from tests.simulation.named import NamedMessages
from tests.site import Client, Site
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import credit, receiver, sender
from tests.wire.amqp10.sections import message
from tests.wire.amqp10.transacting import CONTROL, control, coordinator, within

__all__ = ["client", "site"]

OUT, IN = 0, 1
FIRST, NEW = b"first", (b"second", b"third")


def by_amqp_0_9_1(site: Site, name: str) -> Callable[[], None]:
    """Publish two messages, and acknowledge the one that waits, but for the commit."""
    client = site.client(name, transactional=True)
    delivery = client.get(QUEUE, no_ack=False)
    assert delivery is not None and delivery.body == FIRST
    client.publish(QUEUE, *NEW)
    client.ack(delivery)
    return client.commit


def by_amqp_1_0(site: Site, name: str) -> Callable[[], None]:
    """Send two messages, and accept the one that waits, but for the discharge."""
    client = LinkClient(
        site, name, sender(OUT, QUEUE), receiver(IN, QUEUE), coordinator(), credit(1, handle=IN)
    )
    numbers = iter(range(5))

    def send(payload: bytes, handle: int, **fields: Any) -> int:
        number = next(numbers)
        frame = transfer(number, payload, handle, **fields)
        client.node.input(lambda: client.session.receive(frame))
        return number

    def outcome(number: int) -> Any:
        told = [one.performative for one in client.frames if isinstance(one.performative, d.Disposition)]
        return next(one.state for one in reversed(told) if one.first <= number <= (one.last or one.first))

    declared = send(control(d.Declare()), CONTROL)
    assert [one for one in client.payloads if FIRST in one]
    txn_id = outcome(declared).txn_id
    for body in NEW:
        send(message(body=body), OUT, delivery_tag=body, state=within(txn_id))
    client.send(d.Disposition(Role.RECEIVER, 0, settled=True, state=within(txn_id, d.Accepted())))

    def discharge() -> None:
        number = send(control(d.Discharge(txn_id, False)), CONTROL)
        client.reads()
        assert outcome(number) == d.Accepted()

    return discharge


def entries(site: Site) -> Iterator[list[tuple[str, int]]]:
    """For each entry of the queue's partition that takes or removes messages, what it does with each."""
    broker = site.nodes[owner(site)].broker
    one = next(one for one in broker.owners.values() if one.active and one.queues)
    log, named = broker.host.groups[one.partition].log, NamedMessages()
    for index in range(1, machine_of(one).applied_index + 1):
        operations = named.read(log.entry(index).data)
        found = [(kind, number) for kind, _, ranges in operations for number in numbers_of(list(ranges))]
        if found:
            yield found


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(by_amqp_0_9_1, marks=pytest.mark.requirement("X7.1")),
        pytest.param(by_amqp_1_0, marks=pytest.mark.requirement("X7.2")),
    ],
)
@pytest.mark.parametrize("name", ["n1", "n2", "n3"])
def test_a_commit_is_one_entry(
    site: Site, client: Client, begin: Callable[[Site, str], Callable[[], None]], name: str
) -> None:
    client.confirms(client.publish(QUEUE, FIRST))
    commit = begin(site, name)
    site.run(0.2)
    (published,) = entries(site)
    ((_, first),) = published
    commit()
    site.run(0.2)
    before, committed = entries(site)
    assert before == published
    assert sorted(committed) == [("PUBLISH", first + 1), ("PUBLISH", first + 2), ("SETTLE", first)]
    assert client.bodies(QUEUE) == list(NEW)
