"""Links of AMQP 1.0 whose unsettled deliveries outlive them: on any node, whichever node dies (part 2,
section 2.6.13).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pytest

from cluster.config.formats import FORMAT_LEVEL
from node.queue.operations import LINKS
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import (
    ReceiverSettleMode,
    TerminusDurability,
    TerminusExpiryPolicy,
)
from tests.cluster.links import LinkClient
from tests.cluster.test_leases import isolate
from tests.inside import state_of
from tests.site import Client, Site
from tests.wire.amqp10.performatives import LARGE, credit, receiver, settled

ACCEPTED = d.Accepted()
KEPT_S = 30
QUEUE = "q"

Unsettled = Mapping[bytes, Any]
T = TypeVar("T")


def keeping(unsettled: Unsettled | None = None, queue: str = QUEUE, **fields: Any) -> d.Attach:
    """The attach of a link that keeps its deliveries, and settles behind the node."""
    asked: dict[str, Any] = {"timeout": KEPT_S, "expiry_policy": TerminusExpiryPolicy.LINK_DETACH}
    asked |= fields
    source = d.Source(queue, durable=TerminusDurability.UNSETTLED_STATE, **asked)
    attach = receiver(0, source=source, rcv_settle_mode=ReceiverSettleMode.SECOND)
    attach.unsettled = None if unsettled is None else dict(unsettled)
    return attach


class Link(LinkClient):
    """A client with a link that keeps its deliveries. `told` is the node's unsettled map."""

    def __init__(
        self, site: Site, name: str, attach: d.Attach, credits: int = 10, max_frame_size: int = LARGE
    ) -> None:
        super().__init__(site, name, max_frame_size=max_frame_size)
        self.send(attach)
        site.until(lambda: self.came(d.Attach))
        self.answer: Any = self.came(d.Attach)[0]
        if credits:
            self.send(credit(credits))
            self.payloads  # noqa: B018

    def came(self, kind: type[T]) -> list[T]:
        """The performatives of a kind that have come."""
        self.reads()
        return [one.performative for one in self.frames if isinstance(one.performative, kind)]

    @property
    def settlements(self) -> list[d.Disposition]:
        return self.came(d.Disposition)

    @property
    def told(self) -> set[bytes]:
        return set(self.answer.unsettled or {})

    @property
    def transfers(self) -> list[d.Transfer]:
        return self.came(d.Transfer)

    @property
    def tags(self) -> list[bytes]:
        return [one.delivery_tag or b"" for one in self.transfers]

    @property
    def bodies(self) -> bytes:
        """The last octet of each message that has come."""
        return b"".join(payload[-1:] for payload in self.payloads)

    def accept(self, first: int, last: int | None = None) -> list[d.Disposition]:
        """Accept deliveries, without settling them; returns what the node settles."""
        found = self.send(settled(first, last, ACCEPTED, settled=False))
        return [one for one in found if isinstance(one, d.Disposition)]


@pytest.fixture
def site() -> Site:
    return Site("n1", "n2", "n3")


@pytest.fixture
def client(site: Site) -> Client:
    client = site.client("n1")
    client.declare(QUEUE)
    return client


def publish(client: Client, *bodies: bytes) -> None:
    assert all(client.confirms(client.publish(QUEUE, *bodies)))


def owner(site: Site) -> str:
    return next(
        name
        for name, node in site.nodes.items()
        if node.ready and any(one.active and one.queues for one in node.broker.owners.values())
    )


def kept(site: Site) -> int:
    """The number of messages that the owner keeps for links."""
    owners = [one for node in site.nodes.values() if node.ready for one in node.broker.owners.values()]
    queues = [queue for one in owners for queue in state_of(one).queues.values()]
    return sum(len(queue.delivery.leases.get(LINKS, ())) for queue in queues)


def stolen(link: Link) -> bool:
    """Whether the client has heard that its link is attached by another connection."""
    return [one.error and one.error.condition for one in link.came(d.Detach)] == [d.LinkCondition.STOLEN]


def drained(site: Site, client: Client) -> None:
    """No queue has a message, a lease, or a trace of a link."""
    site.until(lambda: client.depth(QUEUE) == 0)
    for node in site.nodes.values():
        for one in node.broker.owners.values() if node.ready else ():
            for queue in state_of(one).machine.queues.values():
                assert not queue.alive and not queue.remarks


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
@pytest.mark.requirement("B7.1", "B7.5", "B7.7", "X5")
@pytest.mark.parametrize("way", ["lost", "detached", "ended", "closed"])
def test_a_message_waits_for_its_link_and_no_other_consumer_gets_it(
    site: Site, client: Client, way: str
) -> None:
    link = Link(site, "n2", keeping())
    publish(client, b"1", b"2")
    assert link.bodies == b"12"
    ends: dict[str, Callable[[], object]] = {
        "lost": link.lose,
        "detached": lambda: link.send(d.Detach(0, False)),
        "ended": lambda: link.send(d.End()),
        "closed": lambda: link.send(d.Close()),
    }
    ends[way]()
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


@pytest.mark.requirement("B7.9", "X5")
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
