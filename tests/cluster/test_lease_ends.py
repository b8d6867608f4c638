"""A consumer is told when its leases end, the end holds over failovers, and a lease can be renewed (D3)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import FORMAT_LEVEL
from node.refusal import AccessRefusedError, PreconditionFailedError
from node.session.commands import RenewLeases
from node.session.core import SessionCore
from node.session.ports import Identity
from node.session.publishing_session import none_in_use
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import Role
from tests.cluster.kept_links import owner, site
from tests.cluster.links import LinkClient
from tests.cluster.recorders import RecordedSubscriber
from tests.cluster.test_modified_annotations import annotations_of, sent
from tests.site import ChannelClosedError, Client, Site
from tests.wire.amqp10.performatives import credit, receiver, settled
from tests.wire.amqp10.sections import annotated, message

__all__ = ["site"]

QUEUE = "q"
PERIOD_MS = 4000
PERIOD_S = PERIOD_MS / 1000
CLOCKS_S = 0.1
"""More than the clocks of two nodes differ, and than an owner takes to look at its leases."""

TELL = {"x-tell": True}

WORKING = d.Disposition(Role.RECEIVER, 0, 0, settled=False, state=d.Received(0, 0))
"""The client works on its first delivery, and has reached no outcome."""


@pytest.fixture
def client(site: Site) -> Client:
    """A client that has declared the queue, on the node of its owner."""
    client = site.client("n1")
    client.declare(QUEUE, lease_period=PERIOD_MS)
    return client


def elsewhere(site: Site) -> list[str]:
    """The nodes that do not own the queue."""
    return [name for name in site.nodes if name != owner(site)]


def ends_of(client: Client) -> list[int]:
    return [one.headers["x-locked-until"] for one in client.deliveries]


@pytest.mark.requirement("D3.1", "D3.4")
def test_a_delivery_states_the_end_of_its_lease_and_its_bookmark(site: Site, client: Client) -> None:
    client.confirms(client.publish(QUEUE, b"1", b"2", b"3"))
    far = site.client(elsewhere(site)[0])
    before = client.node.wall_ms()
    far.consume(QUEUE, prefetch=2, arguments=TELL)
    site.until(lambda: len(far.deliveries) == 2)
    after = client.node.wall_ms()
    assert all(before + PERIOD_MS <= end <= after + PERIOD_MS for end in ends_of(far))
    bookmarks = [one.headers["x-bookmark"] for one in far.deliveries]
    assert bookmarks == sorted(set(bookmarks))
    assert all(len(bytes.fromhex(one)) == 12 for one in bookmarks)
    # The lease ends when the consumer has been told, and not before.
    site.run((ends_of(far)[0] - client.node.wall_ms()) / 1000 - 0.05)
    assert client.depth(QUEUE) == 1
    site.run(0.1)
    assert client.depth(QUEUE) == 3


@pytest.mark.requirement("D3.4")
def test_a_consumer_that_does_not_ask_is_told_nothing(client: Client) -> None:
    client.confirms(client.publish(QUEUE, b"1"))
    client.consume(QUEUE)
    client.site.until(lambda: client.deliveries)
    assert not client.deliveries[0].headers


@pytest.mark.requirement("D3.4")
def test_without_a_lease_period_a_delivery_states_its_bookmark_alone(client: Client) -> None:
    client.declare("plain")
    client.confirms(client.publish("plain", b"1"))
    client.consume("plain", arguments=TELL)
    client.site.until(lambda: client.deliveries)
    assert list(client.deliveries[0].headers) == ["x-bookmark"]


@pytest.mark.requirement("D3.4")
@pytest.mark.parametrize("wrong", ["yes", 1, None])
def test_only_a_boolean_asks(client: Client, wrong: Any) -> None:
    with pytest.raises(ChannelClosedError, match="406 PRECONDITION_FAILED - invalid arg 'x-tell'"):
        client.consume(QUEUE, arguments={"x-tell": wrong})


class TellingLink(LinkClient):
    """A client of AMQP 1.0 with a link that is told the ends of its leases."""

    def __init__(self, site: Site, name: str, **properties: Any) -> None:
        super().__init__(site, name, receiver(0, QUEUE, properties=properties or dict(TELL)), credit(1))

    def works(self) -> None:
        """Tell the node that the client works on its first delivery."""
        self.send(WORKING)


@pytest.mark.requirement("D3.4")
@pytest.mark.parametrize("published", ["AMQP 0-9-1", "AMQP 1.0"])
def test_a_link_is_told_in_annotations(site: Site, client: Client, published: str) -> None:
    if published == "AMQP 0-9-1":
        client.confirms(client.publish(QUEUE, b"1", headers={"own": 1}))
    else:
        sent(site, QUEUE, message(annotated(x_opt_own="own"), body=b"1"))
    link = TellingLink(site, elsewhere(site)[0])
    site.until(lambda: link.payloads)
    told = annotations_of(link.payloads[0])
    left = told["x-locked-until"] - client.node.wall_ms()
    assert 0 < left <= PERIOD_MS
    assert len(told["x-bookmark"]) == 24


@pytest.mark.requirement("D3.4")
def test_a_link_that_asks_with_another_value_is_refused(site: Site, client: Client) -> None:
    link = TellingLink(site, "n1", **{"x-tell": "yes"})
    site.until(lambda: [one for one in link.frames if isinstance(one.performative, d.Detach)])
    (detach,) = (one.performative for one in link.frames if isinstance(one.performative, d.Detach))
    assert detach.error is not None
    assert "x-tell" in str(detach.error.description)


# -- the time that is left ----------------------------------------------------------------------------


def lapsing(site: Site, beside: Client, consumer: str) -> float:
    """The time until the message goes to another consumer, in seconds from now; at most two periods."""
    begin = site.world.now
    beside.consume(QUEUE, consumer, prefetch=1)
    site.until(lambda: beside.deliveries or site.world.now > begin + 2 * PERIOD_S)
    return site.world.now - begin


@pytest.mark.requirement("D3.1", "D3.2")
@pytest.mark.parametrize("power", [False, True])
def test_after_a_failover_a_lease_ends_when_its_consumer_was_told(
    site: Site, client: Client, power: bool
) -> None:
    holding, waiting = elsewhere(site)
    client.confirms(client.publish(QUEUE, b"1"))
    holder = site.client(holding)
    holder.consume(QUEUE, prefetch=1, arguments=TELL)
    site.until(lambda: holder.deliveries)
    until = ends_of(holder)[0]
    site.run(1.0)
    site.nodes[owner(site)].stop(power=power)
    other = site.client(waiting)
    left_s = (until - holder.node.wall_ms()) / 1000
    assert left_s > 1.0
    waited = lapsing(site, other, "other")
    assert abs(waited - left_s) < CLOCKS_S
    assert other.deliveries[0].method.redelivered


@pytest.mark.requirement("D3.2")
def test_while_a_node_reads_no_ends_a_lease_begins_anew_with_its_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cluster.catalog.membership.formats.LEASE_ENDS", FORMAT_LEVEL + 1)
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    client.declare(QUEUE, lease_period=PERIOD_MS)
    holding, waiting = elsewhere(site)
    client.confirms(client.publish(QUEUE, b"1"))
    holder = site.client(holding)
    holder.consume(QUEUE, prefetch=1, arguments=TELL)
    site.until(lambda: holder.deliveries)
    assert list(holder.deliveries[0].headers) == ["x-bookmark"]
    site.run(1.0)
    site.nodes[owner(site)].stop(power=False)
    assert lapsing(site, site.client(waiting), "other") > PERIOD_S


@pytest.mark.requirement("D3.3")
def test_a_lease_breaks_when_its_consumer_disconnects(site: Site, client: Client) -> None:
    client.confirms(client.publish(QUEUE, b"1"))
    holder = site.client(elsewhere(site)[0])
    holder.consume(QUEUE, prefetch=1)
    site.until(lambda: holder.deliveries)
    holder.close()
    assert lapsing(site, client, "other") < 1.0


# -- renewal ------------------------------------------------------------------------------------------


@pytest.mark.requirement("D3.5")
@pytest.mark.parametrize("failover", [False, True])
def test_a_link_renews_the_lease_of_a_delivery_that_it_works_on(
    site: Site, client: Client, failover: bool
) -> None:
    holding, waiting = elsewhere(site)
    client.confirms(client.publish(QUEUE, b"1", b"2"))
    link = TellingLink(site, holding)
    site.until(lambda: link.payloads)
    idle = site.client(waiting)
    idle.consume(QUEUE, "idle", prefetch=1)
    site.until(lambda: idle.deliveries)
    site.run(2.0)
    link.works()
    site.run(0.5)
    if failover:
        site.nodes[owner(site)].stop(power=True)
    site.run(PERIOD_S - 1.0)
    # The lease of the other message, which was not renewed, has ended; that of the link's has not.
    assert [one.body for one in idle.deliveries] == [b"2"]
    link.send(settled(0, 0, d.Accepted()))
    site.run(3.0)
    assert {one.body for one in idle.deliveries} == {b"2"}


@pytest.mark.requirement("D3.5")
def test_a_renewed_lease_ends_as_well(site: Site, client: Client) -> None:
    holding, waiting = elsewhere(site)
    client.confirms(client.publish(QUEUE, b"1"))
    link = TellingLink(site, holding)
    site.until(lambda: link.payloads)
    site.run(2.0)
    link.works()
    site.run(0.1)
    assert abs(lapsing(site, site.client(waiting), "other") - PERIOD_S) < 2 * CLOCKS_S


def test_a_delivery_that_has_lapsed_is_not_renewed(site: Site, client: Client) -> None:
    holding, waiting = elsewhere(site)
    client.confirms(client.publish(QUEUE, b"1"))
    link = TellingLink(site, holding)
    site.until(lambda: link.payloads)
    site.run(PERIOD_S + 0.2)
    link.works()
    assert lapsing(site, site.client(waiting), "other") < 1.0


class Renewal:
    """The command to renew leases, as a session of the node carries it out."""

    def __init__(self, site: Site, name: str, *bookmarks: str) -> None:
        self.answers: list[Any] = []
        node, port = site.nodes[name], site.front_end(name)
        core: Any = SessionCore(port, RecordedSubscriber(), none_in_use)
        core.enter(Identity("guest"), "/")
        command = RenewLeases(QUEUE, bookmarks)
        node.input(lambda: core.carry_out(1, command, self.answers.append))
        site.until(lambda: self.answers)

    @property
    def answer(self) -> Any:
        return self.answers[0]


@pytest.mark.requirement("D3.5")
@pytest.mark.parametrize("failover", [False, True])
def test_a_lease_is_renewed_by_its_bookmark_at_any_node(site: Site, client: Client, failover: bool) -> None:
    holding, asked = elsewhere(site)
    client.confirms(client.publish(QUEUE, b"1", b"2"))
    holder = site.client(holding)
    holder.consume(QUEUE, prefetch=2, arguments=TELL)
    site.until(lambda: len(holder.deliveries) == 2)
    site.run(2.0)
    bookmark = holder.deliveries[1].headers["x-bookmark"]
    renewed = Renewal(site, asked, bookmark).answer
    assert renewed.bookmarks == [bookmark]
    left_s = (renewed.until - holder.node.wall_ms()) / 1000
    assert abs(left_s - PERIOD_S) < CLOCKS_S
    if failover:
        site.nodes[owner(site)].stop(power=True)
    other = site.client(asked)
    other.consume(QUEUE, "other")
    site.run(left_s - CLOCKS_S)
    assert [one.body for one in other.deliveries] == [b"1"]
    site.run(2 * CLOCKS_S)
    assert [one.body for one in other.deliveries] == [b"1", b"2"]


@pytest.mark.requirement("D3.5")
def test_only_leases_that_end_are_renewed(site: Site, client: Client) -> None:
    client.confirms(client.publish(QUEUE, b"1"))
    holder = site.client(elsewhere(site)[0])
    holder.consume(QUEUE, arguments=TELL)
    site.until(lambda: holder.deliveries)
    bookmark = holder.deliveries[0].headers["x-bookmark"]
    holder.ack(holder.deliveries[0])
    site.run(0.1)
    assert Renewal(site, "n1", bookmark).answer.bookmarks == []


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("0" * 23, "has 24 hexadecimal digits"),
        ("G" * 24, "has 24 hexadecimal digits"),
        ("f" * 24, "a bookmark of another queue"),
    ],
)
def test_a_wrong_bookmark_is_refused(site: Site, client: Client, wrong: str, reason: str) -> None:
    answer = Renewal(site, "n1", wrong).answer
    assert isinstance(answer, PreconditionFailedError)
    assert reason in str(answer)


def test_a_user_who_may_not_read_the_queue_renews_no_lease(site: Site, client: Client) -> None:
    assert isinstance(Renewal(site, "n1", "0" * 24).answer, PreconditionFailedError)
    patterns = {"configure": ".*", "write": ".*", "read": "other"}
    site.submit("n1", "set_permissions", {"vhost": "/", "user": "guest", **patterns})
    assert isinstance(Renewal(site, "n1", "0" * 24).answer, AccessRefusedError)


@pytest.mark.requirement("D3.2")
def test_a_lapsed_message_that_its_consumer_still_has_fails_once(site: Site) -> None:
    """The front end greets again, and tells the message, which is ready by then."""
    client = site.client("n1")
    client.declare(QUEUE, lease_period=1000)
    client.confirms(client.publish(QUEUE, b"1"))
    holding = elsewhere(site)[0]
    holder = site.client(holding)
    holder.consume(QUEUE, prefetch=1)
    site.until(lambda: client.depth(QUEUE) == 1 and holder.deliveries)
    node = site.nodes[owner(site)]
    for _ in range(3):
        node.input(lambda: node.broker.peer_gap(holding, node.clock()))
        site.run(0.2)
    holder.close()
    site.run(0.2)
    got = client.get(QUEUE)
    assert got is not None
    assert got.headers["x-delivery-count"] <= 2


@pytest.mark.parametrize("away", [False, True])
def test_a_lease_has_one_renewal_under_way(site: Site, client: Client, away: bool) -> None:
    """The others wait for the answer, also if the owner is lost meanwhile."""
    holding, _ = elsewhere(site)
    client.confirms(client.publish(QUEUE, b"1"))
    link = TellingLink(site, holding)
    site.until(lambda: link.payloads)
    if away:
        site.nodes[owner(site)].stop(power=False)
    for _ in range(50):
        link.submit(WORKING)
    asked = [
        request
        for one in site.nodes[holding].broker.links.by_partition.values()
        for request in one._requests.values()
        if request.name == "renew"
    ]
    assert len(asked) == 1
