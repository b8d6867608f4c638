"""A client replaces the terms of its consumer, which goes on and keeps its messages (x-replace)."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from cluster.config.formats import FORMAT_LEVEL
from node.wire.amqp091 import methods as m
from node.wire.amqp091.primitives import Method
from tests.cluster.kept_links import owner
from tests.cluster.kinds import client, declared
from tests.cluster.test_backlogs import BODIES, bodies, publish
from tests.cluster.test_single_active import activity
from tests.cluster.test_subscription_filters import numbered
from tests.inside import state_of
from tests.site import ChannelClosedError, Client, Site

__all__ = ["client", "declared"]

ODD, EVEN = "/n % 2 = 1", "/n % 2 = 0"
MODES = pytest.mark.parametrize("mode", [1, 2])


class Watching(Client):
    """A client that knows which deliveries came before the answer to each basic.consume."""

    def received(self, method: Method, content: bytes) -> None:
        if isinstance(method, m.BasicConsumeOk):
            self.__dict__.setdefault("before", []).append(len(self.deliveries))
        super().received(method, content)


def consuming(client: Client, queue: str, *, no_ack: bool = False, **arguments: Any) -> None:
    """Start the consumer `c` with arguments, which are named without `x-`."""
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    client.consume(queue, "c", no_ack=no_ack, arguments=named)


def replaced(client: Client, queue: str, *, no_ack: bool = False, **arguments: Any) -> None:
    """Replace it by one with these arguments."""
    consuming(client, queue, no_ack=no_ack, replace=True, **arguments)


def consumers_of(site: Site, without: str = "") -> list[Any]:
    """The consumers that owners have, but for those of one node."""
    nodes = [node for name, node in site.nodes.items() if name != without]
    owners = [one for node in nodes for one in node.broker.owners.values() if one.active]
    queues = [queue for one in owners for queue in state_of(one).queues.values()]
    return [queue.delivery.consumers.get(*key) for queue in queues for key in queue.delivery.consumers]


# -- what counts for the next messages ------------------------------------------------------------


@MODES
@pytest.mark.requirement("D18.1")
def test_only_messages_of_the_new_filter_come_after_the_answer(
    client: Client, declared: Any, mode: int
) -> None:
    queue = declared()
    consuming(client, queue, filter=ODD)
    publish(client, queue, *numbered(*range(1, 7)), mode=mode)
    assert bodies(client) == numbered(1, 3, 5)
    replaced(client, queue, filter=EVEN)
    publish(client, queue, *numbered(7, 8), mode=mode)
    assert bodies(client) == numbered(1, 3, 5, 2, 4, 6, 8)
    replaced(client, queue)
    assert bodies(client)[7:] == numbered(7)
    tags = [(one.method.consumer_tag, one.method.delivery_tag) for one in client.deliveries]
    assert tags == [("c", number) for number in range(1, 9)]
    client.ack(client.deliveries[-1], multiple=True)
    client.site.run(0.2)
    client.cancel("c")
    assert client.depth(queue) == 0


@pytest.mark.requirement("D18.2")
def test_the_consumer_keeps_its_messages_and_their_leases(client: Client) -> None:
    client.declare("q", lease_period=60_000)
    consuming(client, "q", filter=ODD, tell=True)
    publish(client, "q", *numbered(1, 2, 3))
    assert all("x-locked-until" in one.headers for one in client.deliveries)
    client.site.run(10)
    replaced(client, "q", filter=EVEN)
    assert bodies(client) == numbered(1, 3, 2)
    assert "x-locked-until" not in client.deliveries[2].headers
    client.ack(client.deliveries[0])
    client.site.run(0.2)
    other = client.site.client("n1")
    assert other.depth("q") == 0
    client.site.run(45)
    assert other.depth("q") == 0, "the leases have neither ended nor begun anew"
    client.site.run(10)
    assert other.depth("q") == 1 and other.get("q").body == numbered(3)[0]


@MODES
@pytest.mark.requirement("D18.3")
def test_the_backlog_is_worked_out_anew(client: Client, declared: Any, mode: int) -> None:
    queue = declared(max_per_subscription_backlog=6)
    consuming(client, queue, max_backlog=4)
    publish(client, queue, *BODIES, mode=mode)
    assert bodies(client) == BODIES[:4]
    replaced(client, queue, max_backlog=2)
    for number in range(2):
        client.ack(client.deliveries[number])
        assert bodies(client) == BODIES[:4], "it has more than its backlog, or as many"
    client.ack(client.deliveries[2])
    assert bodies(client) == BODIES[:5]
    replaced(client, queue, max_backlog=9)
    assert bodies(client) == BODIES
    publish(client, queue, b"a", b"b", mode=mode)
    assert len(bodies(client)) == 9, "the queue's cap counts"


@pytest.mark.requirement("D18.1", "D18.3")
@pytest.mark.parametrize(("backlog", "prefetch"), [(1, 0), (None, 1)])
def test_nothing_comes_beyond_the_new_limit_while_messages_flow(backlog: int | None, prefetch: int) -> None:
    site = Site("n1", "n2", "n3")
    client, other = Watching(site, next(name for name in site.nodes if name != "n1")), site.client("n1")
    client.declare("q")
    consuming(client, "q")
    for _ in range(20):
        other.publish("q", *BODIES * 20)
        site.run(0.001)
    if prefetch:
        client.call(m.BasicQos(0, prefetch), m.BasicQosOk)
    replaced(client, "q", **({} if backlog is None else {"max_backlog": backlog}))
    other.publish("q", *BODIES)
    site.run(0.5)
    assert len(client.deliveries) == vars(client)["before"][-1] <= 3600
    client.ack(client.deliveries[-1], multiple=True)
    site.run(0.5)
    assert len(client.deliveries) == vars(client)["before"][-1] + 1


@pytest.mark.requirement("D18.1")
def test_the_new_priority_counts(client: Client, declared: Any) -> None:
    queue = declared()
    consuming(client, queue)
    client.consume(queue, "other", arguments={"x-priority": 1})
    publish(client, queue, b"1", b"2")
    replaced(client, queue, priority=2)
    publish(client, queue, b"3", b"4")
    replaced(client, queue)
    publish(client, queue, b"5", b"6")
    assert [one.method.consumer_tag for one in client.deliveries] == ["other"] * 2 + ["c"] * 2 + ["other"] * 2


@pytest.mark.requirement("D18.1")
def test_an_active_consumer_stays_active_and_gives_way_by_its_new_priority(client: Client) -> None:
    client.declare("q", single_active_consumer=True)
    consuming(client, "q", priority=1)
    client.consume("q", "other")
    publish(client, "q", b"1")
    replaced(client, "q", priority=1, max_backlog=5)
    assert activity(client) == [True, False]
    replaced(client, "q", priority=-1)
    client.ack(client.deliveries[0])
    client.site.run(0.1)
    assert activity(client) == [False, True]
    publish(client, "q", b"2")
    assert [one.method.consumer_tag for one in client.deliveries] == ["c", "other"]


@pytest.mark.requirement("D18.1")
def test_an_exclusive_consumer_stays_exclusive(client: Client) -> None:
    client.declare("q")
    client.consume("q", "c", exclusive=True)
    client.consume("q", "c", exclusive=True, arguments={"x-replace": True, "x-filter": ODD})
    publish(client, "q", *numbered(1, 2))
    assert bodies(client) == numbered(1)
    with pytest.raises(ChannelClosedError, match="in exclusive use"):
        client.site.client("n1").consume("q")


@pytest.mark.requirement("D18.2")
def test_a_group_stays_with_its_consumer(client: Client) -> None:
    client.declare("q", group_by="routing-key")
    consuming(client, "q", max_backlog=1)
    client.consume("q", "other")
    publish(client, "q", *numbered(1, 3))
    replaced(client, "q", filter=ODD)
    publish(client, "q", *numbered(5))
    assert {one.method.consumer_tag for one in client.deliveries} == {"c"}
    assert bodies(client) == numbered(1, 3, 5)


@pytest.mark.requirement("D18.1")
def test_the_last_of_128_filters_makes_room_for_the_next(client: Client) -> None:
    client.declare("q")
    for number in range(128):
        client.consume("q", f"{number}", arguments={"x-filter": f"/n = {number}"})
    client.consume("q", "5", arguments={"x-filter": "/n = 128", "x-replace": True})
    publish(client, "q", *numbered(5, 128))
    assert [(one.method.consumer_tag, one.body) for one in client.deliveries] == [("5", *numbered(128))]


# -- another queue --------------------------------------------------------------------------------


@MODES
@pytest.mark.requirement("D18.1", "D18.2")
def test_a_consumer_goes_on_with_another_queue_and_keeps_its_messages(
    client: Client, declared: Any, mode: int
) -> None:
    queue = declared()
    client.declare("r")
    consuming(client, queue)
    publish(client, queue, b"1", b"2", mode=mode)
    replaced(client, "r", filter=ODD)
    publish(client, queue, b"3", mode=mode)
    publish(client, "r", *numbered(4, 5), mode=mode)
    assert bodies(client) == [b"1", b"2", *numbered(5)]
    assert [one.method.delivery_tag for one in client.deliveries] == [1, 2, 3]
    client.ack(client.deliveries[0])
    client.nack(client.deliveries[1], requeue=True)
    client.ack(client.deliveries[2])
    client.site.run(0.2)
    assert client.bodies(queue) == [b"2", b"3"]
    client.cancel("c")
    assert client.bodies("r") == numbered(4)


@pytest.mark.requirement("D18.2", "D18.3")
def test_the_messages_of_the_former_queue_count_for_the_backlog_of_the_next() -> None:
    """The example of the specification, and the way back."""
    client = Site("n1", "n2", "n3").client("n1")
    client.declare("q", max_per_subscription_backlog=10)
    client.declare("r", max_per_subscription_backlog=5)
    consuming(client, "q", max_backlog=10)
    publish(client, "q", *[b"q%d" % number for number in range(12)])
    publish(client, "r", *[b"r%d" % number for number in range(12)])
    assert len(bodies(client)) == 10
    replaced(client, "r", max_backlog=10)
    client.ack(client.deliveries[4], multiple=True)
    assert len(bodies(client)) == 10, "it has as many as its backlog"
    client.ack(client.deliveries[5])
    client.ack(client.deliveries[6])
    assert bodies(client)[10:] == [b"r0", b"r1"]
    replaced(client, "q", max_backlog=6)
    assert bodies(client)[12:] == [b"q10"]
    client.ack(client.deliveries[-1], multiple=True)
    assert bodies(client)[13:] == [b"q11"]
    replaced(client, "r")
    assert len(bodies(client)) == 14, "it asks for no backlog, and has 1"
    client.ack(client.deliveries[13])
    assert bodies(client)[14:] == [b"r2"]


@pytest.mark.requirement("D18.3")
def test_the_prefetch_goes_on_with_another_queue(client: Client) -> None:
    client.declare("q")
    client.declare("r")
    client.call(m.BasicQos(10, 3), m.BasicQosOk)
    consuming(client, "q")
    publish(client, "q", b"1234", b"5678")
    replaced(client, "r")
    publish(client, "r", b"12", b"34", b"567890")
    assert bodies(client) == [b"1234", b"5678", b"12"]
    client.ack(client.deliveries[1], multiple=True)
    assert bodies(client)[3:] == [b"34", b"567890"]


@pytest.mark.requirement("D18.1")
def test_a_queue_that_loses_its_last_consumer_by_a_replacement_is_deleted(client: Client) -> None:
    client.declare("q", auto_delete=True)
    client.declare("r")
    consuming(client, "q")
    replaced(client, "r")
    publish(client, "r", b"1")
    assert bodies(client) == [b"1"]
    with pytest.raises(ChannelClosedError, match="no queue 'q'"):
        client.depth("q")


@pytest.mark.requirement("D18.1")
def test_a_consumer_of_replies_may_take_another_queue(client: Client) -> None:
    client.declare("q")
    consuming(client, "amq.rabbitmq.reply-to", no_ack=True)
    replaced(client, "q", no_ack=True)
    publish(client, "q", b"1")
    assert bodies(client) == [b"1"]
    replaced(client, "amq.rabbitmq.reply-to", no_ack=True)
    client.publish("q", b"2", reply_to="amq.rabbitmq.reply-to")
    client.site.run(0.1)
    address = client.get("q").properties.reply_to
    client.publish(address, b"answer")
    assert bodies(client)[1:] == [b"answer"]
    with pytest.raises(ChannelClosedError, match="reply consumer already set"):
        replaced(client, "amq.rabbitmq.reply-to", no_ack=True)


@pytest.mark.requirement("D18.1")
def test_a_queue_that_another_client_has_for_itself_is_refused(client: Client) -> None:
    client.declare("q")
    client.declare("r")
    client.site.client("n1").consume("r", exclusive=True)
    consuming(client, "q")
    with pytest.raises(ChannelClosedError, match="in exclusive use"):
        replaced(client, "r")


@pytest.mark.requirement("D18.1")
@pytest.mark.parametrize(
    ("semantics", "no_ack"), [("at-least-once", False), ("at-least-once", True), ("at-most-once", False)]
)
@MODES
def test_queues_change_while_messages_flow(semantics: str, no_ack: bool, mode: int) -> None:
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("q", semantics=semantics)
    site.client("n3").declare("r", semantics=semantics)
    other, client = site.client("n1"), Watching(site, "n2")
    consuming(client, "q", no_ack=no_ack)
    sent = 0
    for turn in range(12):
        for _ in range(5):
            other.publish("q", b"q%d" % sent, delivery_mode=mode)
            other.publish("r", b"r%d" % sent, delivery_mode=mode)
            sent += 1
            site.run(0.001)
        replaced(client, "rq"[turn % 2], no_ack=no_ack)
    site.run(0.5)
    spans = [0, *vars(client)["before"][1:], len(client.deliveries)]
    for index, (begin, end) in enumerate(pairwise(spans)):
        assert {one.body[:1] for one in client.deliveries[begin:end]} <= {b"qr"[index % 2 :][:1]}
    replaced(client, "r", no_ack=no_ack)
    site.run(0.5)
    found = [one.body for one in client.deliveries]
    assert sorted(found) == sorted(name % number for name in (b"q%d", b"r%d") for number in range(sent))
    assert not any(one.method.redelivered for one in client.deliveries)


# -- races ----------------------------------------------------------------------------------------


@pytest.mark.requirement("D18.1", "D18.2")
@pytest.mark.parametrize(
    ("semantics", "no_ack"), [("at-least-once", False), ("at-least-once", True), ("at-most-once", False)]
)
@MODES
def test_none_is_lost_doubled_or_late_while_messages_flow(semantics: str, no_ack: bool, mode: int) -> None:
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("q", semantics=semantics)
    first = owner(site)
    other = site.client(first)
    client = Watching(site, next(name for name in site.nodes if name != first))
    consuming(client, "q", no_ack=no_ack, filter=ODD)
    sent = 0
    for turn in range(12):
        for _ in range(5):
            other.publish("q", *numbered(*range(sent, sent + 4)), delivery_mode=mode)
            sent += 4
            site.run(0.001)
        replaced(client, "q", no_ack=no_ack, filter=EVEN if turn % 2 == 0 else ODD)
    site.run(0.5)
    spans = [0, *vars(client)["before"][1:], len(client.deliveries)]
    for index, (begin, end) in enumerate(pairwise(spans)):
        parities = {json.loads(one.body)["n"] % 2 for one in client.deliveries[begin:end]}
        assert parities <= {1 - index % 2}, "a message by other terms"
    replaced(client, "q", no_ack=no_ack)
    site.run(0.5)
    assert sorted(one.body for one in client.deliveries) == sorted(numbered(*range(sent)))
    assert not any(one.method.redelivered for one in client.deliveries)


@pytest.mark.requirement("D18.3")
def test_credit_by_the_former_terms_does_not_count() -> None:
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("q")
    client = Watching(site, next(name for name in site.nodes if name != owner(site)))
    consuming(client, "q", filter=ODD)
    publish(client, "q", *BODIES)
    links = client.node.broker.links
    (number,) = [one for link in links.by_partition.values() for one in link.consumers]
    client.send(m.BasicConsume("q", "c", arguments={"x-replace": True, "x-max-backlog": 1}))
    site.run(0.0002)
    site.front_end(client.node.name).credit(number, 5000)
    links.flush_waiting()
    assert bodies(client) == BODIES[:1]


@pytest.mark.requirement("D18.1")
def test_what_the_session_holds_back_goes_back_to_the_queue() -> None:
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("q")
    first = owner(site)
    other, client = site.client(first), Watching(site, next(name for name in site.nodes if name != first))
    consuming(client, "q", filter=ODD)
    for begin in range(0, 40, 4):
        other.publish("q", *numbered(*range(begin, begin + 4)))
        site.run(0.001)
    client.call(m.ChannelFlow(False), m.ChannelFlowOk)
    site.run(0.005)
    seen = len(client.deliveries)
    replaced(client, "q", filter=EVEN)
    client.call(m.ChannelFlow(True), m.ChannelFlowOk)
    site.run(0.5)
    assert 0 < seen < 20 and [one.body for one in client.deliveries[seen:]] == numbered(*range(0, 40, 2))
    assert other.depth("q") == 20 - seen


@pytest.mark.requirement("D18.1", "D18.2", "D18.3")
@pytest.mark.parametrize("waits", [0.0, 0.002, 0.2])
def test_the_new_terms_hold_over_a_lost_owner(waits: float) -> None:
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("q")
    first = owner(site)
    client, other = [Watching(site, name) for name in site.nodes if name != first]
    consuming(client, "q", filter=ODD, max_backlog=2)
    publish(other, "q", *numbered(*range(1, 9)))
    assert bodies(client) == numbered(1, 3)
    client.send(m.BasicConsume("q", "c", arguments={"x-replace": True, "x-filter": EVEN, "x-max-backlog": 3}))
    site.run(waits)
    site.nodes[first].stop(power=True)
    client.answer(m.BasicConsumeOk)
    site.run(4)
    assert bodies(client) == numbered(1, 3, 2)
    client.ack(client.deliveries[1], multiple=True)
    site.run(1)
    assert bodies(client) == numbered(1, 3, 2, 4, 6)
    (consumer,) = consumers_of(site, without=first)
    assert consumer.backlog == 3


@pytest.mark.requirement("D18.1")
@pytest.mark.parametrize("waits", [0.0, 0.001])
def test_a_client_that_is_lost_while_it_replaces_leaves_no_consumer(waits: float) -> None:
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("q")
    client = site.client(next(name for name in site.nodes if name != owner(site)))
    consuming(client, "q")
    publish(client, "q", b"1")
    client.send(m.BasicConsume("q", "c", arguments={"x-replace": True, "x-filter": ODD}))
    site.run(waits)
    client.close()
    site.run(1)
    assert consumers_of(site) == [] and site.client("n1").depth("q") == 1
    assert not any(link.consumers for link in client.node.broker.links.by_partition.values())


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.requirement("D18.1")
def test_a_tag_without_a_consumer_begins(client: Client) -> None:
    client.declare("q")
    replaced(client, "q", filter=ODD)
    publish(client, "q", *numbered(1, 2))
    assert bodies(client) == numbered(1)
    client.cancel("c")
    replaced(client, "q")
    assert bodies(client) == numbered(1, 2)


@pytest.mark.requirement("D18.1")
@pytest.mark.parametrize(
    ("options", "arguments", "code", "reason"),
    [
        ({}, {}, 530, "attempt to reuse consumer tag 'c'"),
        ({}, {"x-replace": False}, 530, "attempt to reuse consumer tag 'c'"),
        ({"no_ack": True}, {"x-replace": True}, 406, "another value of no-ack or exclusive"),
        ({"exclusive": True}, {"x-replace": True}, 406, "another value of no-ack or exclusive"),
        ({}, {"x-replace": True, "x-filter": "/n = "}, 406, "column 6"),
        ({}, {"x-replace": True, "x-max-backlog": -1}, 406, "value_negative"),
    ],
)
def test_what_cannot_be_replaced_is_refused(
    client: Client, options: dict[str, Any], arguments: dict[str, Any], code: int, reason: str
) -> None:
    client.declare("q")
    consuming(client, "q")
    with pytest.raises(ChannelClosedError, match=reason) as refused:
        client.consume("q", "c", arguments=arguments, **options)
    assert refused.value.code == code


def test_the_argument_is_a_boolean(client: Client) -> None:
    client.declare("q")
    with pytest.raises(ChannelClosedError, match="expected boolean, got signedint") as refused:
        consuming(client, "q", replace=1)
    assert refused.value.code == 406


def test_nothing_is_replaced_before_all_nodes_read_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.catalog.membership.formats.CHANGED_TERMS", FORMAT_LEVEL + 1)
    client.declare("q")
    consuming(client, "q")
    with pytest.raises(ChannelClosedError, match="upgrade all nodes first") as refused:
        replaced(client, "q")
    assert refused.value.code == 406
