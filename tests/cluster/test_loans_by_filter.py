"""Queues with several owners whose consumers have filters: an owner borrows what these take (D9, D20)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from cluster.config.formats import FORMAT_LEVEL
from cluster.peers.link_messages import FIRST_CONSUMER
from node.expressions.condition import encoded_condition
from node.queue import filtering
from node.queue.filtering import LOOK_STEPS, Looking
from node.ranges.range_map import ABOVE_ALL
from node.wire.amqp091 import methods as m
from tests.cluster.links import LinkClient
from tests.cluster.test_consumers_that_move import consumers, gone_and_back
from tests.cluster.test_domains import refused
from tests.cluster.test_entitlements import entitle
from tests.cluster.test_parts_of_nodes import NAMES, Parted, settle_all
from tests.cluster.test_several_owners import Shared, delivered_once
from tests.cluster.test_subscription_filters import numbered, receiving
from tests.cluster.test_terms_of_several_owners import entries
from tests.inside import wishes_of
from tests.site import Client
from tests.wire.amqp10.performatives import credit

ODD, EVEN = "/n % 2 = 1", "/n % 2 = 0"


def consuming(client: Client, text: str = "", tag: str = "c", prefetch: int = 10, **arguments: Any) -> None:
    given = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    client.consume("q", tag, prefetch=prefetch, arguments={**({"x-filter": text} if text else {}), **given})


def bodies(client: Client) -> list[bytes]:
    client.site.run(0.5)
    return [one.body for one in client.deliveries]


def wished(found: Shared, part: int) -> dict[int, set[bytes]]:
    """By node, from 1 on, the filters for which its owner has asked a part."""
    owner, numbers = found.owner(part), {one.id: number for number, one in enumerate(found.parts(), 1)}
    asked: dict[int, set[bytes]] = {}
    for queue, filter in [] if owner is None else wishes_of(owner, found.parts()[part].id):
        asked.setdefault(numbers[queue], set()).add(filter)
    return asked


@pytest.mark.requirement("D9.1", "D20.7")
def test_a_consumer_gets_what_its_filter_takes_from_all_parts() -> None:
    found = Shared()
    first, second, third = found.clients
    found.publish(first, *numbered(1, 2, 3))
    consuming(second, ODD)
    found.publish(third, *numbered(4, 5))
    found.publish(second, *numbered(6, 7))
    found.publish(first, *numbered(8, 9))
    assert sorted(bodies(second)) == sorted(numbered(1, 3, 5, 7, 9))
    assert found.ready() == [2, 1, 1]
    consuming(third)
    assert sorted(bodies(third)) == sorted(numbered(2, 4, 6, 8))
    settle_all(found.site, second, third)
    assert first.depth("q") == 0


@pytest.mark.requirement("D9.1", "D20.7")
def test_the_consumers_of_the_owner_come_first_whatever_their_filters_are() -> None:
    found = Shared(owners=2)
    first, second, _ = found.clients
    consuming(second, ODD)
    consuming(first, "/n < 4", prefetch=2)
    found.site.run(0.5)
    found.publish(first, *numbered(0, 1, 2, 3, 4, 5))
    assert bodies(first) == numbered(0, 1)
    assert bodies(second) == numbered(3, 5)
    assert found.ready() == [2, 0]
    first.ack(first.deliveries[0])
    assert bodies(first)[2:] == numbered(2)
    assert found.ready() == [1, 0]


@pytest.mark.requirement("D9.1", "D20.7")
def test_owners_with_and_without_a_filter_get_loans_in_turns() -> None:
    found = Shared()
    first, second, third = found.clients
    consuming(second, ODD, prefetch=100)
    consuming(third, prefetch=100)
    found.site.run(0.5)
    for number in range(1, 21, 2):
        found.publish(first, *numbered(number))
        found.site.run(0.1)
    assert sorted(bodies(second) + bodies(third)) == sorted(numbered(*range(1, 21, 2)))
    assert min(len(second.deliveries), len(third.deliveries)) >= 4


@pytest.mark.requirement("D9.1", "D20.7")
@pytest.mark.parametrize("how", ["cancelled", "beside another", "replaced", "lost"])
def test_a_filter_is_taken_back_when_no_consumer_has_it_any_more(how: str) -> None:
    found = Shared()
    first, second, third = found.clients
    consuming(second, ODD)
    if how == "beside another":
        consuming(second, EVEN, "other")
    found.site.run(0.5)
    odd, even = encoded_condition(ODD), encoded_condition(EVEN)
    both = how == "beside another"
    assert wished(found, 0) == wished(found, 2) == {2: {odd, even} if both else {odd}}
    if how == "lost":
        found.site.nodes["n2"].stop(power=True)
        found.site.until(lambda: found.owner(1))
        found.site.run(5.0)
    elif how == "replaced":
        consuming(second, EVEN, replace=True)
    else:
        second.call(m.BasicCancel("c"), m.BasicCancelOk)
    found.site.run(0.5)
    assert wished(found, 0) == ({2: {even}} if how in ("beside another", "replaced") else {})
    before = len(second.deliveries)
    found.publish(first, *numbered(1, 3))
    found.site.run(0.5)
    assert found.ready() == [2, 0, 0]
    assert len(second.deliveries) == before
    # The owner looks at messages for no filter that is not wanted.
    owner = found.owner(0)
    assert owner is not None
    assert len(owner.queues[found.parts()[0].id].delivery.consumers.selectors()) == len(wished(found, 0))
    consuming(third, ODD)
    assert bodies(third) == numbered(1, 3)


@pytest.mark.requirement("D18.1", "D18.2", "D20.7")
@pytest.mark.parametrize("local", [True, False])
def test_other_terms_hold_for_all_parts_and_the_consumer_keeps_its_messages(local: bool) -> None:
    found = Shared()
    first, second, _ = found.clients
    publisher = second if local else first
    consuming(second, ODD)
    found.publish(publisher, *numbered(*range(1, 7)))
    assert bodies(second) == numbered(1, 3, 5)
    consuming(second, EVEN, replace=True)
    answered = len(second.deliveries)
    found.publish(publisher, *numbered(7, 8))
    assert bodies(second)[3:] == numbered(2, 4, 6, 8)
    assert answered >= 3
    consuming(second, replace=True)
    assert bodies(second)[7:] == numbered(7)
    assert {one.method.consumer_tag for one in second.deliveries} == {"c"}
    assert settle_all(found.site, second) == Counter(numbered(*range(1, 9)))
    assert first.depth("q") == 0


@pytest.mark.requirement("D9.3", "D20.7")
def test_a_consumer_gets_from_all_parts_what_its_user_may_read() -> None:
    found = Shared()
    entitle(found.site, read_filter=ODD)
    first, second, third = found.clients
    for client in (first, third):
        found.publish(client, *numbered(1, 2, 3))
    consuming(second, "/n < 3")
    assert bodies(second) == numbered(1, 1)
    assert found.ready() == [2, 0, 2]


@pytest.mark.requirement("D9.1", "D20.7", "D20.8")
@pytest.mark.parametrize("lost", ["n1", "n2"])
@pytest.mark.parametrize("moment", range(2))
def test_no_message_is_lost_or_doubled_when_an_owner_is_killed(lost: str, moment: int) -> None:
    """`n1` lends what a filter takes, and `n2` borrows."""
    found = Shared()
    first, second, third = found.clients
    found.publish(first, *numbered(*range(40)))
    consuming(second, ODD, prefetch=20)
    found.site.until(lambda: found.under_way(0), step_s=0.0005)
    found.site.run(0.002 * moment)
    found.site.nodes[lost].stop(power=True)
    found.site.run(5.0)
    consumers = [second, third] if lost == "n1" else [third]
    consuming(third, ODD, prefetch=20)
    settled = settle_all(found.site, *consumers)
    assert delivered_once(second, third) == set(numbered(*range(1, 40, 2)))
    assert settled == Counter(numbered(*range(1, 40, 2)))
    assert third.depth("q") == 20


@pytest.mark.requirement("D20.7")
def test_a_borrowed_message_that_no_consumer_takes_any_more_stays_until_one_takes_it() -> None:
    """It is in the part of the borrower then, and goes on from there."""
    found = Shared()
    first, second, third = found.clients
    consuming(second, ODD, prefetch=2)
    found.publish(first, *numbered(1, 2, 3))
    assert bodies(second) == numbered(1, 3)
    second.disconnect()
    found.site.run(0.5)
    consuming(found.site.client("n2"), "/n = 99")
    consuming(first, "/n = 2", prefetch=1)
    found.site.run(0.5)
    before = entries(found)
    found.site.run(2.0)
    assert entries(found) == before
    assert found.ready() == [0, 2, 0]
    consuming(third, "/n < 9", prefetch=10)
    assert sorted(bodies(third)) == numbered(1, 3)


@pytest.mark.requirement("D20.7")
@pytest.mark.parametrize("limits", [{"max_unsettled": 2}, {}])
def test_two_owners_whose_consumers_are_full_lend_each_other_nothing(limits: dict[str, Any]) -> None:
    found = Shared(owners=2, **limits)
    first, second, _ = found.clients
    for client in (first, second):
        consuming(client, ODD, prefetch=20 if limits else 2)
    found.publish(first, *numbered(*range(12)))
    found.publish(second, *numbered(*range(12, 24)))
    found.site.run(0.5)
    assert len(first.deliveries) == len(second.deliveries) == 2
    before = entries(found)
    found.site.run(2.0)
    assert entries(found) == before
    assert sum(found.ready()) == 20
    assert settle_all(found.site, first, second) == Counter(numbered(*range(1, 24, 2)))
    assert delivered_once(first, second) == set(numbered(*range(1, 24, 2)))


@pytest.mark.interpreted
@pytest.mark.requirement("D9.1", "D20.7")
def test_an_owner_looks_at_each_message_once_for_a_filter_and_at_some_in_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Meanwhile it lends to owners that ask for no filter, and delivers."""
    looked, steps, turns = Counter[bytes](), list[int](), list[int]()
    look, begin = Looking.look, filtering.FilteredOrder.begin

    def counted(self: Looking, first: int, run: Any) -> Any:
        found, cost = look(self, first, run)
        looked[self.selector.data] += run.count
        steps.append(cost)
        return found, cost

    def turn(self: filtering.FilteredOrder, looks: filtering.LookBudget) -> None:
        turns.append(len(steps))
        begin(self, looks)

    monkeypatch.setattr(Looking, "look", counted)
    monkeypatch.setattr(filtering.FilteredOrder, "begin", turn)
    found = Shared()
    first, second, third = found.clients
    found.publish(first, *numbered(*range(2000)))
    consuming(second, "/n = 1999 OR /n = 1998", prefetch=1)
    consuming(third, prefetch=1)
    assert bodies(third) == numbered(0)
    assert bodies(second) == numbered(1998)
    second.ack(second.deliveries[0])
    assert bodies(second)[1:] == numbered(1999)
    second.ack(second.deliveries[1])
    found.publish(first, *numbered(1999))
    assert bodies(second)[2:] == numbered(1999)
    # The borrower looks at the three messages as well.
    filter = encoded_condition("/n = 1999 OR /n = 1998")
    assert 2000 + 3 <= looked[filter] <= 2001 + 3
    in_turn = [sum(steps[low:high]) for low, high in zip(turns, [*turns[1:], len(steps)], strict=True)]
    assert max(in_turn) < 1.5 * LOOK_STEPS
    assert len([one for one in in_turn if one]) > 5


def test_a_message_that_is_undeliverable_to_a_consumer_does_not_keep_others_from_it() -> None:
    found = Shared(owners=2)
    first, second, _ = found.clients
    found.publish(second, *numbered(1))
    consuming(second, ODD, prefetch=1)
    found.site.run(0.5)
    owner, part = found.owner(1), found.parts()[1].id
    assert owner is not None
    queue = owner.queues[part]
    [key] = [one for one in queue.delivery.consumers if one[1] >= FIRST_CONSUMER]
    queue.keep_from(*key, list(queue.delivery.state.living(0, ABOVE_ALL).ranges()))
    second.nack(second.deliveries[0], requeue=True)
    for number in (3, 5):
        found.publish(first, *numbered(number))
        found.site.run(0.5)
        second.ack(second.deliveries[-1])
    assert bodies(second) == numbered(1, 3, 5)
    assert found.ready() == [0, 1]


@pytest.mark.parametrize("arguments", [{"x-filter": "a = 1"}, {"x-replace": True}], ids=["filter", "replace"])
def test_filters_and_other_terms_are_refused_while_a_member_knows_none(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    client = Shared(owners=2).clients[1]
    consuming(client)
    monkeypatch.setattr("cluster.catalog.membership.formats.LOANS_BY_FILTER", FORMAT_LEVEL + 1)
    tag = "c" if "x-replace" in arguments else "d"
    answer = refused(client, "consume", "q", tag, arguments=arguments)
    assert answer.startswith("406 PRECONDITION_FAILED - ")
    assert "whose owners do not lend by filter; upgrade all nodes first" in answer


@pytest.mark.requirement("D18.1", "D20.7")
@pytest.mark.parametrize("late", [False, True])
def test_a_consumer_that_moves_to_another_part_gets_other_terms_there(late: bool) -> None:
    """`late`: it has moved before. Its backlog is worked out anew as well."""
    found = Parted()
    first, third = found.clients["n1"], found.clients["n3"]
    consuming(third, ODD, prefetch=0, max_backlog=9)
    found.publish(first, *numbered(1))
    assert bodies(third) == numbered(1)
    former = found.part_of("n3")
    gone_and_back(found, "n3")
    if late:
        found.site.until(lambda: not consumers(found, former))
        found.site.run(1.0)
    consuming(third, EVEN, prefetch=0, max_backlog=3, replace=True)
    found.publish(first, *numbered(*range(2, 10)))
    assert bodies(third) == numbered(1, 2, 4)
    third.ack(third.deliveries[-1], multiple=True)
    assert bodies(third)[3:] == numbered(6, 8)
    third.ack(third.deliveries[-1], multiple=True)
    found.site.until(lambda: found.nodes() == [*NAMES])
    found.site.until(lambda: consumers(found, found.part_of("n3")) == 1)
    consuming(third, ODD, prefetch=0, max_backlog=9, replace=True)
    assert sorted(bodies(third)[5:]) == numbered(3, 5, 7, 9)
    third.ack(third.deliveries[-1], multiple=True)
    found.site.run(0.5)
    third.cancel("c")
    assert first.depth("q") == 0


def hand_over(found: Shared, part: int, heir: str) -> None:
    """Have the owner of a part give the part to another node; returns when the owner has."""
    partition, owner = found.parts()[part].partition, found.owner(part)
    node = next(one for one in found.site.nodes.values() if one.broker.owners[partition] is owner)
    node.broker.host.hand_over(partition, heir, node.clock())
    node.wanted()
    found.site.until(lambda: not node.broker.owners[partition].active, step_s=0.0001)


@pytest.mark.requirement("D18.1", "D20.7")
def test_a_consumer_with_other_terms_stays_at_its_part_when_another_one_is_nearer() -> None:
    found = Shared()
    third = found.clients[2]
    consuming(third, ODD)
    hand_over(found, 2, "n1")
    found.site.run(0.5)
    consuming(third, EVEN, replace=True)
    found.site.run(0.5)
    owner = found.owner(2)
    assert owner is not None
    assert owner.queues[found.parts()[2].id].delivery.consumers.count == 1
    assert wished(found, 1) == {3: {encoded_condition(EVEN)}}


@pytest.mark.requirement("D20.7")
def test_a_new_owner_takes_back_what_a_former_one_has_asked_for() -> None:
    """The consumer with the filter leaves while there is no owner, and another one stays, which is full."""
    found = Shared()
    first, second, _ = found.clients
    consuming(second, tag="full", prefetch=1)
    found.publish(second, *numbered(2, 4))
    consuming(second, ODD)
    found.site.run(0.5)
    assert wished(found, 0) == {2: {encoded_condition(ODD)}}
    hand_over(found, 1, "n3")
    second.send(m.BasicCancel("c"))
    found.site.run(2.0)
    assert wished(found, 0) == {}
    found.publish(first, *numbered(1))
    found.site.run(0.5)
    assert found.ready() == [1, 1, 0]


@pytest.mark.requirement("B12.5", "D20.7")
def test_a_link_with_a_selector_gets_what_this_takes_from_all_parts() -> None:
    found = Shared()
    peer = LinkClient(found.site, "n2", receiving("q", ODD), credit(10))
    for client in found.clients:
        found.publish(client, *numbered(1, 2))
    found.site.run(0.5)
    assert [payload[payload.index(b"{") :] for payload in peer.payloads] == numbered(1, 1, 1)
