"""Clients acknowledge, cancel and expire messages by bookmark and by filter, those of others too (D8)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from node.delivery.deeds import Became, Deed
from node.refusal import AccessRefusedError, PreconditionFailedError
from node.session.commands import SettleMessages
from node.session.core import SessionCore
from node.session.ports import Identity
from node.session.publishing_session import none_in_use
from node.wire.amqp091 import methods as m
from tests.cluster.kept_links import Link, keeping, kept, owner, site
from tests.cluster.recorders import RecordedSubscriber
from tests.cluster.test_modified_annotations import annotations_of
from tests.cluster.test_policies import put
from tests.inside import machine_of
from tests.site import ChannelClosedError, Client, Site

__all__ = ["site"]

QUEUE = "q"
DEAD = "dead"
TELL = {"x-tell": True}
ACKNOWLEDGE, CANCEL, EXPIRE, *_ = Deed
SETTLING = (ACKNOWLEDGE, CANCEL, EXPIRE)


class Settlement:
    """The command to settle messages, as a session of a node carries it out."""

    def __init__(
        self,
        site: Site,
        name: str,
        deed: Deed,
        *bookmarks: str,
        filter: str = "",
        wait: bool = True,
        **options: Any,
    ) -> None:
        self.answers: list[Any] = []
        core: Any = SessionCore(site.front_end(name), RecordedSubscriber(), none_in_use)
        core.enter(Identity("guest"), "/")
        command = SettleMessages(QUEUE, deed, bookmarks, filter, **options)
        site.nodes[name].input(lambda: core.carry_out(1, command, self.answers.append))
        if wait:
            site.until(lambda: self.answers)

    @property
    def answer(self) -> Any:
        return self.answers[0]

    @property
    def became(self) -> list[Became]:
        """The outcomes, in the order of the messages' bookmarks."""
        return [became for _, became in sorted(self.answer.bookmarks.items())]


@pytest.fixture
def client(site: Site) -> Client:
    """A client that has declared the queue, on the node of its owner."""
    client = site.client("n1")
    client.declare(QUEUE)
    return client


def elsewhere(site: Site) -> list[str]:
    """The nodes that do not own the queue."""
    return [name for name in site.nodes if name != owner(site)]


def taking(site: Site, name: str, count: int, **options: Any) -> Client:
    """A consumer that has got so many messages, and settles none."""
    taking = site.client(name)
    taking.consume(QUEUE, prefetch=count, arguments=TELL | options)
    site.until(lambda: len(taking.deliveries) == count)
    return taking


def bookmarks_of(client: Client) -> list[str]:
    return [one.headers["x-bookmark"] for one in client.deliveries]


def unread(client: Client) -> list[bytes]:
    """The messages that are left in the queue."""
    client.site.run(0.1)
    return client.bodies(QUEUE)


@pytest.mark.requirement("D8.1", "D8.2")
@pytest.mark.parametrize("persistent", [2, 1])
@pytest.mark.parametrize("period", [None, 60_000])
def test_a_client_acknowledges_what_another_one_has(site: Site, persistent: int, period: int | None) -> None:
    client = site.client("n1")
    client.declare(QUEUE, **({} if period is None else {"lease_period": period}))
    client.confirms(client.publish(QUEUE, b"1", b"2", b"3", b"4", delivery_mode=persistent))
    holding, asked = elsewhere(site)
    holder = taking(site, holding, 3)
    first, second, third = bookmarks_of(holder)
    one = Settlement(site, asked, ACKNOWLEDGE, first)
    assert one.became == [Became.SETTLED] and one.answer.counts == {Became.SETTLED: 1}
    assert Settlement(site, holding, ACKNOWLEDGE, first, second).became == [Became.GONE, Became.SETTLED]
    # The consumer keeps its tags, and its late outcomes do no harm.
    holder.ack(holder.deliveries[0])
    holder.nack(holder.deliveries[1], requeue=True)
    site.run(0.1)
    assert holder.connection.open
    assert Settlement(site, "n1", ACKNOWLEDGE, third).became == [Became.SETTLED]
    holder.close()
    assert unread(client) == [b"4"]


@pytest.mark.requirement("D8.1")
def test_a_waiting_message_is_acknowledged_by_its_bookmark(site: Site, client: Client) -> None:
    client.confirms(client.publish(QUEUE, b"1", b"2"))
    holder = taking(site, "n2", 2)
    holder.close()
    bookmark = bookmarks_of(holder)[0]
    site.until(lambda: client.depth(QUEUE) == 2)
    assert Settlement(site, "n3", ACKNOWLEDGE, bookmark).became == [Became.SETTLED]
    assert unread(client) == [b"2"]


@pytest.mark.requirement("D8.2")
def test_a_number_that_the_queue_has_not_given_is_not_found(site: Site, client: Client) -> None:
    client.confirms(client.publish(QUEUE, b"1"))
    (bookmark,) = bookmarks_of(taking(site, "n2", 1))
    later = f"{int(bookmark, 16) + 1000:024x}"
    assert Settlement(site, "n2", EXPIRE, bookmark, later).became == [Became.SETTLED, Became.NOT_FOUND]


@pytest.mark.requirement("D8.4", "D8.1", "D8.5", "D8.6")
@pytest.mark.parametrize("deed", SETTLING)
@pytest.mark.parametrize("by_policy", [False, True])
def test_only_its_consumer_settles_a_message_of_a_strict_queue(
    site: Site, deed: Deed, by_policy: bool
) -> None:
    client = site.client("n1")
    client.declare(QUEUE, **({} if by_policy else {"leasing": "strict"}))
    if by_policy:
        put(client, leasing="strict")
    client.confirms(client.publish(QUEUE, b"1", b"2"))
    holder = taking(site, "n2", 1)
    (bookmark,) = bookmarks_of(holder)
    assert Settlement(site, "n3", deed, bookmark).became == [Became.LEASED]
    by_filter = Settlement(site, "n3", ACKNOWLEDGE, filter="TRUE")
    assert by_filter.answer.counts == {Became.LEASED: 1, Became.SETTLED: 1}
    holder.ack(holder.deliveries[0])
    assert unread(client) == []


@pytest.mark.requirement("D8.4")
@pytest.mark.parametrize("wrong", ["exclusive", 1])
def test_leasing_has_two_values(client: Client, wrong: Any) -> None:
    with pytest.raises(ChannelClosedError, match="406 PRECONDITION_FAILED - invalid arg 'x-leasing'"):
        client.declare("other", leasing=wrong)


# -- cancel and expire --------------------------------------------------------------------------------


@pytest.mark.requirement("D8.5")
@pytest.mark.parametrize("holding", ["n1", "n2", "n3"])
@pytest.mark.parametrize("period", [None, 60_000])
@pytest.mark.parametrize("late", ["ack", "nack"])
def test_a_cancelled_message_goes_to_another_consumer(
    site: Site, holding: str, period: int | None, late: str
) -> None:
    client = site.client("n1")
    client.declare(QUEUE, **({} if period is None else {"lease_period": period}))
    client.confirms(client.publish(QUEUE, b"1"))
    holder = taking(site, holding, 1)
    (bookmark,) = bookmarks_of(holder)
    assert Settlement(site, "n3", CANCEL, bookmark).became == [Became.SETTLED]
    assert Settlement(site, "n3", CANCEL, bookmark).became == [Became.NOT_LEASED]
    other = taking(site, "n3", 1)
    assert other.deliveries[0].method.redelivered
    assert other.deliveries[0].headers["x-delivery-count"] == 1
    # The former consumer has lost the message: neither its outcome nor its end takes it from the other one.
    if late == "ack":
        holder.ack(holder.deliveries[0])
    holder.close()
    site.run(0.2)
    assert len(other.deliveries) == 1 and client.depth(QUEUE) == 0
    other.nack(other.deliveries[0], requeue=True)
    site.until(lambda: len(other.deliveries) == 2)
    other.ack(other.deliveries[1])
    assert unread(client) == []


@pytest.mark.requirement("D8.5")
def test_a_cancel_counts_as_one(site: Site) -> None:
    client = site.client("n1")
    client.declare(DEAD)
    dead = {"dead_letter_exchange": "", "dead_letter_routing_key": DEAD}
    client.declare(QUEUE, max_cancels=2, max_deliveries=1, **dead)
    client.confirms(client.publish(QUEUE, b"1"))
    for _ in range(2):
        holder = taking(site, "n2", 1)
        assert Settlement(site, "n3", CANCEL, *bookmarks_of(holder)).became == [Became.SETTLED]
        holder.close()
    site.until(lambda: client.depth(DEAD) == 1)
    got = client.get(DEAD)
    assert got is not None and got.headers["x-first-death-reason"] == "expired"
    assert unread(client) == []


@pytest.mark.requirement("D8.6")
@pytest.mark.parametrize("leased", [False, True])
@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("persistent", [2, 1])
def test_an_expired_message_is_a_dead_letter_or_gone(
    site: Site, leased: bool, dead: bool, persistent: int
) -> None:
    client = site.client("n1")
    client.declare(DEAD)
    target = {"dead_letter_exchange": "", "dead_letter_routing_key": DEAD} if dead else {}
    client.declare(QUEUE, **target)
    client.confirms(client.publish(QUEUE, b"1", delivery_mode=persistent))
    holder = taking(site, "n2", 1)
    (bookmark,) = bookmarks_of(holder)
    if not leased:
        holder.close()
        site.until(lambda: client.depth(QUEUE) == 1)
    assert Settlement(site, "n3", EXPIRE, bookmark).became == [Became.SETTLED]
    assert Settlement(site, "n3", EXPIRE, bookmark).became == [Became.GONE]
    if leased:
        holder.reject(holder.deliveries[0], requeue=False)
    site.run(0.2)
    letters = client.drain(DEAD)
    assert [one.headers["x-first-death-reason"] for one in letters] == ["expired"] * dead
    assert unread(client) == []


# -- filters ------------------------------------------------------------------------------------------


@pytest.mark.requirement("D8.3", "X4.4")
@pytest.mark.parametrize("deed", SETTLING)
def test_a_filter_names_messages_that_are_leased_and_that_are_not(
    site: Site, client: Client, deed: Deed
) -> None:
    """In bounded steps: more messages than one turn looks at."""
    for number in range(12):
        bodies = [json.dumps({"price": number * 100 + each}).encode() for each in range(100)]
        client.confirms(client.publish(QUEUE, *bodies, headers={"kind": "ab"[number % 2]}))
    holder = taking(site, "n2", 150)
    settled = Settlement(site, "n3", deed, filter="kind = 'b' AND /price % 2 = 0")
    left = 600 if deed is CANCEL else 300
    counts = {Became.SETTLED: 25, Became.NOT_LEASED: 275} if deed is CANCEL else {Became.SETTLED: 300}
    assert settled.answer.counts == counts and settled.answer.bookmarks == {}
    holder.close()
    site.run(0.1)
    assert client.depth(QUEUE) == 600 + left
    assert Settlement(site, "n3", deed, filter="kind = 'c'").answer.counts == {}


@pytest.mark.requirement("D8.3")
def test_a_filter_does_not_name_later_messages(site: Site, client: Client) -> None:
    client.confirms(client.publish(QUEUE, *[b"%d" % number for number in range(2000)]))
    settlement = Settlement(site, "n3", ACKNOWLEDGE, filter="/a IS NULL", wait=False)
    site.run(0.004)
    client.confirms(client.publish(QUEUE, b"later"))
    site.until(lambda: settlement.answers)
    assert settlement.answer.counts == {Became.SETTLED: 2000}
    assert unread(client) == [b"later"]


@pytest.mark.requirement("D8.3")
@pytest.mark.parametrize("deed", [ACKNOWLEDGE, EXPIRE])
def test_a_delayed_message_is_settled_before_it_is_due(site: Site, client: Client, deed: Deed) -> None:
    client.confirms(client.publish(QUEUE, b"1", headers={"x-delay": 500}))
    client.confirms(client.publish(QUEUE, b"2", headers={"x-delay": 500, "stays": 1}))
    assert Settlement(site, "n2", deed, filter="stays IS NULL").answer.counts == {Became.SETTLED: 1}
    site.run(0.6)
    assert unread(client) == [b"2"]


@pytest.mark.parametrize(("wrong", "column"), [("a =", 4), ("f(", 3)])
def test_a_wrong_filter_is_refused(site: Site, client: Client, wrong: str, column: int) -> None:
    refusal = Settlement(site, "n2", ACKNOWLEDGE, filter=wrong).answer
    assert isinstance(refusal, PreconditionFailedError)
    assert f"column {column}" in str(refusal)


# -- refusals -----------------------------------------------------------------------------------------


@pytest.mark.requirement("D8.2")
def test_one_wrong_bookmark_refuses_all(site: Site, client: Client) -> None:
    client.confirms(client.publish(QUEUE, b"1"))
    holder = taking(site, "n2", 1)
    refusal = Settlement(site, "n3", ACKNOWLEDGE, *bookmarks_of(holder), "x" * 24).answer
    assert isinstance(refusal, PreconditionFailedError) and "x" * 24 in str(refusal)
    assert isinstance(Settlement(site, "n3", ACKNOWLEDGE).answer, PreconditionFailedError)
    holder.close()
    assert unread(client) == [b"1"]


def test_a_user_who_may_not_read_the_queue_settles_nothing(site: Site, client: Client) -> None:
    patterns = {"configure": ".*", "write": ".*", "read": "other"}
    site.submit("n1", "set_permissions", {"vhost": "/", "user": "guest", **patterns})
    assert isinstance(Settlement(site, "n1", ACKNOWLEDGE, filter="TRUE").answer, AccessRefusedError)


# -- places and owners --------------------------------------------------------------------------------


@pytest.mark.requirement("D8.1")
def test_an_at_most_once_queue_has_what_no_consumer_has(site: Site) -> None:
    client = site.client("n1")
    client.declare(QUEUE, semantics="at-most-once")
    client.confirms(client.publish(QUEUE, b"1", b"2"))
    holder = taking(site, "n2", 1)
    assert Settlement(site, "n3", CANCEL, *bookmarks_of(holder)).became == [Became.GONE]
    assert Settlement(site, "n3", ACKNOWLEDGE, filter="TRUE").answer.counts == {Became.SETTLED: 1}
    assert unread(client) == []


@pytest.mark.requirement("D8.1", "D8.5")
@pytest.mark.parametrize("deed", [ACKNOWLEDGE, CANCEL])
def test_a_group_goes_on_when_its_message_is_settled(site: Site, deed: Deed) -> None:
    client = site.client("n1")
    client.declare(QUEUE, group_by="kind")
    client.confirms(client.publish(QUEUE, b"1", b"2", b"3", headers={"kind": "a"}))
    holder = taking(site, "n2", 1)
    other = site.client("n3")
    other.consume(QUEUE, prefetch=2)
    site.run(0.1)
    assert not other.deliveries
    Settlement(site, "n3", deed, *bookmarks_of(holder))
    site.until(lambda: len(other.deliveries) == 2)
    assert [one.body for one in other.deliveries] == [b"2", b"3"] if deed is ACKNOWLEDGE else [b"1", b"2"]


@pytest.mark.requirement("D8.1")
def test_a_kept_message_of_a_lost_link_is_settled_for_its_link(site: Site, client: Client) -> None:
    client.confirms(client.publish(QUEUE, b"1", b"2", b"3"))
    attach = keeping()
    attach.properties = dict(TELL)
    link = Link(site, "n2", attach, credits=3)
    site.until(lambda: len(link.payloads) == 3)
    first, second, third = (annotations_of(one)["x-bookmark"] for one in link.payloads)
    link.end("lost")
    site.until(lambda: kept(site) == 3)
    assert Settlement(site, "n3", ACKNOWLEDGE, first).became == [Became.SETTLED]
    assert Settlement(site, "n3", EXPIRE, second).became == [Became.SETTLED]
    assert Settlement(site, "n3", CANCEL, third).became == [Became.SETTLED]
    site.run(0.1)
    # The link has none of them any more when it is attached again, and the cancelled one is ready.
    again = Link(site, "n1", keeping(), credits=0)
    assert again.told == set()
    assert unread(client) == [b"3"]


@pytest.mark.requirement("D8.1")
def test_a_message_of_a_prepared_transaction_is_left_to_the_transaction() -> None:
    """The node that decides is frozen meanwhile."""
    site = Site("n1", "n2", "n3", "n4")
    for node, queue in (("n2", "a"), ("n3", QUEUE)):
        site.client(node).declare(queue, durable=False)
    client = site.client("n4", transactional=True)
    state = site.nodes["n3"].broker.catalog.state
    coordinator, participant = (state.queues["/", queue].partition for queue in ("a", QUEUE))
    assert coordinator < participant
    other = site.client("n1")
    other.confirms(other.publish(QUEUE, b"1"))
    client.consume(QUEUE, arguments=TELL)
    site.until(lambda: client.deliveries)
    client.publish("a", b"m")
    client.ack(client.deliveries[0])
    site.nodes["n2"].pause()
    client.send(m.TxCommit())
    prepared = machine_of(site.nodes["n3"].broker.owners[participant]).transactions.prepared
    site.until(lambda: prepared)
    for deed in SETTLING:
        assert Settlement(site, "n1", deed, *bookmarks_of(client)).became == [Became.IN_TRANSACTION]
    site.nodes["n2"].resume()
    client.answer(m.TxCommitOk)
    assert Settlement(site, "n1", ACKNOWLEDGE, *bookmarks_of(client)).became == [Became.GONE]


@pytest.mark.requirement("D8.1", "D8.5", "D8.6")
@pytest.mark.parametrize("deed", SETTLING)
@pytest.mark.parametrize("power", [False, True])
def test_a_settlement_is_done_once_when_its_owner_is_lost(
    site: Site, client: Client, deed: Deed, power: bool
) -> None:
    client.confirms(client.publish(QUEUE, b"1", b"2"))
    holding, asked = elsewhere(site)
    holder = taking(site, holding, 2)
    bookmark = bookmarks_of(holder)[0]
    settlement = Settlement(site, asked, deed, bookmark, wait=False)
    site.nodes[owner(site)].stop(power=power)
    site.until(lambda: settlement.answers)
    assert settlement.became[0] in (Became.SETTLED, Became.GONE)
    site.run(3.0)
    other = site.client(asked)
    other.consume(QUEUE, "other")
    site.run(0.5)
    assert [one.body for one in other.deliveries] == ([b"1"] if deed is CANCEL else [])
    assert all(one.headers["x-delivery-count"] == 1 for one in other.deliveries)
    holder.ack(holder.deliveries[1])
    other.close()
    holder.close()
    site.run(0.2)
    assert site.client(asked).bodies(QUEUE) == ([b"1"] if deed is CANCEL else [])
