"""A consumer has no more unsettled messages than its backlog (x-max-backlog), which its queue may cap
(x-max-per-subscription-backlog).
"""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import BACKLOGS_IN_TERMS, FORMAT_LEVEL
from node.delivery.backlog import NO_BACKLOG
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import AmqpCondition
from tests.cluster.kept_links import Link, keeping
from tests.cluster.kinds import client, declared
from tests.cluster.links import LinkClient
from tests.cluster.test_policies import drop, put
from tests.inside import state_of
from tests.site import ChannelClosedError, Client, Site
from tests.wire.amqp10.performatives import credit, receiver, settled

__all__ = ["client", "declared"]

ACCEPTED = d.Accepted()
BODIES = [b"%d" % number for number in range(1, 10)]


@pytest.fixture
def cluster() -> Client:
    return Site("n1", "n2", "n3").client("n1")


def asking(backlog: object) -> dict[str, Any]:
    """The options of basic.consume by which a consumer asks for a backlog."""
    return {"arguments": {"x-max-backlog": backlog}}


def publish(client: Client, queue: str, *bodies: bytes, mode: int = 2) -> None:
    assert all(client.confirms(client.publish(queue, *bodies, delivery_mode=mode)))
    client.site.run(0.1)


def bodies(client: Client) -> list[bytes]:
    client.site.run(0.1)
    return [one.body for one in client.deliveries]


def link_to(
    client: Client, name: str, backlog: object = None, *, credits: int = 100, **terms: Any
) -> LinkClient:
    """A client with a link on handle 0 that asks for a backlog."""
    attach = receiver(0, source=d.Source("q"), **terms)
    attach.properties = None if backlog is None else {"x-max-backlog": backlog}
    return LinkClient(client.site, name, attach, credit(credits))


def last_octets(link: LinkClient) -> bytes:
    return b"".join(payload[-1:] for payload in link.payloads)


# -- AMQP 0-9-1 -----------------------------------------------------------------------------------


@pytest.mark.requirement("D6.1")
@pytest.mark.parametrize("mode", [1, 2])
def test_a_consumer_of_a_capped_queue_that_asks_for_nothing_has_one_message(
    client: Client, declared: Any, mode: int
) -> None:
    queue = declared(max_per_subscription_backlog=3)
    client.consume(queue, prefetch=50)
    publish(client, queue, *BODIES, mode=mode)
    assert bodies(client) == BODIES[:1]
    client.ack(client.deliveries[0])
    assert bodies(client) == BODIES[:2]
    client.nack(client.deliveries[1], requeue=True)
    assert bodies(client) == [*BODIES[:2], BODIES[1]]


@pytest.mark.requirement("D6.2")
@pytest.mark.parametrize(("asked", "cap", "backlog"), [(2, 3, 2), (5, 3, 3), (3, 3, 3)])
def test_the_lower_of_request_and_cap_counts(client: Client, asked: int, cap: int, backlog: int) -> None:
    client.declare("q", max_per_subscription_backlog=cap)
    client.consume("q", **asking(asked))
    publish(client, "q", *BODIES)
    assert bodies(client) == BODIES[:backlog]
    client.ack(client.deliveries[1])
    assert bodies(client) == BODIES[: backlog + 1]
    client.ack(client.deliveries[-1], multiple=True)
    assert len(bodies(client)) == 2 * backlog + 1


@pytest.mark.parametrize(("asked", "prefetch", "most"), [(2, 5, 2), (5, 2, 2), (3, 0, 3)])
def test_a_backlog_counts_on_a_queue_without_a_cap_and_beside_the_prefetch(
    client: Client, declared: Any, asked: int, prefetch: int, most: int
) -> None:
    queue = declared()
    client.consume(queue, prefetch=prefetch, **asking(asked))
    publish(client, queue, *BODIES)
    assert bodies(client) == BODIES[:most]


def test_each_consumer_has_a_backlog_of_its_own(client: Client) -> None:
    client.declare("q", max_per_subscription_backlog=4)
    client.consume("q", "a", **asking(1))
    client.consume("q", "b", **asking(4))
    publish(client, "q", *BODIES)
    tags = [one.method.consumer_tag for one in client.deliveries]
    assert (tags.count("a"), tags.count("b")) == (1, 4)
    assert client.depth("q") == 4


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_consumer_that_asks_for_no_message_gets_none(client: Client, declared: Any, no_ack: bool) -> None:
    queue = declared()
    client.consume(queue, no_ack=no_ack, **asking(0))
    publish(client, queue, b"1")
    assert bodies(client) == [] and client.depth(queue) == 1


def test_consumers_that_do_not_acknowledge_and_gets_have_no_backlog(client: Client) -> None:
    client.declare("q", max_per_subscription_backlog=1)
    publish(client, "q", *BODIES)
    assert [client.get("q", no_ack=False) is not None for _ in range(3)] == [True] * 3
    client.consume("q", no_ack=True, **asking(1))
    assert bodies(client) == BODIES[3:]


def test_what_a_client_has_got_by_get_leaves_its_consumer_the_backlog(client: Client) -> None:
    client.declare("q", max_per_subscription_backlog=2)
    publish(client, "q", *BODIES)
    client.get("q", no_ack=False)
    client.consume("q", **asking(2))
    assert bodies(client) == BODIES[1:3]


def test_removed_messages_count_until_the_client_settles_them(client: Client) -> None:
    client.declare("q", semantics="at-most-once", max_per_subscription_backlog=2)
    client.consume("q", **asking(2))
    publish(client, "q", *BODIES)
    assert bodies(client) == BODIES[:2]
    client.ack(client.deliveries[0])
    assert bodies(client) == BODIES[:3]


def test_the_active_consumer_has_its_backlog(client: Client) -> None:
    client.declare("q", single_active_consumer=True, max_per_subscription_backlog=2)
    client.consume("q", "a", **asking(2))
    client.consume("q", "b", **asking(2))
    publish(client, "q", *BODIES)
    assert [one.method.consumer_tag for one in client.deliveries] == ["a", "a"]
    client.cancel("a")
    client.site.run(0.1)
    assert [one.method.consumer_tag for one in client.deliveries] == ["a", "a", "b", "b"]


def test_settlements_count_when_their_transaction_commits(client: Client) -> None:
    client.declare("q", max_per_subscription_backlog=1)
    publish(client, "q", *BODIES)
    other = client.site.client("n1", transactional=True)
    other.consume("q")
    assert bodies(other) == BODIES[:1]
    other.ack(other.deliveries[0])
    assert bodies(other) == BODIES[:1]
    other.commit()
    assert bodies(other) == BODIES[:2]


@pytest.mark.parametrize(
    ("value", "reason"), [("2", '"expected integer, got longstr"'), (-1, "{value_negative,-1}"),
                          (True, '"expected integer, got bool"'), (None, '"expected integer, got void"')]
)  # fmt: skip
def test_a_backlog_that_is_no_number_is_refused(client: Client, value: object, reason: str) -> None:
    client.declare("q")
    with pytest.raises(ChannelClosedError) as error:
        client.consume("q", **asking(value))
    assert str(error.value) == (
        f"406 PRECONDITION_FAILED - invalid arg 'x-max-backlog' for queue 'q' in vhost '/': {reason}"
    )


# -- policies -------------------------------------------------------------------------------------


def test_a_policy_caps_consumers_that_run_and_lets_them_go_again(client: Client, declared: Any) -> None:
    queue = declared()
    client.consume(queue, "asks", prefetch=3, **asking(3))
    publish(client, queue, *BODIES[:3])
    put(client, max_per_subscription_backlog=2)
    client.ack(client.deliveries[0])
    publish(client, queue, *BODIES[3:])
    assert bodies(client) == BODIES[:3], "the consumer has two unsettled messages"
    client.ack(client.deliveries[1])
    assert bodies(client) == BODIES[:4]
    drop(client)
    assert bodies(client) == BODIES[:5]


def test_consumers_that_ask_for_nothing_have_one_message_once_a_policy_caps_the_queue(client: Client) -> None:
    client.declare("q")
    client.consume("q")
    put(client, max_per_subscription_backlog=5)
    publish(client, "q", *BODIES)
    assert bodies(client) == BODIES[:1]
    drop(client)
    assert bodies(client) == BODIES


@pytest.mark.requirement("D6.2")
def test_the_lowest_of_argument_and_policies_caps(client: Client) -> None:
    client.declare("q", max_per_subscription_backlog=4)
    put(client, max_per_subscription_backlog=3)
    put(client, "o", operator=True, max_per_subscription_backlog=2)
    client.consume("q", **asking(9))
    publish(client, "q", *BODIES)
    assert bodies(client) == BODIES[:2]
    drop(client, "o", operator=True)
    assert bodies(client) == BODIES[:3]


# -- AMQP 1.0 -------------------------------------------------------------------------------------


@pytest.mark.requirement("D6.1", "D6.2")
@pytest.mark.parametrize(("asked", "cap", "backlog"), [(None, 3, 1), (2, 3, 2), (5, 3, 3), (2, None, 2)])
def test_a_link_has_no_more_unsettled_deliveries_than_its_backlog(
    client: Client, asked: int | None, cap: int | None, backlog: int
) -> None:
    client.declare("q", **({} if cap is None else {"max_per_subscription_backlog": cap}))
    publish(client, "q", *BODIES)
    link = link_to(client, "n1", asked)
    assert last_octets(link) == b"".join(BODIES[:backlog])
    link.send(settled(0, None, ACCEPTED))
    assert last_octets(link) == b"".join(BODIES[: backlog + 1])


def test_the_credit_of_a_link_bounds_it_beside_its_backlog(client: Client) -> None:
    client.declare("q")
    publish(client, "q", *BODIES)
    link = link_to(client, "n1", 3, credits=1)
    assert last_octets(link) == b"1"
    link.send(credit(1, 1))
    assert last_octets(link) == b"12"
    link.send(credit(9, 2))
    assert last_octets(link) == b"123"


def test_a_drain_ends_where_the_backlog_is_full(client: Client) -> None:
    client.declare("q", max_per_subscription_backlog=2)
    publish(client, "q", *BODIES)
    link = link_to(client, "n1", 2, credits=0)
    flow = credit(5)
    flow.drain = True
    link.send(flow)
    assert last_octets(link) == b"12"
    flows = [one.performative for one in link.frames if isinstance(one.performative, d.Flow)]
    assert [(one.delivery_count, one.link_credit) for one in flows if one.handle is not None] == [(5, 0)]
    assert client.depth("q") == 7


def test_a_link_settled_by_the_node_has_no_backlog(client: Client) -> None:
    client.declare("q", max_per_subscription_backlog=1)
    publish(client, "q", *BODIES)
    link = link_to(client, "n1", snd_settle_mode=d.SenderSettleMode.SETTLED)
    assert last_octets(link) == b"".join(BODIES)


@pytest.mark.parametrize("value", ["2", -1, True])
def test_a_link_with_a_backlog_that_is_no_number_is_refused(client: Client, value: object) -> None:
    client.declare("q")
    link = link_to(client, "n1", value, credits=0)
    (detach,) = [one.performative for one in link.frames if isinstance(one.performative, d.Detach)]
    assert detach.error is not None and detach.error.condition == AmqpCondition.PRECONDITION_FAILED
    assert "x-max-backlog" in str(detach.error.description)


def test_links_that_are_attached_again_have_their_unsettled_deliveries_in_the_backlog(
    cluster: Client,
) -> None:
    cluster.declare("q", max_per_subscription_backlog=3)
    publish(cluster, "q", *BODIES)
    attach = keeping()
    attach.properties = {"x-max-backlog": 3}
    first = Link(cluster.site, "n1", attach)
    assert first.bodies == b"123"
    first.end("lost")
    again = keeping(dict.fromkeys(first.tags))
    again.properties = {"x-max-backlog": 3}
    second = Link(cluster.site, "n2", again)
    cluster.site.run(1)
    assert second.bodies == b"123" and all(one.resume for one in second.transfers)
    second.accept(1)
    cluster.site.run(1)
    assert second.bodies == b"1234"


# -- several nodes --------------------------------------------------------------------------------


@pytest.mark.requirement("D6.1", "D6.2")
def test_the_backlog_holds_over_a_failover_of_the_owner(cluster: Client) -> None:
    site = cluster.site
    cluster.declare("q", max_per_subscription_backlog=3)
    first, second = site.client("n2"), site.client("n3")
    first.consume("q", **asking(2))
    link = link_to(second, "n3", 9)
    usual = site.client("n3")
    usual.consume("q")
    publish(second, "q", *BODIES)
    assert len(bodies(first)) == 2 and len(link.payloads) == 3 and len(bodies(usual)) == 1
    site.nodes["n1"].stop(power=True)
    site.run(3)
    assert len(bodies(first)) == 2 and len(link.payloads) == 3 and len(bodies(usual)) == 1
    first.ack(first.deliveries[0])
    site.run(1)
    assert len(bodies(first)) == 3 and not any(one.method.redelivered for one in first.deliveries)
    link.send(settled(0, None, ACCEPTED))
    site.run(1)
    assert len(link.payloads) == 4
    assert not {one.body for one in first.deliveries} & {one[-1:] for one in link.payloads}


@pytest.mark.parametrize(("level", "told"), [(FORMAT_LEVEL, 2), (BACKLOGS_IN_TERMS - 1, NO_BACKLOG)])
def test_owners_are_told_what_consumers_ask_for_once_all_members_read_it(level: int, told: int) -> None:
    """The front end holds its consumers to their backlogs in any case."""
    site = Site("n1", "n2", "n3")
    node = site.nodes["n3"]
    node.stop(power=False)
    node.formats = level
    site.run(1)
    node.start()
    site.until(lambda: node.ready and site.nodes["n2"].broker.formats.everywhere == level)
    client = site.client("n2")
    client.declare("q", max_per_subscription_backlog=3)
    client.consume("q", **asking(2))
    publish(client, "q", *BODIES)
    assert bodies(client) == BODIES[:2]
    owners = [one for each in site.nodes.values() for one in each.broker.owners.values() if one.active]
    queues = [queue for one in owners for queue in state_of(one).queues.values()]
    asked = [queue.delivery.consumers.get(*key) for queue in queues for key in queue.delivery.consumers]
    assert [None if one is None else one.backlog for one in asked] == [told]
