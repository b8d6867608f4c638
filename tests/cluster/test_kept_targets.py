"""Links of AMQP 1.0 on which clients send to targets that are kept: each message comes into its queue once,
on whichever node the link is attached, and whichever node dies (part 2, section 2.6.13).
"""

from __future__ import annotations

import pytest

from cluster.config.formats import FORMAT_LEVEL
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import TerminusDurability, TerminusExpiryPolicy
from tests.cluster.kept_links import KEPT_S, QUEUE, WAYS, client, owner, site, stolen
from tests.cluster.kept_senders import Sender, kept_tags, sending, targets
from tests.cluster.links import LinkClient
from tests.site import Client, Site
from tests.wire.amqp10.peer import transfer

__all__ = ["client", "site"]

ACCEPTED = d.Accepted()


def bodies(site: Site, name: str) -> list[bytes]:
    """The messages of the queue, as a client of AMQP 0-9-1 gets them."""
    return sorted(site.client(name).bodies(QUEUE))


def test_the_node_grants_a_kept_target_for_as_long_as_asked(site: Site, client: Client) -> None:
    target = Sender(site, "n2").answer.target
    assert (target.durable, target.timeout) == (TerminusDurability.UNSETTLED_STATE, KEPT_S)
    never = Sender(site, "n2", timeout=0, expiry_policy=TerminusExpiryPolicy.NEVER).answer.target
    assert (never.durable, never.expiry_policy) == (TerminusDurability.UNSETTLED_STATE, "never")


@pytest.mark.sentence("1.0/2.6.3-2", "1.0/2.6.13-1", "1.0/2.7.3-3", "1.0/2.7.3-4")
@pytest.mark.requirement("B7.2", "B7.6", "B7.8")
@pytest.mark.parametrize("way", WAYS)
def test_a_client_learns_which_deliveries_have_come(site: Site, client: Client, way: str) -> None:
    link = Sender(site, "n2")
    link.deliver(b"1", b"2", b"3")
    link.accepted(b"1", b"2", b"3")
    link.settle(b"2")
    link.end(way)
    site.until(lambda: kept_tags(site) == {b"1", b"3"})
    again = Sender(site, "n3", link.unsettled | {b"never sent": None})
    assert again.told == {b"1": ACCEPTED, b"3": ACCEPTED}
    again.deliver(b"never sent")
    again.deliver(b"1", resume=True, settled=True)
    again.deliver(b"unknown", resume=True)
    again.deliver(b"3", resume=True)
    again.accepted(b"3", b"never sent")
    again.settle(b"3", b"never sent")
    assert bodies(site, "n1") == [b"1", b"2", b"3", b"never sent"]
    site.until(lambda: not kept_tags(site))


@pytest.mark.requirement("B7.8")
def test_a_message_that_a_consumer_has_taken_is_still_known(site: Site, client: Client) -> None:
    link = Sender(site, "n2")
    link.deliver(b"1")
    link.accepted(b"1")
    link.lose()
    assert bodies(site, "n1") == [b"1"]
    assert Sender(site, "n3", link.unsettled).told == {b"1": ACCEPTED}


@pytest.mark.sentence("1.0/2.6.13-2")
def test_a_delivery_that_the_client_does_not_tell_is_settled(site: Site, client: Client) -> None:
    link = Sender(site, "n2")
    link.deliver(b"1", b"2")
    link.accepted(b"1", b"2")
    link.lose()
    assert Sender(site, "n3", {b"2": None}).told == {b"2": ACCEPTED}
    site.until(lambda: kept_tags(site) == {b"2"})


@pytest.mark.requirement("B7.8")
def test_a_delivery_on_its_way_does_not_come_behind_the_next_attach(site: Site, client: Client) -> None:
    """The client attaches its link elsewhere before the owner has got what it has sent."""
    name = owner(site)
    first, second = (each for each in site.nodes if each != name)
    link = Sender(site, first)
    site.nodes[first].pause()
    link.deliver(b"1")
    again = Sender(site, second, link.unsettled)
    assert not again.told, "the message has not come"
    again.deliver(b"1")
    again.accepted(b"1")
    site.nodes[first].resume()
    site.run(2.0)
    assert stolen(link) and link.outcomes() == {b"1": None}
    assert bodies(site, name) == [b"1"]


@pytest.mark.requirement("B7.10")
@pytest.mark.parametrize("killed", ["owner", "front end", "both"])
@pytest.mark.parametrize("power", [True, False])
def test_deliveries_are_known_whichever_node_dies(
    site: Site, client: Client, killed: str, power: bool
) -> None:
    at_owner = owner(site)
    name = at_owner if killed == "both" else next(one for one in site.nodes if one != at_owner)
    link = Sender(site, name)
    link.deliver(b"1", b"2", b"3")
    link.accepted(b"1", b"2", b"3")
    link.settle(b"1")
    link.deliver(b"4", b"5")
    site.nodes[at_owner if killed == "owner" else name].stop(power=power)
    if killed == "owner":
        link.lose()
    alive = next(each for each in site.nodes if each not in (at_owner, name))
    again = Sender(site, alive, link.unsettled)
    assert again.told.keys() >= {b"2", b"3"}
    again.deliver(*(tag for tag in (b"4", b"5") if tag not in again.told))
    again.accepted(*(tag for tag in (b"4", b"5") if tag not in again.told))
    assert bodies(site, alive) == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.requirement("B7.10")
def test_a_link_goes_on_where_the_owner_dies_beneath_it(site: Site, client: Client) -> None:
    at_owner = owner(site)
    name = next(one for one in site.nodes if one != at_owner)
    link = Sender(site, name)
    link.deliver(b"1")
    link.accepted(b"1")
    link.deliver(b"2", b"3")
    site.nodes[at_owner].stop(power=False)
    link.accepted(b"2", b"3")
    site.run(2 * KEPT_S)
    link.deliver(b"4")
    link.accepted(b"4")
    link.settle(b"1")
    site.until(lambda: kept_tags(site) == {b"2", b"3", b"4"})
    assert bodies(site, name) == [b"1", b"2", b"3", b"4"]


def test_a_target_is_gone_when_its_time_is_over(site: Site, client: Client) -> None:
    link = Sender(site, "n2")
    link.deliver(b"1")
    link.accepted(b"1")
    site.run(2 * KEPT_S)
    assert kept_tags(site) == {b"1"}, "the link is attached"
    link.lose()
    site.run(KEPT_S - 2)
    assert kept_tags(site) == {b"1"}
    site.run(4.0)
    assert not targets(site)
    assert not Sender(site, "n3", link.unsettled).told


@pytest.mark.parametrize("died", [True, False])
def test_the_time_of_a_target_begins_with_the_loss_of_its_node(
    site: Site, client: Client, died: bool
) -> None:
    at_owner = owner(site)
    name, other = (one for one in site.nodes if one != at_owner)
    link = Sender(site, name)
    link.deliver(b"1")
    link.accepted(b"1")
    site.nodes[name].stop(power=True)
    site.run(5.0)
    if died:
        site.nodes[name].start()
        site.nodes[at_owner].stop(power=True)
    site.run(KEPT_S - 10)
    assert kept_tags(site) == {b"1"}
    site.run(20.0)
    assert not targets(site)
    assert bodies(site, other) == [b"1"]


def test_a_link_that_is_closed_has_no_target(site: Site, client: Client) -> None:
    link = Sender(site, "n2")
    link.deliver(b"1")
    link.accepted(b"1")
    link.send(d.Detach(0, True))
    site.until(lambda: not targets(site))
    assert not Sender(site, "n3", link.unsettled).told


def test_the_tag_of_a_refused_message_is_not_kept(site: Site, client: Client) -> None:
    client.declare("full", max_length=1, overflow="reject-publish")
    link = Sender(site, "n2", queue="full")
    link.deliver(b"1", b"2")
    site.until(lambda: all(link.outcomes().values()))
    assert [type(link.unsettled[tag]) for tag in (b"1", b"2")] == [d.Accepted, d.Rejected]
    assert kept_tags(site) == {b"1"}


def test_credit_is_for_as_many_deliveries_as_an_attach_can_tell(site: Site, client: Client) -> None:
    link = Sender(site, "n2", max_frame_size=1024)
    most = link.credit
    assert 4 < most < 10
    tags = [b"%032d" % number for number in range(most)]
    link.deliver(*tags)
    link.accepted(*tags)
    assert link.credit == most, "no further credit before the client settles"
    link.lose()
    again = Sender(site, "n3", dict.fromkeys(tags), max_frame_size=1024)
    assert again.told.keys() == set(tags)
    assert again.credit == most, "credit to resume them"
    again.deliver(*tags[:4], resume=True, settled=True)
    again.deliver(*tags[4:], resume=True)
    again.accepted(*tags[4:])
    assert again.credit == most + 4
    again.settle(*tags[4:])
    again.deliver(b"new", b"newer")
    again.accepted(b"new", b"newer")
    assert again.credit > most + 4


def test_a_link_that_does_not_ask_keeps_nothing(site: Site, client: Client) -> None:
    settles_first = sending()
    settles_first.rcv_settle_mode = d.ReceiverSettleMode.FIRST
    for attach in (sending(durable=TerminusDurability.CONFIGURATION), sending(timeout=0), settles_first):
        peer = LinkClient(site, "n2", attach)
        peer.send(transfer(0, delivery_tag=b"1"))
        answer = next(one.performative for one in peer.frames if isinstance(one.performative, d.Attach))
        assert answer.target.durable is not TerminusDurability.UNSETTLED_STATE and answer.unsettled is None
    assert not targets(site)


def test_an_unsettled_map_in_parts_is_refused(site: Site, client: Client) -> None:
    attach = sending()
    attach.incomplete_unsettled = True
    peer = LinkClient(site, "n2", attach)
    site.until(lambda: peer.reads() or peer.frames[-1:])
    detach = next(one.performative for one in peer.frames if isinstance(one.performative, d.Detach))
    assert detach.error.condition == "amqp:not-implemented"


def test_no_node_keeps_targets_before_all_nodes_read_that(
    site: Site, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.catalog.membership.formats.KEPT_TARGETS", FORMAT_LEVEL + 1)
    assert Sender(site, "n2").answer.target.durable is TerminusDurability.NONE
    assert not targets(site)
