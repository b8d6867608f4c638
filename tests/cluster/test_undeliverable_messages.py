"""A message that a consumer returns as undeliverable here comes to other consumers alone (AMQP 1.0, part 3
§3.4.5).
"""

from __future__ import annotations

from typing import Any

import pytest

from cluster.owner.requests import FrontEndRequests
from node.delivery.settlements import Outcome, Settlement
from node.queue.consumers import KEPT_RANGES
from node.refusal import Refusal
from tests.cluster.kinds import KINDS, declare
from tests.cluster.links import Taker
from tests.cluster.test_drains import owner_of, partition_of, publish
from tests.site import Site

BODIES = [b"%d" % number for number in range(6)]
ORDERS: dict[str, dict[str, Any]] = {
    "by age": {},
    "by priority": {"max_priority": 5},
}


@pytest.fixture
def site() -> Site:
    return Site("n1", "n2", "n3")


@pytest.mark.requirement("B6.8")
@pytest.mark.sentence("1.0/3.4.5-2")
@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_returned_message_waits_for_another_consumer(
    site: Site, kind: str, order: str, mode: int, failed: bool
) -> None:
    client = site.client("n1")
    queue = declare(client, kind, **ORDERS[order])
    near = "n1" if kind == "exclusive" else "n2"
    publish(client, *BODIES[:3], queue=queue, delivery_mode=mode)
    one = Taker(site, near, queue, holder=client.holder)
    assert one.drain(2) == BODIES[:2]
    one.refuse(one.numbers[0], failed=failed)
    assert one.drain(10) == BODIES[2:3]
    publish(client, *BODIES[3:], queue=queue, delivery_mode=mode)
    assert one.drain(10) == BODIES[3:]
    other = Taker(site, "n1", queue, holder=client.holder)
    assert other.drain(10) == BODIES[:1]
    assert other.redelivered == [True]


@pytest.mark.requirement("B6.8")
@pytest.mark.sentence("1.0/3.4.5-2")
@pytest.mark.parametrize("step", range(0, 20, 2))
def test_a_message_goes_from_one_consumer_to_the_next_and_waits_then(site: Site, step: int) -> None:
    client = site.client("n1")
    client.declare("q")
    takers = [Taker(site, name, limit=100) for name in ("n1", "n2", "n2", "n3")]
    publish(client, b"a")
    for _ in takers:
        site.until(lambda: any(one.numbers and not one.settled for one in takers))
        (holder,) = (one for one in takers if one.numbers and not one.settled)
        site.run(step / 4000)
        holder.settled = True
        holder.refuse()
    site.run(0.5)
    assert [one.bodies for one in takers] == [[b"a"]] * 4
    assert client.depth("q") == 1
    assert Taker(site, "n1").drain(1) == [b"a"]


@pytest.mark.requirement("B6.7")
@pytest.mark.sentence("1.0/3.4.4-1")
def test_it_counts_as_a_failed_delivery_or_not(site: Site) -> None:
    client = site.client("n1")
    client.declare("q", delivery_limit=1)
    publish(client, b"failed", b"released")
    takers = [Taker(site, "n2") for _ in range(3)]
    for taker in takers[:2]:
        assert len(taker.drain(2)) == 2
        failed, released = taker.numbers
        taker.refuse(failed)
        taker.refuse(released, failed=False)
    assert takers[2].drain(2) == [b"released"]


@pytest.mark.parametrize("arguments", [{}, {"lease_period": 60_000}], ids=["plain", "leases with tokens"])
def test_in_a_transaction_too(site: Site, arguments: dict[str, Any]) -> None:
    client = site.client("n1")
    client.declare("q", **arguments)
    publish(client, b"a")
    taker, answers = Taker(site, "n2"), list[Refusal | None]()
    assert taker.drain(5) == [b"a"]
    outcome = Outcome.UNDELIVERABLE_HERE
    settled = [Settlement(taker.leases[0], [(taker.numbers[0],) * 2], outcome)]
    taker.node.input(lambda: taker.front_end.commit([], settled, answers.append))
    site.until(lambda: answers)
    assert taker.drain(5) == []
    assert Taker(site, "n2").drain(5) == [b"a"]


def test_in_a_queue_with_groups_later_messages_of_the_group_do_not_overtake_it(site: Site) -> None:
    client = site.client("n1")
    client.declare("q", group_by="routing-key")
    publish(client, *BODIES[:2])
    one = Taker(site, "n2")
    assert one.drain(1) == BODIES[:1]
    one.refuse()
    assert one.drain(5) == []
    other = Taker(site, "n3")
    assert other.drain(5) == BODIES[:2]


def test_a_consumer_that_refuses_everything_makes_the_owner_remember_what_is_there(site: Site) -> None:
    """The owner forgets the messages that other consumers have taken since."""
    client = site.client("n1")
    client.declare("q")
    owner = site.nodes[owner_of(site)].broker.owners[partition_of(site)]
    (queue,) = owner.queues.values()
    one = Taker(site, "n2")
    for round in range(2 * KEPT_RANGES):
        publish(client, b"refused", b"accepted")
        assert len(one.drain(2 * round + 2)) == 2
        one.refuse(one.numbers[-2])
        other = Taker(site, "n3", no_ack=True)
        assert other.drain(1) == [b"refused"]
        other.leave()
    found = queue.delivery.consumers.get(*next(iter(queue.delivery.consumers)))
    assert found is not None and found.undeliverable is not None
    assert found.undeliverable.numbers.range_count() < KEPT_RANGES
    assert len(one.numbers) == len(set(one.numbers))


def test_a_queue_that_is_gone_or_out_of_reach_is_no_matter(site: Site) -> None:
    client = site.client("n2")
    client.declare("q", queue_type="classic")
    publish(client, b"a", b"b")
    taker = Taker(site, "n1")
    assert taker.drain(2) == [b"a", b"b"]
    site.nodes["n2"].stop(power=False)
    link = site.nodes["n1"].broker.links.to(partition_of(site))
    site.until(lambda: link.unreachable)
    taker.refuse(taker.numbers[0])
    assert not link._requests
    site.nodes["n2"].start()
    site.until(lambda: site.nodes["n2"].ready)
    other = site.client("n2")
    site.until(lambda: other.depth("q") == 1)
    other.delete("q")
    taker.refuse(taker.numbers[1])
    site.run(0.1)
    assert not link._requests


@pytest.mark.interpreted
def test_an_owner_of_the_last_release_gives_the_message_to_any_consumer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such an owner takes an unknown request for a basic.get of the queue in the first argument."""
    take = FrontEndRequests.take

    def of_last_release(
        self: FrontEndRequests, front_end: int, epoch: int, request: int, name: str, arguments: list[Any]
    ) -> None:
        known = ("get", "purge", "count", "redeliver")
        take(self, front_end, epoch, request, name if name in known else "get", arguments)

    client = site.client("n1")
    client.declare("q")
    publish(client, b"a")
    taker = Taker(site, "n2", limit=5)
    site.until(lambda: taker.bodies)
    monkeypatch.setattr(FrontEndRequests, "take", of_last_release)
    taker.refuse()
    site.until(lambda: len(taker.bodies) == 2)
