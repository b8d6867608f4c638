"""Links whose deliveries are kept, while nodes die, are cut off, and come back with what they have lost
(docs/decisions/0047-leases-of-links.md).
"""

from __future__ import annotations

import pytest

from cluster.owner.requests import FrontEndRequests
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import TerminusExpiryPolicy
from tests.cluster.kept_links import (
    ACCEPTED,
    QUEUE,
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
from tests.cluster.links import LinkClient
from tests.cluster.test_leases import isolate
from tests.site import Client, Site
from tests.wire.amqp10.performatives import credit, receiver, settled

__all__ = ["client", "site"]


@pytest.mark.requirement("B7.9", "X5.1", "X5.2")
@pytest.mark.parametrize("killed", ["owner", "front end", "both"])
@pytest.mark.parametrize("power", [True, False])
def test_deliveries_are_kept_whichever_node_dies(
    site: Site, client: Client, killed: str, power: bool
) -> None:
    at_owner = owner(site)
    name = at_owner if killed == "both" else next(one for one in site.nodes if one != at_owner)
    link = Link(site, name, keeping())
    publish(client, b"1", b"2", b"3")
    one, two, _three = link.tags
    assert link.accept(0), "settled"
    site.nodes[at_owner if killed == "owner" else name].stop(power=power)
    if killed == "owner":
        link.lose()
    alive = next(each for each in site.nodes if each not in (at_owner, name))
    other = LinkClient(site, alive, receiver(1, QUEUE), credit(10, handle=1))
    site.run(8.0)
    assert not other.payloads
    again = Link(site, alive, keeping({one: ACCEPTED, two: ACCEPTED}))
    site.run(8.0)
    assert one not in again.told and two not in again.told
    assert again.bodies == b"3" and not other.payloads
    again.accept(0)
    drained(site, site.client(alive))


@pytest.mark.requirement("B7.9")
def test_an_owner_tells_what_a_link_has_once_a_majority_confirms_that_it_leads(
    site: Site, client: Client
) -> None:
    """A successor may have leased messages to the link: the client would forget them."""
    name = owner(site)
    Link(site, name, keeping()).send(d.Detach(0, True))
    link = LinkClient(site, name)
    partition = client.node.broker.catalog.state.queues["/", QUEUE].partition
    mend = isolate(site, name)
    link.submit(keeping({b"tag": None}))
    site.run(0.1)
    assert site.nodes[name].broker.may_serve(partition), "the owner has its lease still"
    assert not [one for one in link.reads() if isinstance(one, d.Attach)]
    mend()
    site.until(lambda: [one for one in link.reads() if isinstance(one, d.Attach)])


@pytest.mark.requirement("B7.9", "B7.7")
def test_closing_a_link_late_closes_none_that_has_been_attached_elsewhere(site: Site, client: Client) -> None:
    """The client has closed the link at a node that was cut off, and has lost that connection then."""
    at_owner = owner(site)
    cut, alive = (one for one in site.nodes if one != at_owner)
    link = Link(site, cut, keeping(), credits=0)
    mend = isolate(site, cut)
    link.submit(d.Detach(0, True))
    site.run(0.01)
    link.lose()
    again = Link(site, alive, keeping({}))
    publish(site.client(at_owner), b"1")
    assert again.bodies == b"1"
    again.lose()
    site.until(lambda: kept(site) == 1)
    mend()
    site.run(3.0)
    assert kept(site) == 1
    third = Link(site, cut, keeping(dict.fromkeys(again.tags)))
    assert third.told == set(again.tags)
    assert third.accept(0)
    drained(site, client)


@pytest.mark.requirement("B7.9")
@pytest.mark.parametrize("ran_ms", range(0, 20, 2))
def test_a_link_that_is_closed_while_its_owner_dies_keeps_nothing(
    site: Site, client: Client, ran_ms: int
) -> None:
    at_owner = owner(site)
    name, alive = (one for one in site.nodes if one != at_owner)
    link = Link(site, name, keeping(timeout=0, expiry_policy=TerminusExpiryPolicy.NEVER))
    publish(client, b"1", b"2")
    assert link.bodies == b"12"
    client.publish(QUEUE, b"3")
    site.run(ran_ms / 1000)
    link.submit(d.Detach(0, True))
    site.run(ran_ms / 2000)
    site.nodes[at_owner].stop(power=False)
    site.until(lambda: link.came(d.Detach))
    other = LinkClient(site, alive, receiver(1, QUEUE), credit(10, handle=1))
    site.until(lambda: len(other.payloads) >= 2 and not kept(site))
    other.send(settled(0, 2, ACCEPTED))
    drained(site, site.client(alive))


def test_a_consumer_that_comes_back_with_its_front_end_has_lost_its_link(site: Site, client: Client) -> None:
    """The link has been attached at another node while the front end was frozen, and given up."""
    at_owner = owner(site)
    frozen, alive = (name for name in site.nodes if name != at_owner)
    link = Link(site, frozen, keeping())
    publish(client, b"1", b"2")
    assert link.bodies == b"12"
    site.nodes[frozen].pause()
    site.run(8.0)
    again = Link(site, alive, keeping(dict.fromkeys(link.tags)))
    assert again.bodies == b"12"
    site.nodes[frozen].resume()
    site.until(lambda: link.came(d.Detach))
    assert stolen(link)
    publish(site.client(at_owner), b"3")
    assert again.bodies == b"123" and link.bodies == b"12"
    again.accept(0, 2)
    drained(site, site.client(at_owner))


@pytest.mark.requirement("B7.9")
@pytest.mark.parametrize("ran_ms", range(12))
def test_an_attach_that_a_front_end_sends_again_takes_the_link_from_no_consumer(
    site: Site, client: Client, ran_ms: int
) -> None:
    """The owner has lost a message of the front end, which greets again while its attach waits."""
    at_owner = owner(site)
    name, other = (one for one in site.nodes if one != at_owner)
    link = Link(site, name, keeping())
    publish(client, b"1")
    assert link.bodies == b"1"
    link.lose()
    site.until(lambda: kept(site) == 1)
    again = LinkClient(site, other)
    again.submit(keeping({}), credit(10))
    node = site.nodes[at_owner]
    for _ in range(3):
        site.run(ran_ms / 2000)
        node.input(lambda: node.broker.peer_gap(other, node.clock()))
    site.until(lambda: again.payloads)
    publish(client, b"2")
    assert [payload[-1:] for payload in again.payloads] == [b"1", b"2"]
    assert not [one for one in again.frames if isinstance(one.performative, d.Detach)]


@pytest.mark.requirement("B7.9")
@pytest.mark.parametrize("ran_ms", range(12, 32, 2))
def test_a_late_return_ends_no_lease_of_a_link_that_is_on_its_way_to_the_log(
    site: Site, client: Client, ran_ms: int
) -> None:
    """The front end that returns the messages was cut off, and has lost them to the link."""
    at_owner = owner(site)
    cut, alive = (one for one in site.nodes if one != at_owner)
    rival = LinkClient(site, cut, receiver(1, QUEUE), credit(2, handle=1))
    publish(client, b"1", b"2")
    site.until(lambda: len(rival.payloads) == 2)
    link = Link(site, alive, keeping(), credits=0)
    mend = isolate(site, cut)
    rival.submit(settled(0, 1, d.Released()))
    beside = site.client(at_owner)
    site.until(lambda: beside.depth(QUEUE) == 2)
    mend()
    site.run(ran_ms / 1000)
    link.submit(credit(2))
    site.until(lambda: len(link.payloads) == 2)
    site.run(0.1)
    link.lose()
    site.until(lambda: kept(site) == 2)
    again = Link(site, alive, keeping(dict.fromkeys(link.tags)))
    assert again.told == set(link.tags)
    assert again.accept(0, 1)
    drained(site, site.client(at_owner))


@pytest.mark.interpreted
def test_a_link_that_is_closed_gets_nothing_of_the_next_owner(
    site: Site, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner dies before it has answered that nothing is kept for the link any more."""
    at_owner = owner(site)
    name, alive = (one for one in site.nodes if one != at_owner)
    link = Link(site, name, keeping(), credits=5)
    monkeypatch.setattr(FrontEndRequests, "_close_link", lambda self, *asked: None)
    link.send(d.Detach(0, True))
    site.run(0.5)
    site.nodes[at_owner].stop(power=True)
    site.until(lambda: site.client(alive).depth(QUEUE) == 0)
    publish(site.client(alive), b"1", b"2")
    other = LinkClient(site, alive, receiver(1, QUEUE), credit(10, handle=1))
    assert [payload[-1:] for payload in other.payloads] == [b"1", b"2"]
