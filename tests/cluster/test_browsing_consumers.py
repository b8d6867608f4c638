"""Browsing consumers are shown copies of the messages of a queue, and change nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from cluster.owner.browsing import PAGE_MESSAGES, PAGE_OCTETS
from cluster.owner.requests import FrontEndRequests
from node.delivery.settlements import Outcome, Settlement
from node.message.run import Run
from node.names import REPLY_TO
from node.ranges.range_set import Numbers
from node.refusal import Refusal
from node.session.commands import Consume, Consuming
from node.session.permissions import Scope
from node.session.ports import ConsumerOptions
from node.session.requests import Caller, Requests
from tests.cluster.kinds import KINDS, declare
from tests.cluster.links import Taker
from tests.cluster.recorders import RecordedSubscriber
from tests.cluster.test_browsing import ARGUMENTS, state_of
from tests.cluster.test_drains import owner_of, partition_of, publish
from tests.cluster.test_leases import isolate
from tests.cluster.test_linearizable_reads import owners_of
from tests.inside import state_of as owner_state
from tests.site import Site

BODIES = [b"%d" % number for number in range(6)]
browser = partial(Taker, browse=True)


@pytest.fixture
def site() -> Site:
    return Site("n1", "n2", "n3")


@pytest.mark.requirement("B11.3")
@pytest.mark.sentence("1.0/3.5.2-1")
@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [1, 2])
def test_what_is_there_is_shown_and_then_what_arrives_and_nothing_changes(
    site: Site, kind: str, arguments: str, mode: int
) -> None:
    client = site.client("n1")
    queue = declare(client, kind, **ARGUMENTS[arguments])
    publish(client, *BODIES[:3], queue=queue, delivery_mode=mode)
    site.run(1.5)
    before = state_of(site)
    one = browser(site, "n1" if kind == "exclusive" else "n3", queue, holder=client.holder, limit=10)
    other = browser(site, one.node.name, queue, holder=client.holder, limit=10)
    site.until(lambda: one.bodies == other.bodies == BODIES[:3])
    one.settle()
    site.run(1.5)
    assert state_of(site) == before
    publish(client, *BODIES[3:], queue=queue, delivery_mode=mode)
    site.until(lambda: one.bodies == other.bodies == BODIES)
    assert one.redelivered == [False] * 6
    assert [(got.body, got.method.redelivered) for got in client.drain(queue)] == [
        (body, False) for body in BODIES
    ]


def test_no_more_is_shown_than_there_is_credit_for(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    publish(client, *BODIES)
    taker = browser(site, "n2", limit=2)
    site.run(0.5)
    assert taker.bodies == BODIES[:2]
    taker.credit(3)
    site.run(0.5)
    assert taker.bodies == BODIES[:3]
    taker.credit(0)
    site.run(0.5)
    taker.credit(6)
    site.until(lambda: taker.bodies == BODIES)


@pytest.mark.parametrize("step", range(0, 16, 2))
def test_what_comes_after_the_credit_is_taken_away_is_shown_later(site: Site, step: int) -> None:
    client = site.client("n1")
    client.declare("q")
    publish(client, *BODIES)
    owner = owner_of(site)
    taker = browser(site, next(name for name in site.nodes if name != owner))
    taker.credit(6)
    site.run(step / 4000)
    shown = len(taker.bodies)
    taker.credit(3)
    site.run(0.5)
    assert taker.bodies == BODIES[: max(shown, 3)]
    taker.credit(6)
    site.until(lambda: taker.bodies == BODIES)


def test_a_drain_is_answered_when_all_that_was_there_has_been_shown(site: Site) -> None:
    """Page by page, and again after more has arrived."""
    client = site.client("n1")
    client.declare("q")
    many = [b"%d" % number for number in range(2 * PAGE_MESSAGES + 10)]
    large = [bytes((number,)) * (PAGE_OCTETS // 16) for number in range(40)]
    publish(client, *many, *large)
    taker = browser(site, "n2")
    assert taker.drain(300) == many[:300]
    assert taker.drain(1000) == [*many[300:], *large]
    assert taker.drain(1000) == []
    publish(client, b"a", b"b")
    site.run(0.5)
    assert taker.drain(1000) == [b"a", b"b"]


def test_credit_that_comes_before_the_answer_to_a_drain_stands(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    taker = browser(site, "n2")
    taker.ask_drain(1)
    taker.credit(1)
    site.until(lambda: "done" in taker.said)
    publish(client, b"a")
    site.until(lambda: taker.bodies == [b"a"])


def test_after_a_drain_there_is_no_credit(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    taker = browser(site, "n2", limit=5)
    assert taker.drain(10) == []
    publish(client, b"a")
    site.run(0.5)
    assert taker.bodies == []
    taker.credit(1)
    site.until(lambda: taker.bodies == [b"a"])


def test_later_messages_are_shown_whatever_their_priority(site: Site) -> None:
    """Messages that were there come in the order of delivery, later ones in the order of publication."""
    client = site.client("n1")
    client.declare("q", max_priority=3)
    for priority in (0, 3, 1, 0, 3, 1):
        publish(client, b"early %d" % priority, priority=priority)
    taker = browser(site, "n2", limit=1)
    site.until(lambda: taker.bodies == [b"early 3"])
    for priority in (0, 3, 1):
        publish(client, b"late %d" % priority, priority=priority)
    taker.credit(100)
    site.until(lambda: len(taker.bodies) == 9)
    publish(client, b"last", priority=3)
    site.until(lambda: len(taker.bodies) == 10)
    early = [b"early %d" % priority for priority in (3, 3, 1, 1, 0, 0)]
    assert taker.bodies == [*early, b"late 0", b"late 3", b"late 1", b"last"]


@pytest.mark.sentence("1.0/3.5.2-2")
def test_what_arrives_before_the_first_credit_is_shown_once(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    publish(client, *BODIES[:3])
    taker = browser(site, "n2")
    publish(client, *BODIES[3:])
    taker.credit(100)
    site.until(lambda: len(taker.bodies) >= 6)
    assert taker.drain(100) == []
    assert taker.bodies == BODIES


def test_credit_asks_the_owner_nothing_while_a_question_for_messages_waits(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    taker = browser(site, "n2", limit=5)
    link = taker.node.broker.links.to(partition_of(site))
    asked = link._request
    for limit in range(6, 20):
        taker.credit(limit)
    assert link._request == asked


class Leaver(Taker):
    """Leaves with its first message."""

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool, lease: int) -> None:
        super().deliver(consumer, run, numbers, redelivered, lease)
        self.front_end.leave(consumer, lambda: self.said.append("left"))


def test_a_browser_that_leaves_with_a_message_is_shown_no_more(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    publish(client, *BODIES)
    taker = Leaver(site, "n2", limit=5, browse=True)
    site.run(0.5)
    assert taker.said == [BODIES[0], "left"]


def test_what_is_not_ready_is_not_shown(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    publish(client, b"leased", b"ready")
    assert client.get("q", no_ack=False) is not None
    publish(client, b"delayed", headers={"x-delay": 60_000})
    assert browser(site, "n2").drain(10) == [b"ready"]


@pytest.mark.sentence("1.0/3.5.2-2")
@pytest.mark.parametrize("step", range(0, 24, 2))
def test_a_new_owner_shows_what_follows(site: Site, step: int) -> None:
    client = site.client("n1")
    client.declare("q")
    owner = owner_of(site)
    browsing, publishing = (name for name in site.nodes if name != owner)
    taker, client = browser(site, browsing, limit=2), site.client(publishing)
    publish(client, *BODIES)
    site.until(lambda: len(taker.bodies) == 2)
    taker.credit(10)
    site.run(step / 4000)
    site.nodes[owner].stop(power=False)
    publish(client, b"later")
    site.until(lambda: len(taker.bodies) >= 7)
    assert taker.bodies == [*BODIES, b"later"]


def test_what_a_new_owner_holds_at_first_is_not_passed_over(site: Site) -> None:
    """The owner waits for a lost node that may have these messages, and hands out later ones meanwhile."""
    site.client("n1").declare("q")
    owner = owner_of(site)
    staying, going = (name for name in site.nodes if name != owner)
    client = site.client(staying)
    site.client(going).consume("q", prefetch=1)
    publish(client, *BODIES)
    taker = browser(site, staying, limit=2)
    site.until(lambda: taker.bodies == BODIES[1:3])
    site.nodes[going].stop(power=False)
    site.nodes[owner].stop(power=False)
    site.run(0.01)
    site.nodes[owner].start()
    publish(client, b"later")
    taker.credit(10)
    site.until(lambda: b"later" in taker.bodies)
    assert taker.bodies == [*BODIES[1:], b"later"]


def test_a_former_owner_does_not_answer_for_its_successor(site: Site) -> None:
    site.client("n1").declare("q")
    partition, old = partition_of(site), owner_of(site)
    others = [name for name in site.nodes if name != old]
    publishing, taker = site.client(others[0]), browser(site, old)
    mend = isolate(site, old)
    site.until(lambda: owners_of(site, partition) not in ([old], []))
    publish(publishing, b"new")
    taker.ask_drain(10)
    site.run(1.0)
    mend()
    site.until(lambda: "done" in taker.said)
    assert taker.said == [b"new", "done"]


@pytest.mark.parametrize("limit", [0, 5])
def test_a_queue_that_is_deleted_ends_its_browsers(site: Site, limit: int) -> None:
    client = site.client("n1")
    client.declare("q")
    takers = [browser(site, name, limit=limit) for name in site.nodes]
    takers[1].ask_drain(limit)
    client.delete("q")
    site.until(lambda: all(one.cancelled for one in takers))
    site.until(lambda: "done" in takers[1].said)
    assert takers[0].drain(10) == []


def test_a_browser_keeps_no_queue_and_ends_none(site: Site) -> None:
    client = site.client("n1")
    client.declare("q", auto_delete=True)
    staying, leaving = browser(site, "n2", limit=5), browser(site, "n3", limit=5)
    leaving.leave()
    publish(client, b"a")
    site.until(lambda: staying.bodies == [b"a"])
    assert leaving.bodies == []
    tag = client.consume("q")
    client.cancel(tag)
    site.until(lambda: staying.cancelled)
    client.declare("expiring", expires=2000)
    watching = browser(site, "n2", "expiring", limit=5)
    site.run(1.5)
    assert not watching.cancelled
    site.until(lambda: watching.cancelled)


@pytest.mark.parametrize("first", [False, True])
def test_a_browser_is_no_consumer_beside_an_exclusive_or_single_active_one(site: Site, first: bool) -> None:
    client = site.client("n1")
    client.declare("q")
    client.declare("s", single_active_consumer=True)
    takers = [browser(site, "n2", queue, limit=5) for queue in "qs"] if first else []
    client.consume("q", "q", exclusive=True, prefetch=1)
    client.consume("s", "s", prefetch=1)
    takers = takers or [browser(site, "n2", queue, limit=5) for queue in "qs"]
    for queue in "qs":
        publish(client, b"leased", b"ready", queue=queue)
        assert (
            client.declare(queue, **({"single_active_consumer": True} if queue == "s" else {})).consumer_count
            == 1
        )
    site.until(lambda: len(client.deliveries) == 2)
    site.run(0.1)
    assert [one.body for one in client.deliveries] == [b"leased"] * 2
    assert all(one.bodies[-1] == b"ready" for one in takers)


def test_a_browser_that_has_ended_leaves_nothing_at_the_owner(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    owner = site.nodes[owner_of(site)].broker.owners[partition_of(site)]
    for name in site.nodes:
        for limit in range(3):
            taker = browser(site, name, limit=limit)
            taker.credit(limit + 1)
            taker.leave()
    site.run(0.1)
    client.depth("q")
    state = owner_state(owner)
    assert [one.browsing for one in state.front_ends.greeting.values()] == [{}] * 3
    assert not any(owner._serving._counts.values())
    assert all(not node.broker.links.to(owner.partition)._requests for node in site.nodes.values())


def test_a_node_with_browsers_that_is_lost_is_forgotten(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    owner = owner_of(site)
    lost, other = (name for name in site.nodes if name != owner)
    browser(site, lost, limit=5)
    staying = browser(site, other, limit=5)
    site.nodes[lost].stop(power=False)
    site.run(5.0)
    publish(site.client(owner), b"a")
    site.until(lambda: staying.bodies == [b"a"])


def test_the_settlements_of_a_browser_are_ignored_in_transactions_too(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    publish(client, *BODIES)
    taker, answers = browser(site, "n2", limit=6), list[Refusal | None]()
    site.until(lambda: len(taker.bodies) == 6)
    settled = [Settlement(taker.consumer, [(number, number)], Outcome.ACCEPTED) for number in taker.numbers]
    taker.node.input(lambda: taker.front_end.commit([], settled, answers.append))
    taker.node.input(lambda: taker.front_end.discard(taker.consumer, [(taker.numbers[0],) * 2]))
    first = [(taker.numbers[0],) * 2]
    taker.node.input(lambda: taker.front_end.give_back(taker.consumer, first, Outcome.RETURNED))
    site.until(lambda: answers)
    assert client.bodies("q") == BODIES


def test_a_queue_whose_only_node_is_down_is_browsed_on_when_the_node_is_back(site: Site) -> None:
    client = site.client("n2")
    client.declare("q", queue_type="classic")
    publish(client, b"before")
    taker = browser(site, "n1", limit=5)
    site.until(lambda: taker.bodies == [b"before"])
    site.nodes["n2"].stop(power=False)
    site.until(lambda: site.nodes["n1"].broker.links.to(partition_of(site)).unreachable)
    taker.ask_drain(5)
    site.run(0.1)
    assert taker.said == [b"before", "done"]
    taker.credit(5)
    site.nodes["n2"].start()
    site.until(lambda: site.nodes["n2"].ready)
    publish(site.client("n2"), b"after")
    site.until(lambda: b"after" in taker.said)
    assert not taker.cancelled


@pytest.mark.interpreted
def test_an_owner_of_the_last_release_refuses(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such an owner takes an unknown request for a basic.get of the queue in the first argument."""
    take = FrontEndRequests.take

    def of_last_release(
        self: FrontEndRequests, front_end: int, epoch: int, request: int, name: str, arguments: list[Any]
    ) -> None:
        known = ("get", "purge", "count", "redeliver")
        take(self, front_end, epoch, request, name if name in known else "get", arguments)

    client = site.client("n1")
    client.declare("q")
    monkeypatch.setattr(FrontEndRequests, "take", of_last_release)
    front_end, refusals = site.front_end("n2"), list[Refusal | None]()
    queue, options = front_end.queue("/", "q", 0), ConsumerOptions(False, False, 0, 5, browse=True)
    site.nodes["n2"].input(
        lambda: front_end.consume(RecordedSubscriber(), queue, options, lambda _, why: refusals.append(why))
    )
    site.until(lambda: refusals)
    assert [str(one) for one in refusals] == ["no queue 'q' in vhost '/'"]


def test_direct_replies_are_taken_and_not_browsed(site: Site) -> None:
    """The queue of direct replies is deleted with its consumer."""
    front_end, results = site.front_end("n1"), list[Any]()
    caller = Caller(Scope("guest", "/"), 1, RecordedSubscriber())
    command = Consume(REPLY_TO, 5, settled=True, browse=True)
    site.nodes["n1"].input(lambda: Requests(front_end).carry_out(caller, command, results.append))
    site.until(lambda: results)
    (consuming,) = results
    assert isinstance(consuming, Consuming) and consuming.reply_to
    assert front_end.consumer(consuming.consumer) is not None
