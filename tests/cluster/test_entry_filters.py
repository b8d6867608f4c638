"""The filter of a queue keeps out messages that it does not take, on every kind of queue and over owners."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import ARGUMENT_LEVELS, FORMAT_LEVEL
from node.queue.delivery_state import Tally
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import encode_method
from node.wire.amqp10 import definitions as d
from tests import messages
from tests.cluster.kept_links import owner
from tests.cluster.kinds import KINDS, client, declare, declared
from tests.cluster.links import LinkClient
from tests.cluster.test_subscription_filters import numbered
from tests.cluster.test_transactions import Bank, bank
from tests.inside import state_of
from tests.site import CHANNEL, ChannelClosedError, Client, Site
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import sender
from tests.wire.amqp10.sections import application, message

__all__ = ["bank", "client", "declared"]

MODES = pytest.mark.parametrize("mode", [1, 2])
ODD = "/n % 2 = 1"


def tally(client: Client, name: str = "q") -> Tally:
    """The counters of a queue."""
    queue = client.site.front_end(client.node.name).queue("/", name, client.holder)
    return client.node.broker.owners[queue.partition].queues[queue.id].delivery.tally


@MODES
@pytest.mark.requirement("D9.2")
def test_messages_that_do_not_match_never_enter_and_are_confirmed(
    client: Client, declared: Any, mode: int
) -> None:
    queue = declared(filter=ODD)
    tags = client.publish(queue, *numbered(1, 2, 3, 4), b"no JSON", delivery_mode=mode)
    assert client.confirms(tags) == [True] * 5
    assert client.depth(queue) == 2
    assert client.confirms(client.publish(queue, *numbered(6), delivery_mode=mode)) == [True]
    assert client.bodies(queue) == numbered(1, 3)


@MODES
@pytest.mark.requirement("D9.2")
def test_properties_decide_for_messages_in_a_row(client: Client, declared: Any, mode: int) -> None:
    queue = declared(filter="colour = 'red' AND amqp.priority > 2 OR x_routing_key LIKE 'amq.gen%'")
    expected = []
    for colour, priority in (("red", 3), ("red", 1), ("blue", 3), ("red", 4)):
        bodies = [f"{colour} {priority} {number}".encode() for number in range(3)]
        headers = {"colour": colour}
        client.confirms(
            client.publish(queue, *bodies, headers=headers, priority=priority, delivery_mode=mode)
        )
        expected += bodies if queue != "q" or (colour == "red" and priority > 2) else []
    assert client.bodies(queue) == expected


@pytest.mark.requirement("D9.2")
def test_the_log_has_one_run_of_what_enters(client: Client) -> None:
    client.declare("q", filter=ODD)
    client.confirms(client.publish("q", *numbered(*range(40))))
    queue = client.site.front_end("n1").queue("/", "q", 0)
    owned = state_of(client.node.broker.owners[queue.partition])
    ((first, last),) = owned.queues[queue.id].delivery.ready.ranges()
    ((_, run),) = owned.contents(first, last)
    assert run.count == last - first + 1 == 20
    assert client.bodies("q") == numbered(*range(1, 40, 2))


def test_what_is_kept_out_and_what_cannot_be_read_is_counted(client: Client) -> None:
    client.declare("q", filter=f"{ODD} OR kind = 'other'")
    client.confirms(client.publish("q", *numbered(1, 2), b"no JSON"))
    client.confirms(client.publish("q", *numbered(2), b"no JSON", headers={"kind": "other"}))
    found = tally(client)
    assert (found.left_out, found.unreadable) == (2, 2)
    client.consume("q", arguments={"x-filter": "/n = 7"})
    client.site.run(0.3)
    assert tally(client).unreadable == 3


@pytest.mark.requirement("D9.2")
def test_each_queue_of_a_fan_out_has_its_own_filter(client: Client) -> None:
    for queue, filters in (
        ("odd", {"filter": ODD}),
        ("all", {}),
        ("large", {"filter": "/n > 2"}),
        ("none", {"filter": "FALSE"}),
    ):
        client.declare(queue, **filters)
        client.bind(queue, "amq.fanout")
    for mode in (1, 2):
        sent = client.publish("", *numbered(*range(6)), exchange="amq.fanout", delivery_mode=mode)
        assert client.confirms(sent) == [True] * 6
        assert client.bodies("odd") == numbered(1, 3, 5)
        assert client.bodies("all") == numbered(*range(6))
        assert client.bodies("large") == numbered(3, 4, 5)
        assert client.bodies("none") == []


@pytest.mark.requirement("D9.2")
def test_a_mandatory_message_that_a_filter_keeps_out_was_routed(client: Client) -> None:
    client.declare("q", filter=ODD)
    method = encode_method(CHANNEL, m.BasicPublish("", "q", True))
    client.connection.send_octets(method + messages.content(numbered(2)[0]))
    client._published += 1
    assert client.confirms([1]) == [True]
    assert client.returned == [] and client.depth("q") == 0


@MODES
@pytest.mark.requirement("D9.2")
def test_a_full_queue_does_not_refuse_what_would_not_enter(client: Client, declared: Any, mode: int) -> None:
    queue = declared(filter=ODD, max_length=2, overflow="reject-publish")
    tags = client.publish(queue, *numbered(2, 1, 4, 3, 6, 5, 8, 7), delivery_mode=mode)
    assert client.confirms(tags) == [True, True, True, True, True, False, True, False]
    assert client.bodies(queue) == numbered(1, 3)


@MODES
@pytest.mark.requirement("D9.2")
def test_the_queue_does_not_remember_the_ids_of_what_it_keeps_out(
    client: Client, declared: Any, mode: int
) -> None:
    queue = declared(filter=ODD, deduplication_window=60_000)
    client.confirms(client.publish(queue, *numbered(2, 3, 5), message_id="1", delivery_mode=mode))
    client.confirms(client.publish(queue, *numbered(4, 7), message_id="1", delivery_mode=mode))
    assert client.bodies(queue) == numbered(3)


@MODES
@pytest.mark.requirement("D9.2")
def test_a_delayed_message_is_looked_at_when_it_is_published(
    client: Client, declared: Any, mode: int
) -> None:
    queue = declared(filter=ODD)
    client.confirms(client.publish(queue, *numbered(1, 2, 3), headers={"x-delay": 300}, delivery_mode=mode))
    assert client.depth(queue) == 0
    client.site.run(0.5)
    assert client.bodies(queue) == numbered(1, 3)


@MODES
@pytest.mark.requirement("D9.2")
@pytest.mark.parametrize("grave", ["replicated", "classic"])
def test_a_dead_letter_that_does_not_match_is_dropped(client: Client, grave: str, mode: int) -> None:
    """A grave in the same partition, and one to which dead letters come by transfer."""
    kind = {"queue_type": "classic"} if grave == "classic" else {}
    client.declare("grave", filter=ODD, **kind)
    client.declare("q", dead_letter_exchange="", dead_letter_routing_key="grave")
    client.confirms(client.publish("q", *numbered(1, 2, 3, 4), delivery_mode=mode))
    client.consume("q")
    client.site.until(lambda: len(client.deliveries) == 4)
    client.nack(client.deliveries[-1], requeue=False, multiple=True)
    client.site.until(lambda: client.depth("grave") == 2)
    client.site.run(0.5)
    assert (client.bodies("grave"), client.depth("q")) == (numbered(1, 3), 0)


@MODES
@pytest.mark.requirement("D9.2")
@pytest.mark.parametrize("kind", KINDS)
def test_a_transaction_of_one_partition(client: Client, kind: str, mode: int) -> None:
    other = client.site.client("n1", transactional=True)
    queue = declare(other, kind, filter=ODD, max_length=2, overflow="reject-publish")
    other.publish(queue, *numbered(1, 2, 3, 4), delivery_mode=mode)
    other.commit()
    assert other.bodies(queue) == numbered(1, 3)


@MODES
@pytest.mark.requirement("D9.2")
def test_a_transaction_of_several_partitions(bank: Bank, mode: int) -> None:
    limits = {"max_length": 2, "overflow": "reject-publish", "deduplication_window": 60_000}
    names = [bank.declare(f"{kind} odd", kind, filter=ODD, **limits) for kind in ("replicated", "classic")]
    for name in names:
        bank.client.publish(name, *numbered(2), message_id="1", delivery_mode=mode)
        bank.client.publish(name, *numbered(1, 4), delivery_mode=mode)
        bank.client.publish(name, *numbered(3, 5), message_id="1", delivery_mode=mode)
    bank.client.commit()
    assert bank.at_rest()
    assert [bank.client.bodies(name) for name in names] == [numbered(1, 3)] * 2
    for name in names:
        bank.client.publish(name, *numbered(1, 3, 5, 2), delivery_mode=mode)
    bank.refused()


@pytest.mark.requirement("D9.2")
def test_messages_of_amqp_10_are_kept_out(client: Client) -> None:
    client.declare("q", filter=f"{ODD} AND kind = 'new'")
    peer = LinkClient(client.site, "n1", sender(0, "q"))
    for at, (number, kind) in enumerate([(1, "new"), (2, "new"), (3, "old"), (5, "new")]):
        octets = message(application(kind=kind), body=b'{"n": %d}' % number)
        peer.send(transfer(at, octets))
    accepted = [one.performative for one in peer.frames if isinstance(one.performative, d.Disposition)]
    assert accepted and all(isinstance(one.state, d.Accepted) for one in accepted)
    client.site.run(0.2)
    assert client.depth("q") == 2


@pytest.mark.requirement("D9.2")
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("/n = = 1", "unexpected '=' at column 6"),
        ("x" * 9000, "the expression has more than 8192 octets at column 8193"),
        (5, "{unacceptable_type,signedint}"),
    ],
)
def test_a_wrong_filter_is_refused_with_its_column(client: Client, value: object, reason: str) -> None:
    for options in ({}, {"exclusive": True}):
        with pytest.raises(ChannelClosedError) as refused:
            client.declare("" if options else "q", filter=value, **options)
        assert refused.value.code == 406
        assert str(refused.value).startswith("406 PRECONDITION_FAILED - invalid arg 'x-filter' for queue '")
        assert str(refused.value).endswith(reason)
        client.open_channel()


@pytest.mark.requirement("D9.2")
@pytest.mark.parametrize("kind", KINDS)
def test_a_declaration_of_an_existing_queue_has_the_same_filter(client: Client, kind: str) -> None:
    for filters in ({"filter": ODD}, {"filter": ODD}, {}, {"filter": "/n = 1"}):
        if filters == {"filter": ODD}:
            client.declare("q", **KINDS[kind], **filters)
            continue
        with pytest.raises(ChannelClosedError, match="inequivalent arg 'x-filter'") as refused:
            client.declare("q", **KINDS[kind], **filters)
        assert refused.value.code == 406
        client.open_channel()


@pytest.mark.requirement("D9.2")
def test_the_next_owner_filters_as_the_former_one_did() -> None:
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    client.declare("q", filter=ODD)
    client.confirms(client.publish("q", *numbered(1, 2, 3)))
    first = owner(site)
    one, two = [site.client(name) for name in site.nodes if name != first]
    tags = one.publish("q", *numbered(4, 5))
    site.nodes[first].stop(power=False)
    assert one.confirms(tags) == [True, True]
    assert one.confirms(one.publish("q", *numbered(6, 7))) == [True, True]
    assert two.bodies("q") == numbered(1, 3, 5, 7)


def test_no_queue_has_a_filter_before_all_nodes_know_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ARGUMENT_LEVELS, "x-filter", FORMAT_LEVEL + 1)
    with pytest.raises(ChannelClosedError, match="upgrade all nodes first") as refused:
        client.declare("q", filter=ODD)
    assert refused.value.code == 406
