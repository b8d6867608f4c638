"""Filters in permissions: which messages a user may get, and which ones publish (entitlements)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from node.delivery.deeds import Became, Deed
from node.expressions.condition import encoded_condition
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import SectionCode, StdDistMode
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.values import Described, ULong
from tests.cluster.kept_links import owner
from tests.cluster.kept_senders import Sender, kept_tags
from tests.cluster.kinds import client, declared
from tests.cluster.links import LinkClient
from tests.cluster.test_backlogs import bodies, publish
from tests.cluster.test_replaced_subscriptions import consumers_of
from tests.cluster.test_settling_by_bookmark import Settlement
from tests.cluster.test_subscription_filters import numbered, receiving, subscribed
from tests.site import ChannelClosedError, Client, Site
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import credit, receiver, sender
from tests.wire.amqp10.sections import message
from tests.wire.amqp10.transacting import control, coordinator, within

__all__ = ["client", "declared"]

ODD = "/n % 2 = 1"
MODES = pytest.mark.parametrize("mode", [1, 2])
EVERYTHING = {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}


def entitle(site: Site, **filters: str) -> None:
    """Give the user of all clients filters; the others are lifted."""
    name = next(iter(site.nodes))
    site.submit(name, "set_permissions", {**EVERYTHING, "read_filter": "", "write_filter": "", **filters})
    site.run(0.1)


# -- getting --------------------------------------------------------------------------------------


@MODES
@pytest.mark.requirement("D9.3")
def test_a_consumer_gets_what_its_user_may_read(client: Client, declared: Any, mode: int) -> None:
    queue = declared()
    entitle(client.site, read_filter=ODD)
    publish(client, queue, *numbered(*range(1, 8)), mode=mode)
    client.consume(queue, "all", no_ack=True)
    assert bodies(client) == numbered(1, 3, 5, 7)
    client.cancel("all")
    publish(client, queue, *numbered(11, 13), mode=mode)
    subscribed(client, queue, "/n > 12 OR /n = 2", no_ack=True)
    assert bodies(client)[4:] == numbered(13)
    entitle(client.site)
    assert client.bodies(queue) == numbered(2, 4, 6, 11)


@MODES
@pytest.mark.requirement("D9.3")
@pytest.mark.parametrize("semantics", ["at-least-once", "at-most-once"])
@pytest.mark.parametrize("no_ack", [False, True])
def test_a_get_finds_what_its_user_may_read(
    client: Client, declared: Any, mode: int, semantics: str, no_ack: bool
) -> None:
    queue = declared(semantics=semantics)
    entitle(client.site, read_filter=ODD)
    assert client.get(queue, no_ack=no_ack) is None
    publish(client, queue, *numbered(*range(1, 7)), mode=mode)
    got = [client.get(queue, no_ack=no_ack) for _ in range(4)]
    assert [one and one.body for one in got] == [*numbered(1, 3, 5), None]
    if not no_ack:
        client.nack(got[0], requeue=True)
        client.ack(got[1])
        again = client.get(queue)
        assert again is None if semantics == "at-most-once" else again.body == numbered(1)[0]
    entitle(client.site)
    assert client.bodies(queue) == numbered(2, 4, 6)


@pytest.mark.requirement("D9.3")
def test_gets_of_users_with_other_filters_do_not_wait_for_each_other(client: Client) -> None:
    client.declare("q")
    publish(client, "q", *numbered(*range(6)))
    port: Any = client.site.front_end("n1")
    queue, got = port.queue("/", "q", 0), list[tuple[str, Any]]()

    def ask(text: str) -> None:
        port.get(
            queue,
            True,
            lambda one, _: got.append((text, one and bytes(one.run.raw))),
            encoded_condition(text),
        )

    def ask_all() -> None:
        for text in (ODD, "/n = 4", ODD, "/n = 4", "/n = 9"):
            ask(text)

    client.node.input(ask_all)
    client.site.until(lambda: len(got) == 5)
    found = {(text, raw and json.loads(raw[raw.index(b"{") : raw.index(b"}") + 1])["n"]) for text, raw in got}
    assert found == {(ODD, 1), (ODD, 3), ("/n = 4", 4), ("/n = 4", None), ("/n = 9", None)}


@pytest.mark.requirement("D9.3")
def test_a_get_looks_through_a_long_queue_in_steps() -> None:
    site = Site("n1", "n2", "n3")
    client = site.client("n2")
    client.declare("q")
    for begin in range(0, 8000, 1000):
        client.confirms(client.publish("q", *numbered(*range(begin, begin + 1000))))
    entitle(site, read_filter="/n = 7654")
    assert [one and one.body for one in (client.get("q"), client.get("q"))] == [*numbered(7654), None]
    assert client.depth("q") == 7999


@pytest.mark.requirement("D9.3")
def test_the_filters_of_gets_that_are_over_make_room(client: Client) -> None:
    client.declare("q")
    publish(client, "q", *numbered(*range(140)))
    for number in range(140):
        entitle(client.site, read_filter=f"/n = {number}")
        got = client.get("q")
        assert got is not None and got.body == numbered(number)[0]
    assert len(consumers_of(client.site)) <= 8


@pytest.mark.requirement("D9.3")
def test_the_read_filter_holds_over_a_lost_owner() -> None:
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("q")
    entitle(site, read_filter=ODD)
    first = owner(site)
    client, other = (site.client(name) for name in site.nodes if name != first)
    publish(client, "q", *numbered(*range(1, 7)))
    client.consume("q", prefetch=1)
    client.site.run(0.2)
    got = other.get("q", no_ack=False)
    assert (got and got.body, bodies(client)) == (numbered(3)[0], numbered(1))
    site.nodes[first].stop(power=True)
    other.ask("q", no_ack=False)
    answer = other.got()
    assert answer is not None and answer.body == numbered(5)[0]
    assert other.get("q") is None
    client.ack(client.deliveries[0])
    site.run(1)
    assert bodies(client) == numbered(1)


@pytest.mark.requirement("D9.3")
@pytest.mark.parametrize("distribution", [StdDistMode.MOVE, StdDistMode.COPY])
def test_a_link_gets_what_its_user_may_read(client: Client, distribution: StdDistMode) -> None:
    client.declare("q")
    publish(client, "q", *numbered(*range(1, 8)))
    entitle(client.site, read_filter=ODD)
    whole = receiver(0, source=d.Source("q", distribution_mode=distribution))
    part = receiving("q", "/n > 4", distribution_mode=distribution)
    for attach, found in ((part, numbered(5, 7)), (whole, numbered(1, 3, 5, 7))):
        peer = LinkClient(client.site, "n1", attach, credit(9))
        found = found if distribution is StdDistMode.COPY or attach is part else numbered(1, 3)
        assert [payload[payload.index(b"{") :] for payload in peer.payloads] == found


@pytest.mark.requirement("D9.3")
def test_messages_that_the_user_may_not_read_are_settled_neither_by_filter_nor_by_bookmark(
    client: Client,
) -> None:
    client.declare("q")
    publish(client, "q", *numbered(*range(1, 7)))
    other = client.site.client("n1")
    other.consume("q", arguments={"x-tell": True}, prefetch=2)
    client.site.run(0.1)
    odd, even = [one.headers["x-bookmark"] for one in other.deliveries]
    entitle(client.site, read_filter=ODD)
    named = Settlement(client.site, "n1", Deed.ACKNOWLEDGE, odd, even).answer
    assert named.bookmarks == {odd: Became.SETTLED, even: Became.NOT_FOUND}
    counts = Settlement(client.site, "n1", Deed.ACKNOWLEDGE, filter="/n > 2").answer.counts
    assert counts == {Became.SETTLED: 2}
    other.close()
    entitle(client.site)
    assert client.bodies("q") == numbered(2, 4, 6)


@pytest.mark.requirement("D9.3")
def test_who_may_read_a_part_does_not_purge_the_whole(client: Client) -> None:
    client.declare("q")
    publish(client, "q", *numbered(1, 2))
    entitle(client.site, read_filter=ODD)
    with pytest.raises(ChannelClosedError, match="may read a part") as refused:
        client.purge("q")
    assert refused.value.code == 403
    entitle(client.site)
    client.open_channel()
    assert client.purge("q") == 2


@pytest.mark.requirement("D9.3")
def test_replies_come_in_any_case(client: Client) -> None:
    entitle(client.site, read_filter=ODD)
    client.declare("q")
    client.consume("amq.rabbitmq.reply-to", no_ack=True)
    client.publish("q", b'{"n": 1}', reply_to="amq.rabbitmq.reply-to")
    client.site.run(0.1)
    question = client.get("q")
    assert question is not None
    client.publish(question.properties.reply_to, b"answer")
    assert bodies(client) == [b"answer"]


@pytest.mark.requirement("D9.3")
def test_a_filter_that_is_too_large_with_that_of_the_user_is_refused(client: Client) -> None:
    client.declare("q")
    text = "a = '" + "\x01" * 8000 + "'"
    entitle(client.site, read_filter=text)
    with pytest.raises(ChannelClosedError, match="with the read filter of the user") as refused:
        subscribed(client, "q", text + " ")
    assert refused.value.code == 406


# -- publishing -----------------------------------------------------------------------------------


@MODES
@pytest.mark.requirement("D9.3")
def test_a_publish_that_the_user_may_not_make_closes_the_channel(
    client: Client, declared: Any, mode: int
) -> None:
    queue = declared()
    entitle(client.site, write_filter=f"{ODD} AND amqp.priority = 4 OR kind = 'x'")
    client.publish(queue, *numbered(1, 3, 2, 5), delivery_mode=mode)
    with pytest.raises(ChannelClosedError, match="write filter does not take the message") as refused:
        client.answer()
    assert refused.value.code == 403
    client.open_channel()
    client.publish(queue, *numbered(1), delivery_mode=mode, priority=3)
    with pytest.raises(ChannelClosedError, match="write access to exchange 'amq"):
        client.answer()
    client.open_channel()
    assert all(client.confirms(client.publish(queue, b"4", delivery_mode=mode, headers={"kind": "x"})))
    assert client.bodies(queue) == [*numbered(1, 3), b"4"]


@pytest.mark.requirement("D9.3")
def test_a_transaction_with_such_a_publish_publishes_nothing(client: Client) -> None:
    client.declare("q")
    entitle(client.site, write_filter=ODD)
    other = client.site.client("n1", transactional=True)
    other.publish("q", *numbered(1, 2))
    with pytest.raises(ChannelClosedError, match="write filter"):
        other.answer()
    assert client.depth("q") == 0
    other.open_channel()
    other.publish("q", *numbered(1))
    other.commit()
    assert client.depth("q") == 1


@pytest.mark.requirement("D9.3")
def test_a_change_counts_from_the_next_publish_on(client: Client) -> None:
    client.declare("q")
    publish(client, "q", *numbered(2))
    entitle(client.site, write_filter=ODD)
    publish(client, "q", *numbered(1))
    entitle(client.site, write_filter="/n % 2 = 0")
    publish(client, "q", *numbered(4))
    client.publish("q", *numbered(3))
    with pytest.raises(ChannelClosedError, match="write filter"):
        client.answer()


@pytest.mark.requirement("D9.3")
@pytest.mark.parametrize("address", ["q", None])
def test_a_link_has_such_messages_rejected_one_by_one(client: Client, address: str | None) -> None:
    client.declare("q")
    entitle(client.site, write_filter=ODD)
    peer = LinkClient(client.site, "n1", sender(0, address))
    to = [] if address else [encode_amqp(Described(ULong(SectionCode.PROPERTIES), [None, None, "q"]))]
    sent = [message(*to, body=one) for one in numbered(1, 2, 3, 4, 6, 5)]
    told = peer.send(*[transfer(number, one) for number, one in enumerate(sent)])
    states = {
        number: one.state
        for one in told
        if isinstance(one, d.Disposition)
        for number in range(one.first, (one.first if one.last is None else one.last) + 1)
    }
    assert [type(states[number]) for number in range(6)] == [
        d.Accepted, d.Rejected, d.Accepted, d.Rejected, d.Rejected, d.Accepted
    ]  # fmt: skip
    assert states[1].error.condition == "amqp:unauthorized-access"
    assert "write filter" in states[1].error.description
    entitle(client.site)
    assert [one[one.index(b"{") :] for one in client.bodies("q")] == numbered(1, 3, 5)


@pytest.mark.requirement("D9.3")
def test_a_settled_message_that_the_user_may_not_publish_ends_the_link(client: Client) -> None:
    client.declare("q")
    entitle(client.site, write_filter=ODD)
    peer = LinkClient(client.site, "n1", sender(0, "q"))
    sent = [message(body=one) for one in numbered(1, 2)]
    told = peer.send(*[transfer(number, one, settled=True) for number, one in enumerate(sent)])
    (detach,) = [one for one in told if isinstance(one, d.Detach)]
    assert detach.error.condition == "amqp:unauthorized-access"
    assert client.depth("q") == 1


@pytest.mark.requirement("D9.3")
def test_a_kept_target_has_the_tags_of_the_messages_that_the_user_may_publish() -> None:
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    client.declare("q")
    entitle(site, write_filter=ODD)
    peer = Sender(site, "n2")
    tags = numbered(1, 2, 3)
    peer.deliver(*tags)
    peer.accepted(tags[0], tags[2])
    assert isinstance(peer.outcomes()[tags[1]], d.Rejected)
    assert kept_tags(site) == {tags[0], tags[2]} and client.depth("q") == 2


@pytest.mark.requirement("D9.3")
def test_a_transaction_of_a_link_with_such_a_message_fails(client: Client) -> None:
    client.declare("q")
    entitle(client.site, write_filter=ODD)
    peer = LinkClient(client.site, "n1", sender(0, "q"), coordinator(2))
    txn_id = peer.send(transfer(0, control(d.Declare()), 2))[-1].state.txn_id
    for number, one in enumerate(numbered(1, 2), 1):
        peer.send(transfer(number, message(body=one), state=within(txn_id)))
    told = peer.send(transfer(3, control(d.Discharge(txn_id, False)), 2))[-1]
    assert isinstance(told.state, d.Rejected)
    assert told.state.error.condition == "amqp:transaction:rollback" and client.depth("q") == 0
