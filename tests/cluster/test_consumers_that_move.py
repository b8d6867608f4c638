"""Consumers of queues with a part for each node, when parts come and go (requirement D20)."""

from __future__ import annotations

from collections import Counter

import pytest

from cluster.catalog.definitions import PartState, QueueDefinition
from node.wire.amqp091 import methods as m
from tests.cluster.test_parts_of_nodes import NAMES, Parted, settle_all
from tests.cluster.test_several_owners import delivered_once
from tests.site import Client, Delivery, Site


def closing(found: Parted) -> list[QueueDefinition]:
    return [one for one in found.parts() if one.part is PartState.CLOSING]


def consumers(found: Parted, part: QueueDefinition) -> int:
    """The consumers that the owner of a part has."""
    owner = found.owner(part)
    return (
        0 if owner is None or part.id not in owner.queues else owner.queues[part.id].delivery.consumers.count
    )


def gone_and_back(found: Parted, name: str) -> None:
    """A node is removed, and the removal is undone as soon as its part closes: it gets another part."""
    found.remove(name)
    found.site.until(lambda: closing(found), step_s=0.001)
    found.site.submit("n1", "keep_member", {"name": name})


@pytest.mark.requirement("D20.7")
@pytest.mark.parametrize("no_ack", [False, True])
def test_a_consumer_of_a_part_that_closes_goes_on_at_another_one(no_ack: bool) -> None:
    """It settles what it has at the part that goes, which does not wait for the consumer's end."""
    found = Parted()
    third, first = found.clients["n3"], found.clients["n1"]
    bodies = [b"%d" % number for number in range(30)]
    third.consume("q", prefetch=3, no_ack=no_ack)
    first_ones = list[Delivery]()
    found.publish(third, *bodies[:10])
    found.site.until(lambda: len(third.deliveries) >= 3)
    former = found.part_of("n3")
    gone_and_back(found, "n3")
    found.publish(first, *bodies[10:20])
    found.site.until(lambda: not consumers(found, former))
    if no_ack:
        found.site.until(lambda: len(third.deliveries) == 20)
    else:
        assert settle_all(found.site, third) == Counter(bodies[:20])
        first_ones, third.deliveries = third.deliveries, []
    found.site.until(lambda: found.nodes() == [*NAMES])
    assert found.part_of("n3").id != former.id
    found.site.until(lambda: consumers(found, found.part_of("n3")) == 1)
    found.publish(third, *bodies[20:])
    found.site.until(lambda: len(third.deliveries) >= (30 if no_ack else 3))
    if not no_ack:
        assert settle_all(found.site, third) == Counter(bodies[20:])
        third.deliveries = first_ones + third.deliveries
    assert delivered_once(third) == set(bodies)
    assert len(third.deliveries) == 30
    assert first.depth("q") == 0
    assert not third.cancelled


@pytest.mark.requirement("D20.7")
def test_a_consumer_that_was_there_before_the_part_of_its_node_moves_to_it() -> None:
    found = Parted()
    fourth = _of_a_newcomer(found)
    found.publish(found.clients["n1"], *(b"a" for _ in range(4)))
    found.site.until(lambda: len(fourth.deliveries) == 2)
    found.site.until(lambda: "n4" in found.nodes())
    found.site.until(lambda: consumers(found, found.part_of("n4")) == 1)
    assert [consumers(found, part) for part in found.parts()].count(1) == 1
    # The two messages that the consumer has count in its prefetch: it borrows none.
    found.site.run(0.5)
    assert len(fourth.deliveries) == 2
    assert settle_all(found.site, fourth) == {b"a": 4}
    fourth.deliveries.clear()
    found.publish(fourth, b"own")
    found.site.until(lambda: [one.body for one in fourth.deliveries] == [b"own"])


def _of_a_newcomer(found: Parted) -> Client:
    """A consumer of a node that has no part yet, at the part of another node."""
    found.site.submit("n1", "add_member", {"name": "n4", "peers": "n4"})
    client = found.site.client("n4")
    client.consume("q", prefetch=2)
    assert "n4" not in found.nodes()
    return client


@pytest.mark.requirement("D20.7", "D20.8")
@pytest.mark.parametrize("lost", ["n1", "n2", "n3"])
@pytest.mark.parametrize("moment", range(4))
def test_a_consumer_that_moves_gets_each_message_when_an_owner_is_killed(lost: str, moment: int) -> None:
    """The owners of the part that the consumer leaves, and of the one to which it goes, may be killed."""
    found = Parted()
    fourth = _of_a_newcomer(found)
    bodies = [b"%d" % number for number in range(40)]
    tags = fourth.publish("q", *bodies)
    found.site.until(lambda: any(one.node == "n4" for one in found.parts()), step_s=0.001)
    found.site.run(0.04 * moment)
    found.site.nodes[lost].stop(power=True)
    found.site.run(4.0)
    found.site.nodes[lost].start()
    assert all(fourth.confirms(tags))
    assert settle_all(found.site, fourth) == Counter(bodies)
    assert delivered_once(fourth) == set(bodies)
    assert found.site.client("n2").depth("q") == 0


@pytest.mark.parametrize("moment", range(5))
@pytest.mark.parametrize("how", ["cancel", "disconnect", "delete"])
def test_a_consumer_that_ends_while_it_moves_is_gone(how: str, moment: int) -> None:
    found = Parted()
    third = found.clients["n3"]
    tag = third.consume("q", prefetch=2)
    found.publish(third, b"1", b"2", b"3")
    found.site.until(lambda: len(third.deliveries) == 2)
    gone_and_back(found, "n3")
    found.site.run(0.03 * moment)
    if how == "cancel":
        third.cancel(tag)
        third.ack(third.deliveries[0])
        third.nack(third.deliveries[1], requeue=True)
    elif how == "disconnect":
        third.disconnect()
    else:
        found.clients["n1"].delete("q")
        found.site.until(lambda: third.cancelled == [tag])
        return
    found.site.until(lambda: found.nodes() == [*NAMES])
    found.site.run(1.0)
    assert not any(consumers(found, part) for part in found.parts())
    left = [b"2", b"3"] if how == "cancel" else [b"1", b"2", b"3"]
    assert sorted(found.clients["n2"].bodies("q")) == left


def test_a_consumer_without_credit_gets_some_at_the_part_to_which_it_has_moved() -> None:
    """It acknowledges while no part has it."""
    found = Parted()
    third = found.clients["n3"]
    third.consume("q", prefetch=1)
    found.publish(third, b"1", b"2")
    found.site.until(lambda: third.deliveries)
    gone_and_back(found, "n3")
    found.site.until(lambda: not consumers(found, closing(found)[0]), step_s=0.0005)
    third.ack(third.deliveries[0])
    found.site.until(lambda: len(third.deliveries) == 2)
    third.call(m.BasicQos(0, 5), m.BasicQosOk)
    third.ack(third.deliveries[1])
    found.site.until(lambda: found.nodes() == [*NAMES])


def counted(site: Site, *names: str) -> int:
    """The consumers that front ends know."""
    return sum(len(site.front_end(name)._consumers) for name in names)


def test_front_ends_forget_consumers_that_have_moved() -> None:
    found = Parted()
    third = found.clients["n3"]
    for _ in range(3):
        tag = third.consume("q", prefetch=1)
        gone_and_back(found, "n3")
        found.site.until(lambda: found.nodes() == [*NAMES])
        found.site.until(lambda: consumers(found, found.part_of("n3")) == 1)
        third.cancel(tag)
    third.disconnect()
    assert counted(found.site, *NAMES) == 0
