"""A drain gives a consumer what is ready for it, and takes the rest of its credit away (AMQP 1.0, part 2
§2.6.7).
"""

from __future__ import annotations

from typing import Any

import pytest

from cluster.owner.requests import FrontEndRequests
from node.wire.amqp091 import methods as m
from tests.cluster.kinds import KINDS, declare
from tests.cluster.links import Taker
from tests.cluster.test_leases import isolate
from tests.cluster.test_linearizable_reads import owners_of
from tests.site import Client, Site

BODIES = [b"%d" % number for number in range(6)]
NO_ACK = pytest.mark.parametrize("no_ack", [False, True])
STORED = [(kind, mode) for kind in KINDS for mode in (1, 2)]
"""(kind of queue, delivery mode of its messages)."""

STEPS = range(-8, 32)
"""The time of a publish relative to the drain, in quarters of a millisecond."""


@pytest.fixture
def site() -> Site:
    return Site("n1", "n2", "n3")


def partition_of(site: Site, queue: str = "q") -> int:
    return next(iter(site.nodes.values())).broker.catalog.state.queues["/", queue].partition


def owner_of(site: Site, queue: str = "q") -> str:
    """The node that owns the queue."""
    partition = partition_of(site, queue)
    site.until(lambda: owners_of(site, partition))
    (name,) = owners_of(site, partition)
    return name


def publish(client: Client, *bodies: bytes, queue: str = "q", **properties: Any) -> None:
    assert all(client.confirms(client.publish(queue, *bodies, **properties)))


@pytest.mark.requirement("B8.1", "B8.3")
@NO_ACK
@pytest.mark.parametrize("arguments", [{}, {"semantics": "at-most-once"}, {"single_active_consumer": True}])
@pytest.mark.parametrize(("kind", "mode"), STORED)
def test_a_consumer_gets_what_is_there_and_nothing_more_before_it_has_credit_again(
    site: Site, kind: str, mode: int, arguments: dict[str, Any], no_ack: bool
) -> None:
    client = site.client("n1")
    queue = declare(client, kind, **arguments)
    publish(client, *BODIES[:3], queue=queue, delivery_mode=mode)
    taker = Taker(site, "n1" if kind == "exclusive" else "n3", queue, no_ack=no_ack, holder=client.holder)
    assert taker.drain(2) == BODIES[:2]
    assert taker.drain(10) == BODIES[2:3]
    assert taker.drain(10) == []
    publish(client, *BODIES[3:], queue=queue, delivery_mode=mode)
    site.run(0.5)
    assert taker.bodies == BODIES[:3]
    taker.credit(5)
    site.until(lambda: taker.bodies == BODIES[:5])
    assert taker.drain(10) == BODIES[5:]


@NO_ACK
@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("kind", ["replicated", "classic", "transient"])
def test_a_message_around_a_drain_comes_before_the_answer_or_stays(
    site: Site, kind: str, mode: int, no_ack: bool
) -> None:
    publishing = site.client("n1")
    declare(publishing, kind)
    taker, outcomes = Taker(site, "n3", no_ack=no_ack), set[bool]()
    for step in STEPS:
        body, before = b"%d" % step, len(taker.said)
        publish(publishing, b"before " + body, delivery_mode=mode)
        if step < 0:
            tags = publishing.publish("q", body, delivery_mode=mode)
            site.run(-step / 4000)
            taker.ask_drain(len(taker.bodies) + 5)
        else:
            taker.ask_drain(len(taker.bodies) + 5)
            site.run(step / 4000)
            tags = publishing.publish("q", body, delivery_mode=mode)
        site.until(lambda before=before: "done" in taker.said[before:])
        publishing.confirms(tags)
        site.run(0.05)
        first, *more = taker.said[before:]
        assert first == b"before " + body
        assert more in (["done"], [body, "done"]), "nothing comes behind the answer"
        outcomes.add(more == ["done"])
        assert taker.drain(len(taker.bodies) + 5) == ([body] if more == ["done"] else [])
    assert outcomes == {False, True}


def test_what_the_same_node_published_before_comes_first(site: Site) -> None:
    client = site.client("n2")
    client.declare("q")
    taker = Taker(site, "n2")
    client.publish("q", b"before")
    assert taker.drain(10) == [b"before"]


@NO_ACK
@pytest.mark.parametrize("step", range(0, 24, 2))
def test_a_drain_is_asked_of_the_next_owner(site: Site, no_ack: bool, step: int) -> None:
    """Whatever the former owner has done about it. No message is lost or comes twice."""
    site.client("n1").declare("q")
    owner = owner_of(site)
    consuming, publishing = (name for name in site.nodes if name != owner)
    taker, client = Taker(site, consuming, no_ack=no_ack), site.client(publishing)
    publish(client, *BODIES)
    taker.ask_drain(10)
    site.run(step / 4000)
    site.nodes[owner].stop(power=False)
    site.until(lambda: "done" in taker.said)
    if no_ack:
        # Messages whose removal was committed are lost with an owner that has not sent them yet.
        assert taker.said in ([*BODIES, "done"], ["done"])
    else:
        assert taker.said == [*BODIES, "done"]
    publish(client, b"later")
    site.run(4.0)
    assert taker.said[-1] == "done", "the new owner knows of no credit"
    assert taker.drain(20) == [b"later"]


@pytest.mark.parametrize("arguments", [{}, {"single_active_consumer": True}])
@pytest.mark.parametrize("later", [False, True])
def test_a_new_owner_waits_for_the_consumers_of_other_front_ends(
    site: Site, arguments: dict[str, Any], later: bool
) -> None:
    """A message that a lost node may have got is ready for others when the owner does not wait any more.
    Which consumer is the single active one is not known before, either.
    """
    site.client("n1").declare("q", **arguments)
    owner = owner_of(site)
    staying, going = (name for name in site.nodes if name != owner)
    taker, client = Taker(site, staying), site.client(staying)
    site.client(going).consume("q", prefetch=1)
    if not later:
        publish(client, *BODIES[:3])
    site.nodes[going].stop(power=False)
    site.nodes[owner].stop(power=False)
    site.run(0.01)
    site.nodes[owner].start()
    if later:
        publish(client, *BODIES[:3])
    taker.ask_drain(10)
    site.until(lambda: "done" in taker.said)
    assert taker.said == [*BODIES[:3], "done"]


def test_the_consumer_that_becomes_active_after_a_loss_gets_what_is_there(site: Site) -> None:
    """The active consumer is lost with its node and the owner."""
    site.client("n1").declare("q", single_active_consumer=True)
    owner = owner_of(site)
    staying, going = (name for name in site.nodes if name != owner)
    active = site.client(going)
    active.consume("q", prefetch=2)
    taker, client = Taker(site, staying), site.client(staying)
    publish(client, *BODIES)
    site.until(lambda: len(active.deliveries) == 2)
    site.nodes[going].stop(power=False)
    site.nodes[owner].stop(power=False)
    site.run(0.01)
    site.nodes[owner].start()
    taker.ask_drain(10)
    site.until(lambda: "done" in taker.said)
    assert taker.said == [*BODIES, "done"]


def test_a_former_owner_does_not_answer_for_its_successor(site: Site) -> None:
    site.client("n1").declare("q")
    partition, old = partition_of(site), owner_of(site)
    others = [name for name in site.nodes if name != old]
    publishing, taker = site.client(others[0]), Taker(site, old)
    mend = isolate(site, old)
    site.until(lambda: owners_of(site, partition) not in ([old], []))
    publish(publishing, b"new")
    assert site.nodes[old].broker.may_serve(partition), "the former owner has its lease still"
    taker.ask_drain(10)
    site.run(1.0)
    mend()
    site.until(lambda: "done" in taker.said)
    assert taker.said == [b"new", "done"]


def test_credit_that_comes_before_the_answer_stands(site: Site) -> None:
    """Also where the owner hears of it before it has answered, and where it is no more than the drain's."""
    publishing = site.client("n1")
    publishing.declare("q")
    owner = owner_of(site)
    taker = Taker(site, next(name for name in site.nodes if name != owner))
    answered = set[bool]()
    for step in range(24):
        count = len(taker.bodies)
        taker.ask_drain(count + 1, f"done {step}")
        site.run(step / 1000)
        answered.add(f"done {step}" in taker.said)
        taker.credit(count + 1)
        site.until(lambda step=step: f"done {step}" in taker.said)
        publish(publishing, b"%d" % step)
        site.until(lambda step=step: taker.bodies[-1:] == [b"%d" % step])
    assert answered == {False, True}


def test_two_drains_are_answered_in_their_order(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    publish(client, *BODIES)
    taker = Taker(site, "n2")
    taker.ask_drain(2, "first")
    taker.ask_drain(4, "second")
    site.until(lambda: "second" in taker.said)
    assert [one for one in taker.said if isinstance(one, str)] == ["first", "second"]
    assert taker.bodies == BODIES[:4]
    assert taker.drain(9) == BODIES[4:]


def test_each_of_two_drains_gives_what_was_published_before_it(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    taker = Taker(site, client.node.name)
    taker.ask_drain(1, "first")
    client.publish("q", *BODIES)
    taker.ask_drain(3, "second")
    site.until(lambda: "second" in taker.said)
    assert [one for one in taker.said if isinstance(one, str)] == ["first", "second"]
    assert taker.bodies == BODIES[:3]


def test_credit_from_before_the_drain_is_taken_away_as_well(site: Site) -> None:
    """Also where the link has not told the owner of it yet."""
    client = site.client("n1")
    client.declare("q")
    taker = Taker(site, owner_of(site), limit=100)
    assert taker.drain(101) == []
    publish(client, *BODIES)
    site.run(0.5)
    assert taker.bodies == []


def test_what_is_not_ready_is_not_waited_for(site: Site) -> None:
    """Delayed messages, messages that rest, and messages that other consumers have."""
    client = site.client("n1")
    client.declare("q", redelivery_backoff={"initial": 60_000})
    publish(client, b"failed", b"leased")
    failed, _leased = client.get("q", no_ack=False), client.get("q", no_ack=False)
    assert failed is not None
    client.nack(failed, requeue=True)
    publish(client, b"delayed", headers={"x-delay": 60_000})
    publish(client, b"ready")
    assert Taker(site, "n2").drain(10) == [b"ready"]


@pytest.mark.parametrize("arguments", [{"group_by": "routing-key"}, {"max_unsettled": 1}])
def test_what_a_queue_keeps_from_the_consumer_for_now_is_not_waited_for(
    site: Site, arguments: dict[str, Any]
) -> None:
    client = site.client("n1")
    client.declare("q", **arguments)
    one, other = Taker(site, "n2"), Taker(site, "n3")
    publish(client, b"a")
    assert one.drain(1) == [b"a"]
    publish(client, b"b")
    assert other.drain(1) == []
    one.settle()
    site.run(0.1)
    assert other.drain(1) == [b"b"]


def test_of_a_single_active_consumer_the_others_get_nothing(site: Site) -> None:
    client = site.client("n1")
    client.declare("q", single_active_consumer=True)
    publish(client, *BODIES)
    active, waiting = Taker(site, "n2"), Taker(site, "n3")
    assert waiting.drain(10) == []
    assert active.drain(10) == BODIES


@pytest.mark.interpreted
def test_messages_that_are_larger_than_the_room_on_the_way_come_before_the_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = site.client("n1")
    client.declare("q")
    publish(client, *[bytes(40_000)] * 6)
    owner = owner_of(site)
    taker = Taker(site, next(name for name in site.nodes if name != owner))
    monkeypatch.setattr("cluster.peers.link_messages.DELIVERY_BACKLOG_BYTES", 100_000)
    assert taker.drain(10) == [bytes(40_000)] * 6


def test_a_queue_that_is_deleted_or_a_consumer_that_ends_answers(site: Site) -> None:
    client = site.client("n1")
    client.declare("q")
    owner = owner_of(site)
    taker = Taker(site, next(name for name in site.nodes if name != owner))
    taker.ask_drain(10)
    taker.node.input(lambda: taker.front_end.cancel(taker.consumer, lambda: None))
    site.until(lambda: "done" in taker.said)
    other = Taker(site, taker.node.name)
    client.send(m.QueueDelete("q"))
    other.ask_drain(10)
    site.until(lambda: "done" in other.said)
    site.until(lambda: other.cancelled)
    other.ask_drain(10, "ended")
    site.until(lambda: "ended" in other.said)


def test_a_queue_whose_only_node_is_down_answers(site: Site) -> None:
    client = site.client("n2")
    client.declare("q", queue_type="classic")
    owner = owner_of(site)
    assert owner == "n2"
    taker = Taker(site, "n1")
    site.nodes[owner].stop(power=False)
    taker.ask_drain(10, "while it goes")
    site.until(lambda: "while it goes" in taker.said)
    taker.ask_drain(10, "while it is down")
    site.run(0.1)
    assert "while it is down" in taker.said
    site.nodes[owner].start()
    site.until(lambda: site.nodes[owner].ready)
    publish(site.client(owner), b"a")
    site.run(4.0)
    assert taker.bodies == []
    assert taker.drain(10) == [b"a"]


@pytest.mark.interpreted
def test_an_owner_of_the_last_release_takes_the_credit_away(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such an owner takes an unknown request for a basic.get of the queue in the first argument."""
    take = FrontEndRequests.take

    def of_last_release(
        self: FrontEndRequests, front_end: int, epoch: int, request: int, name: str, arguments: list[Any]
    ) -> None:
        known = ("get", "purge", "count", "redeliver")
        take(self, front_end, epoch, request, name if name in known else "get", arguments)

    client = site.client("n1")
    client.declare("q")
    publish(client, *BODIES[:2])
    taker = Taker(site, "n3")
    monkeypatch.setattr(FrontEndRequests, "take", of_last_release)
    came = taker.drain(3)
    publish(client, *BODIES[2:])
    site.run(0.5)
    assert taker.said == [*came, "drained"]
    taker.credit(6)
    site.until(lambda: taker.bodies == BODIES)
