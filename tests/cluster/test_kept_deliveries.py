"""Links of AMQP 1.0 whose unsettled deliveries outlive them: on any node, whichever node dies (part 2,
section 2.6.13).
"""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import FORMAT_LEVEL
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import TerminusDurability, TerminusExpiryPolicy
from tests.cluster.kept_links import (
    ACCEPTED,
    KEPT_S,
    QUEUE,
    WAYS,
    Link,
    client,
    drained,
    keeping,
    kept,
    owner,
    publish,
    site,
    stolen,
)
from tests.cluster.kept_senders import sending
from tests.cluster.links import LinkClient
from tests.site import Client, Site
from tests.wire.amqp10.performatives import credit, receiver, settled

__all__ = ["client", "site"]


@pytest.mark.requirement("B11.6")
def test_the_node_grants_the_unsettled_state_for_as_long_as_asked(site: Site, client: Client) -> None:
    source = Link(site, "n2", keeping()).answer.source
    assert (source.durable, source.timeout) == (TerminusDurability.UNSETTLED_STATE, KEPT_S)
    never = keeping(timeout=0, expiry_policy=TerminusExpiryPolicy.NEVER)
    source = Link(site, "n2", never).answer.source
    assert (source.durable, source.expiry_policy) == (TerminusDurability.UNSETTLED_STATE, "never")


@pytest.mark.sentence(
    "1.0/2.6.3-2", "1.0/2.6.13-3", "1.0/2.6.13-6", "1.0/2.7.3-4", "1.0/3.4.6-3", "1.0/3.4.6-4", "1.0/3.4.6-5"
)
@pytest.mark.requirement("B7.1", "B7.4", "B7.5", "B7.7", "X5.1")
@pytest.mark.parametrize("way", WAYS)
def test_a_message_waits_for_its_link_and_no_other_consumer_gets_it(
    site: Site, client: Client, way: str
) -> None:
    link = Link(site, "n2", keeping())
    publish(client, b"1", b"2")
    assert link.bodies == b"12"
    link.end(way)
    site.until(lambda: kept(site) == 2)
    publish(client, b"3")
    other = LinkClient(site, "n1", receiver(1, QUEUE), credit(10, handle=1))
    assert [payload[-1:] for payload in other.payloads] == [b"3"]
    again = Link(site, "n3", keeping(dict.fromkeys(link.tags)))
    assert again.told == set(link.tags) and again.tags == link.tags and again.bodies == b"12"
    assert all(one.resume and one.state == d.Received(0, 0) for one in again.transfers)
    assert list((again.answer.unsettled or {}).values()) == [d.Received(0, 0)] * 2
    assert again.accept(0, 1)
    other.send(settled(0, 0, ACCEPTED))
    drained(site, client)


@pytest.mark.sentence("1.0/2.6.13-2", "1.0/2.7.3-3", "1.0/2.7.5-11", "1.0/3.4.6-1", "1.0/3.4.6-2")
@pytest.mark.requirement("B7.1", "B7.3")
def test_outcomes_that_the_peer_has_reached_are_taken_when_it_attaches_again(
    site: Site, client: Client
) -> None:
    link = Link(site, "n2", keeping())
    publish(client, b"1", b"2", b"3", b"4")
    one, two, three, four = link.tags
    link.lose()
    told = {one: ACCEPTED, two: d.Received(0, 0), three: d.Released(), b"none of the node's": ACCEPTED}
    again = Link(site, "n3", keeping(told))
    assert again.told == {two, four}
    assert [(each.delivery_tag, each.resume) for each in again.transfers][:2] == [(two, True), (four, False)]
    site.run(0.5)
    assert sorted(again.bodies) == sorted(b"243"), "the released message comes as another delivery"
    again.accept(0, 2)
    drained(site, client)


@pytest.mark.requirement("B7.7")
def test_a_peer_may_forget_a_delivery_only_once_its_outcome_is_safe(site: Site, client: Client) -> None:
    name = owner(site)
    link = Link(site, name, keeping())
    publish(client, b"1")
    assert link.bodies == b"1"
    others = [node for each, node in site.nodes.items() if each != name]
    for node in others:
        node.pause()
    assert not link.accept(0), "no majority has the outcome"
    for node in others:
        node.resume()
    site.until(lambda: link.settlements)
    (answer,) = link.settlements
    assert answer.settled and answer.role is d.Role.SENDER
    drained(site, site.client(name))


def test_a_message_goes_back_when_the_time_of_its_link_is_over(site: Site, client: Client) -> None:
    link = Link(site, "n2", keeping())
    publish(client, b"1")
    assert link.bodies == b"1"
    link.lose()
    other = LinkClient(site, "n3", receiver(1, QUEUE), credit(10, handle=1))
    site.run(KEPT_S - 2)
    assert not other.payloads
    site.run(4.0)
    assert [payload[-1:] for payload in other.payloads] == [b"1"]
    assert Link(site, "n1", keeping(dict.fromkeys(link.tags))).told == set()
    other.send(settled(0, 0, ACCEPTED))
    drained(site, client)


def test_a_link_that_is_closed_keeps_nothing(site: Site, client: Client) -> None:
    link = Link(site, "n2", keeping())
    publish(client, b"1", b"2")
    assert link.bodies == b"12"
    link.lose()
    again = Link(site, "n3", keeping(), credits=0)
    assert again.told == set(link.tags)
    again.send(credit(1))
    assert again.bodies == b"1"
    again.send(d.Detach(0, True))
    other = LinkClient(site, "n1", receiver(1, QUEUE), credit(10, handle=1))
    assert sorted(payload[-1:] for payload in other.payloads) == [b"1", b"2"]
    other.send(settled(0, 1, ACCEPTED))
    drained(site, client)


@pytest.mark.requirement("B7.5", "B7.7")
@pytest.mark.parametrize("way", ["closed", "lost", "taken over"])
@pytest.mark.parametrize("ran_ms", range(0, 14, 2))
def test_a_delivery_may_be_on_the_way_to_a_link_that_ends(
    site: Site, client: Client, way: str, ran_ms: int
) -> None:
    """A closed link keeps no message, whatever its expiry policy says, and a lost one keeps the message."""
    never: dict[str, Any] = {"timeout": 0, "expiry_policy": TerminusExpiryPolicy.NEVER}
    name = next(one for one in site.nodes if one != owner(site))
    link = Link(site, name, keeping(**never))
    client.publish(QUEUE, b"1")
    site.run(ran_ms / 1000)
    if way == "closed":
        link.send(d.Detach(0, True))
    elif way == "lost":
        link.lose()
    if way != "closed":
        again = Link(site, name, keeping({}, **never))
        site.until(lambda: again.bodies == b"1")
        again.send(d.Detach(0, True))
    site.until(lambda: not kept(site))
    other = LinkClient(site, "n1", receiver(1, QUEUE), credit(10, handle=1))
    site.until(lambda: [payload[-1:] for payload in other.payloads] == [b"1"])
    other.send(settled(0, 0, ACCEPTED))
    drained(site, client)


@pytest.mark.sentence("1.0/2.6.1-2")
@pytest.mark.requirement("B7.5")
@pytest.mark.parametrize("name", ["n2", "n3"])
def test_a_link_that_is_attached_again_takes_the_deliveries_from_the_one_before(
    site: Site, client: Client, name: str
) -> None:
    """The node has not noticed yet that the first connection is lost."""
    link = Link(site, "n2", keeping())
    publish(client, b"1", b"2")
    assert link.bodies == b"12"
    again = Link(site, name, keeping(dict.fromkeys(link.tags)))
    assert again.bodies == b"12" and all(one.resume for one in again.transfers)
    assert stolen(link)
    link.send(settled(0, 1, d.Released()))
    link.lose()
    site.run(1.0)
    assert again.bodies == b"12" and not kept(site)
    publish(client, b"3")
    assert again.bodies == b"123"
    again.accept(0, 2)
    drained(site, client)


def test_credit_bounds_what_comes_again(site: Site, client: Client) -> None:
    link = Link(site, "n2", keeping())
    publish(client, b"1", b"2", b"3")
    assert link.bodies == b"123"
    link.lose()
    again = Link(site, "n3", keeping(), credits=2)
    assert again.bodies == b"12" and len(again.told) == 3
    again.lose()
    third = Link(site, "n2", keeping(), credits=3)
    assert third.bodies == b"123"
    third.accept(0, 2)
    drained(site, client)


@pytest.mark.sentence("1.0/2.7.5-12")
@pytest.mark.requirement("B7.5")
def test_a_resumed_delivery_may_have_several_frames(site: Site, client: Client) -> None:
    link = Link(site, "n2", keeping())
    publish(client, b"a" * 2000)
    (tag,) = link.tags
    link.lose()
    again = Link(site, "n3", keeping({tag: None}), max_frame_size=512)
    first, *others = again.transfers
    assert first.resume and first.more and others and not any(one.resume for one in others)
    assert sum(map(len, again.payloads)) > 2000
    again.accept(0)
    drained(site, client)


def test_a_link_has_no_more_deliveries_than_an_attach_can_name(site: Site, client: Client) -> None:
    link = Link(site, "n2", keeping(), credits=100, max_frame_size=512)
    publish(client, *(b"%d" % number for number in range(40)))
    site.run(0.5)
    came = len(link.tags)
    assert 1 <= came < 40
    link.lose()
    again = Link(site, "n3", keeping(dict.fromkeys(link.tags)), credits=100, max_frame_size=512)
    assert again.told == set(link.tags) and len(again.tags) == came
    again.accept(0, came - 1)
    assert len(again.tags) > came


def test_an_unsettled_map_in_parts_is_refused(site: Site, client: Client) -> None:
    attach = keeping()
    attach.incomplete_unsettled = True
    (answer, detach) = LinkClient(site, "n2").send(attach)
    assert answer.source is None and detach.error.condition == "amqp:not-implemented"


@pytest.mark.parametrize(
    "arguments", [{"single_active_consumer": True}, {"lease_period": 5000}, {"group_by": "g"}]
)
def test_queues_that_keep_no_deliveries_say_so(site: Site, client: Client, arguments: dict[str, Any]) -> None:
    client.declare("other", **arguments)
    answer = Link(site, "n2", keeping(queue="other")).answer
    assert answer.source.durable is TerminusDurability.NONE and answer.unsettled is None


@pytest.mark.requirement("B11.6")
@pytest.mark.parametrize("sends", [False, True])
@pytest.mark.parametrize("octets", [1_000, 70_000])
def test_a_terminus_with_long_names_is_not_kept(site: Site, client: Client, octets: int, sends: bool) -> None:
    name = next(one for one in site.nodes if one != owner(site))
    peer, attach = LinkClient(site, name), sending() if sends else keeping()
    attach.name = "é" * (octets // 2)
    peer.submit(attach)
    site.until(lambda: peer.reads() or peer.frames)
    told = next(one.performative for one in peer.frames if isinstance(one.performative, d.Attach))
    terminus = told.target if sends else told.source
    kept_whole = terminus.durable is TerminusDurability.UNSETTLED_STATE
    assert kept_whole == (octets == 1_000)
    publish(client, b"1")


def test_no_node_keeps_deliveries_before_all_nodes_read_that(
    site: Site, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.catalog.membership.formats.LINKS_IN_TERMS", FORMAT_LEVEL + 1)
    link = Link(site, "n2", keeping())
    assert link.answer.source.durable is TerminusDurability.NONE
    publish(client, b"1")
    assert link.bodies == b"1"
    link.lose()
    other = LinkClient(site, "n3", receiver(1, QUEUE), credit(10, handle=1))
    assert [payload[-1:] for payload in other.payloads] == [b"1"]
