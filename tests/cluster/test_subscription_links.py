"""Links of AMQP 1.0 that receive from an exchange, on several nodes, with owners that die."""

from __future__ import annotations

import pytest

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import ReceiverSettleMode, TerminusDurability, TerminusExpiryPolicy
from tests.cluster.links import LinkClient
from tests.session.test_subscriptions import ADDRESS, LASTING, durable, sourceless, subscriber
from tests.site import Client, Site
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import credit, receiver, sender, settled
from tests.wire.amqp10.sections import message

ACCEPTED = d.Accepted()


@pytest.fixture
def client() -> Client:
    client = Site("n1", "n2", "n3").client("n1")
    client.declare_exchange("orders", "topic")
    return client


def publish(client: Client, *bodies: bytes, key: str = "eu.berlin") -> None:
    assert all(client.confirms(client.publish(key, *bodies, exchange="orders")))


def last_octets(link: LinkClient) -> bytes:
    """The last octet of each message that has come."""
    return b"".join(payload[-1:] for payload in link.payloads)


def queues(client: Client) -> set[str]:
    return {name for _, name in client.site.nodes["n1"].broker.catalog.state.queues}


@pytest.mark.requirement("B11.2")
def test_every_link_gets_a_copy_of_what_its_key_takes(client: Client) -> None:
    links = [LinkClient(client.site, name, subscriber(), credit(10)) for name in ("n1", "n2", "n3")]
    other = LinkClient(client.site, "n2", subscriber(address="/exchanges/orders/us.%23"), credit(10))
    publish(client, b"1", b"2")
    publish(client, b"3", key="us.boston")
    assert [last_octets(link) for link in (*links, other)] == [b"12", b"12", b"12", b"3"]


@pytest.mark.requirement("B11.8", "B11.9")
@pytest.mark.parametrize("policy", ["session-end", "connection-close"])
def test_what_comes_while_the_link_is_detached_waits(client: Client, policy: str) -> None:
    attach = subscriber(expiry_policy=TerminusExpiryPolicy(policy))
    link = LinkClient(client.site, "n2", attach, credit(10))
    publish(client, b"1")
    assert last_octets(link) == b"1"
    link.send(settled(0, 0, ACCEPTED))
    link.send(d.Detach(0, False))
    publish(client, b"2", b"3")
    link.send(attach)
    link.send(credit(10))
    assert last_octets(link) == b"123"
    link.send(d.Close())
    client.site.run(0.2)
    publish(client, b"4")
    assert last_octets(LinkClient(client.site, "n2", attach, credit(10))) == b"", "a terminus of its own"


@pytest.mark.requirement("B11.10", "B11.5")
def test_a_durable_subscription_goes_on_at_any_node(client: Client) -> None:
    """With what was not settled, also after the owner of its queue has died."""
    first = LinkClient(client.site, "n2", durable(), credit(10))
    publish(client, b"1", b"2")
    assert last_octets(first) == b"12"
    first.send(settled(0, 0, ACCEPTED))
    first.lose()
    publish(client, b"3")
    second = LinkClient(client.site, "n3", durable(), credit(10))
    assert sorted(last_octets(second)) == sorted(b"23")
    second.send(settled(0, 0, ACCEPTED))
    second.lose()
    client.site.run(0.5)
    assert client.depth(LASTING) == 0, "the queue keeps the unsettled message for the link"
    client.site.nodes["n2"].stop(power=True)
    client.site.run(8.0)
    third = LinkClient(client.site, "n3", durable(), credit(10))
    assert len(last_octets(third)) == 1
    publish(client, b"4")
    assert last_octets(third)[1:] == b"4"


def sourceless_again(unsettled: list[bytes]) -> d.Attach:
    """The attach of a client that settles second, and that knows no more of the terminus."""
    attach = sourceless()
    attach.rcv_settle_mode = ReceiverSettleMode.SECOND
    attach.unsettled = dict.fromkeys(unsettled)
    return attach


@pytest.mark.sentence("1.0/2.6.3-2", "1.0/2.6.13-3", "1.0/2.6.13-6")
@pytest.mark.requirement("B7.1", "B11.10", "B11.6")
@pytest.mark.parametrize("timeout", [0, 30])
def test_a_link_without_a_source_has_the_deliveries_of_its_terminus(client: Client, timeout: int) -> None:
    attach = durable()
    attach.rcv_settle_mode = ReceiverSettleMode.SECOND
    if timeout:
        attach.source.timeout, attach.source.expiry_policy = timeout, TerminusExpiryPolicy.LINK_DETACH
    first = LinkClient(client.site, "n2", attach, credit(10))
    publish(client, b"1", b"2", b"3")
    assert last_octets(first) == b"123"
    tags = [one.performative.delivery_tag for one in first.frames if type(one.performative) is d.Transfer]
    first.lose()
    client.site.run(1.0)
    again = LinkClient(client.site, "n3", sourceless_again(tags[:2]), credit(10))
    client.site.until(lambda: len(again.payloads) == 3)
    told = [one.performative for one in again.frames]
    answer = next(one for one in told if isinstance(one, d.Attach))
    source = answer.source
    assert (source.address, source.durable) == (ADDRESS, TerminusDurability.UNSETTLED_STATE)
    assert (source.timeout, source.expiry_policy) == (timeout, attach.source.expiry_policy)
    assert set(answer.unsettled) == set(tags)
    transfers = [one for one in told if isinstance(one, d.Transfer)]
    assert [one.delivery_tag for one in transfers] == tags and [one.resume for one in transfers] == [1, 1, 0]
    again.send(settled(0, 1, ACCEPTED))
    again.lose()
    client.site.run(1.0)
    assert client.depth(LASTING) == 0, "the queue keeps the unsettled message for the link"
    last = LinkClient(client.site, "n1", sourceless_again(tags), credit(10))
    assert last_octets(last) == b"3"
    last.send(d.Detach(0, True))
    assert LASTING not in queues(client)


@pytest.mark.parametrize(
    "asked", [TerminusDurability.UNSETTLED_STATE, None], ids=["asked", "without a source"]
)
def test_a_terminus_that_was_made_without_its_unsettled_state_keeps_none(
    client: Client, asked: TerminusDurability | None
) -> None:
    configured = durable()
    configured.source.durable = TerminusDurability.CONFIGURATION
    LinkClient(client.site, "n2", configured).lose()
    link = LinkClient(client.site, "n3", sourceless() if asked is None else durable())
    answer = next(one.performative for one in link.frames if isinstance(one.performative, d.Attach))
    assert answer.source.durable is TerminusDurability.CONFIGURATION and answer.unsettled is None
    link.send(credit(10))
    publish(client, b"1")
    assert last_octets(link) == b"1"
    link.lose()
    client.site.until(lambda: client.depth(LASTING) == 1)


@pytest.mark.requirement("B11.10")
def test_a_peer_that_closes_the_link_ends_the_subscription(client: Client) -> None:
    LinkClient(client.site, "n2", durable()).lose()
    assert LASTING in queues(client)
    link = LinkClient(client.site, "n3", sourceless())
    link.send(d.Detach(0, True))
    assert LASTING not in queues(client)
    publish(client, b"1")


@pytest.mark.requirement("B11.7")
def test_a_terminus_is_gone_after_its_timeout(client: Client) -> None:
    link = LinkClient(client.site, "n2", subscriber(timeout=2), credit(10))
    client.site.run(3.0)
    publish(client, b"1")
    assert last_octets(link) == b"1", "the timeout begins when the link is detached"
    link.send(settled(0, 0, ACCEPTED))
    link.lose()
    client.site.run(1.0)
    publish(client, b"2")
    again = LinkClient(client.site, "n3", subscriber(timeout=2), credit(10))
    assert last_octets(again) == b"2"
    again.lose()
    assert LASTING in queues(client)
    client.site.run(4.0)
    assert LASTING not in queues(client)


def test_an_exchange_that_is_not_there_is_told(client: Client) -> None:
    for attach in (subscriber(address="/exchanges/none/k"), durable("/exchanges/none/k")):
        answer, detach = LinkClient(client.site, "n2").send(attach)
        assert answer.source is None and detach.error.condition == "amqp:not-found"
    client.site.run(0.5)
    assert not queues(client)


@pytest.mark.requirement("B11.4")
def test_a_subscription_that_is_not_durable_says_so(client: Client) -> None:
    link = LinkClient(client.site, "n2")
    (attach,) = link.send(subscriber(expiry_policy=TerminusExpiryPolicy.NEVER))
    assert attach.source.durable == TerminusDurability.NONE and attach.source.address == ADDRESS


@pytest.mark.requirement("B11.2")
def test_a_plain_name_is_a_queue_or_else_an_exchange() -> None:
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    link = LinkClient(site, "n2", receiver(0, "amq.fanout"), credit(10))
    sending = LinkClient(site, "n3", sender(0, "amq.fanout"))
    (told,) = sending.send(transfer(1, message(body=b"1")))
    assert told.state == d.Accepted() and [one[-1:] for one in link.payloads] == [b"1"]
    client.declare("both")
    client.declare_exchange("both", "fanout")
    queued = LinkClient(site, "n2", receiver(0, "both"), credit(10))
    (told,) = LinkClient(site, "n3", sender(0, "both")).send(transfer(1, message(body=b"2")))
    assert told.state == d.Accepted() and [one[-1:] for one in queued.payloads] == [b"2"]
    refused = LinkClient(site, "n2", receiver(0, "neither"))
    assert [one.performative.source for one in refused.frames if isinstance(one.performative, d.Attach)] == [
        None
    ]
