"""A catalog change is visible on every node before its client is answered (0-9-1 §4.4)."""

from __future__ import annotations

import math

import pytest

from cluster.catalog.state import CatalogState
from cluster.catalog.visibility import (
    ASK_AGAIN_S,
    PINGS_A_LEASE,
    AwaitedVisibility,
    LeaseGrantor,
    LeaseHolder,
    counts_from,
)
from node.routing.matching import Binding, Destination, DestinationKind
from node.wire.amqp091 import methods as m
from node.wire.amqp091.primitives import Method
from replication.raft import RaftConfig
from tests.site import Site

CONFIG = RaftConfig("n2")
LEASE_S, HELD_S = CONFIG.lease_s, CONFIG.held_s


class Done:
    """Counts calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1


def elected(visible: int = 0, now: float = 0.0, since: float = -math.inf) -> LeaseGrantor:
    """The state of the leader n1, which has just been elected and has applied its whole log."""
    grantor = LeaseGrantor("n1", ("n2", "n3"), visible, since, LEASE_S)
    grantor.applied("n1", 100, now)
    return grantor


def granted(now: float = 0.0) -> LeaseGrantor:
    grantor = elected(now=now)
    for node in ("n2", "n3"):
        grantor.ping(node, 0, now)
    return grantor


@pytest.mark.requirement("A16.3")
def test_waits_for_every_node_that_holds_a_lease() -> None:
    grantor, done = granted(), Done()
    grantor.barrier(7, done, 0.1)
    grantor.applied("n2", 7, 0.1)
    assert done.calls == 0
    grantor.applied("n3", 6, 0.1)
    assert done.calls == 0
    grantor.applied("n3", 8, 0.1)
    assert done.calls == 1


def test_nothing_is_shown_that_the_leader_itself_has_not_applied() -> None:
    grantor, done = LeaseGrantor("n1", (), 0, -math.inf, LEASE_S), Done()
    grantor.barrier(7, done, 50.0)
    assert done.calls == 0
    grantor.applied("n1", 7, 50.0)
    assert done.calls == 1


def test_a_dead_node_is_waited_for_only_until_its_lease_has_lapsed() -> None:
    grantor, done = granted(), Done()
    grantor.ping("n2", 9, 0.5)
    grantor.barrier(9, done, 0.5)
    grantor.tick(LEASE_S - 0.001)
    assert done.calls == 0
    grantor.tick(LEASE_S)
    assert done.calls == 1


def test_a_new_leader_honours_the_leases_of_the_one_before() -> None:
    grantor, done = elected(since=10.0, now=10.0), Done()
    grantor.ping("n2", 3, 10.0)
    grantor.barrier(3, done, 10.0)
    grantor.tick(10.0 + LEASE_S - 0.001)
    assert done.calls == 0
    grantor.tick(10.0 + LEASE_S)
    assert done.calls == 1


def test_a_node_that_is_behind_what_was_shown_gets_no_lease() -> None:
    grantor, done = elected(visible=4), Done()
    assert not grantor.ping("n3", 3, 0.1)
    assert grantor.ping("n3", 4, 0.2)
    grantor.barrier(6, done, 2.0)
    assert done.calls == 1, "no other node has a lease any more"
    assert not grantor.ping("n3", 5, 2.1)
    assert grantor.ping("n3", 6, 2.2)


def test_what_a_former_process_of_a_node_had_applied_counts_for_nothing() -> None:
    """A restarted process reads its log again, and may lack the end of it."""
    grantor, done = elected(visible=5), Done()
    assert grantor.ping("n2", 9, 0.0)
    assert grantor.ping("n3", 9, 0.0)
    assert not grantor.ping("n2", 4, 0.1)
    assert grantor.ping("n2", 6, 0.2)
    grantor.barrier(8, done, 0.3)
    assert done.calls == 0, "n2 has a lease, and lacks it"
    grantor.applied("n2", 8, 0.4)
    assert done.calls == 1


def test_a_node_that_leaves_gets_no_lease_and_its_last_one_is_waited_for() -> None:
    grantor = granted()
    assert not grantor.expel("n2", 0.1)
    assert not grantor.ping("n2", 0, 0.2)
    assert not grantor.expel("n2", LEASE_S - 0.001)
    assert grantor.expel("n2", LEASE_S)
    grantor.admit("n2")
    assert grantor.ping("n2", 0, LEASE_S)


def test_a_barrier_that_is_asked_for_twice_answers_both() -> None:
    grantor, first, second = granted(), Done(), Done()
    grantor.barrier(1, first, 0.0)
    grantor.barrier(1, second, 0.0)
    for node in ("n2", "n3"):
        grantor.applied(node, 1, 0.0)
    assert (first.calls, second.calls) == (1, 1)


def test_one_answer_of_the_leader_is_for_everything_up_to_its_index() -> None:
    awaited, done = AwaitedVisibility(), [Done() for _ in range(4)]
    for index, each in zip((3, 3, 5), done, strict=False):
        awaited.wait(index, each)
    assert awaited.unasked()
    assert awaited.asked(1, 0.0) == 5
    assert not awaited.unasked()
    awaited.wait(8, done[3])
    assert awaited.unasked()
    awaited.answered(1)
    assert [each.calls for each in done] == [1, 1, 1, 0]
    assert len(awaited) == 1
    assert awaited.visible == 5


def test_an_answer_to_an_earlier_question_changes_nothing() -> None:
    awaited, done = AwaitedVisibility(), [Done(), Done()]
    awaited.wait(3, done[0])
    awaited.asked(1, 0.0)
    awaited.wait(6, done[1])
    awaited.asked(2, 0.0)
    awaited.answered(2)
    awaited.answered(1)
    awaited.answered(7)
    assert [each.calls for each in done] == [1, 1]
    assert awaited.visible == 6
    late = Done()
    awaited.wait(6, late)
    assert late.calls == 1


def test_a_question_without_an_answer_is_asked_again() -> None:
    awaited = AwaitedVisibility()
    assert not awaited.unanswered(10.0)
    awaited.wait(3, Done())
    awaited.asked(1, 10.0)
    assert not awaited.unanswered(9.9)
    assert awaited.unanswered(10.0)
    awaited.answered(1)
    assert not awaited.unanswered(10.0)


def test_a_lease_counts_from_when_the_leader_says() -> None:
    holder = LeaseHolder(CONFIG)
    assert not holder.valid(0.0)
    holder.pinged(5.0)
    holder.granted(4.9)
    assert holder.valid(4.9 + HELD_S - 0.001)
    assert not holder.valid(4.9 + HELD_S)
    assert not holder.ping_due(5.0 + HELD_S / PINGS_A_LEASE / 2)
    assert holder.ping_due(5.0 + HELD_S / PINGS_A_LEASE)


def test_a_node_without_a_lease_asks_again_soon() -> None:
    holder = LeaseHolder(CONFIG)
    assert holder.ping_due(5.0)
    holder.pinged(5.0)
    assert not holder.ping_due(5.0 + ASK_AGAIN_S / 2)
    assert holder.ping_due(5.0 + ASK_AGAIN_S)


def test_a_late_answer_to_an_old_ping_does_not_shorten_a_lease() -> None:
    holder = LeaseHolder(CONFIG)
    holder.granted(5.0)
    holder.granted(4.0)
    assert holder.valid(5.0 + HELD_S - 0.001)


def test_a_holder_knows_when_it_may_have_asked() -> None:
    """The holder's machine may have been restarted since: then its clock shows less than at the ping."""
    holder = LeaseHolder(CONFIG)
    assert not holder.asked_at(5.0)
    holder.pinged(5.0)
    holder.pinged(6.0)
    assert [holder.asked_at(time) for time in (4.9, 5.0, 6.0, 900.0)] == [False, True, True, False]


@pytest.mark.parametrize("slow", [-1.0, 1.0])
@pytest.mark.parametrize("drift", [0.0, 0.1, 0.25])
def test_a_share_ends_no_later_than_the_lease_that_it_is_cut_from(drift: float, slow: float) -> None:
    """The holder's clock is at one end of the bound, the leader's at the other. Both begin at true time 0."""
    holders, leaders = 1.0 + slow * drift, 1.0 - slow * drift
    config = RaftConfig("n2", clock_drift=drift)
    round_sent, ping_read = 3.0, 3.4
    since = counts_from(ping_read * holders, (ping_read - round_sent) * leaders, drift)
    ends = (since + config.held_s) / holders
    waited = round_sent + config.lease_s / (1.0 + drift)
    assert ends <= waited + 1e-9


Q_EXISTS = m.QueueDeclare("q", durable=True)
X_EXISTS = m.ExchangeDeclare("x", "fanout")
BOUND = m.QueueBind("q", "x", "")
UNBOUND = m.QueueUnbind("q", "x", "")

AGAIN = {
    "declare": (Q_EXISTS, Q_EXISTS, m.QueueDeclareOk),
    "look for a queue": (Q_EXISTS, m.QueueDeclare("q", passive=True), m.QueueDeclareOk),
    "declare an exchange": (X_EXISTS, X_EXISTS, m.ExchangeDeclareOk),
    "look for an exchange": (X_EXISTS, m.ExchangeDeclare("x", passive=True), m.ExchangeDeclareOk),
    "bind": (BOUND, BOUND, m.QueueBindOk),
    "unbind": (UNBOUND, UNBOUND, m.QueueUnbindOk),
    "unbind a queue that is gone": (m.QueueDelete("q"), UNBOUND, m.QueueUnbindOk),
    "delete": (m.QueueDelete("q"), m.QueueDelete("q"), m.QueueDeleteOk),
    "delete an exchange": (m.ExchangeDelete("x"), m.ExchangeDelete("x"), m.ExchangeDeleteOk),
}
"""(a first client's command, a second client's command, which changes nothing, the second answer)."""

BEFORE: dict[type[Method], tuple[Method, ...]] = {
    m.QueueBind: (Q_EXISTS, X_EXISTS),
    m.QueueUnbind: (Q_EXISTS, X_EXISTS, BOUND),
    m.QueueDelete: (Q_EXISTS, X_EXISTS, BOUND),
    m.ExchangeDelete: (X_EXISTS,),
}


BINDING = Binding.of("x", Destination(DestinationKind.QUEUE, "q"), "", {})


def content(state: CatalogState) -> tuple[bool, bool, bool]:
    """Whether the queue, the exchange and the binding exist."""
    exchanges = state.vhost("/").exchanges
    queue, exchange = ("/", "q") in state.queues, any(one.name == "x" for one in exchanges)
    return queue, exchange, queue and exchange and exchanges.bound(BINDING)


@pytest.mark.requirement("A16.3")
@pytest.mark.parametrize("again", AGAIN)
def test_what_changes_nothing_is_answered_once_every_node_shows_the_same(again: str) -> None:
    """Another client is changing the same object, and a node with a lease has not applied that yet."""
    first, second, answer = AGAIN[again]
    site = Site("n1", "n2", "n3")
    leader = next(node for node in site.nodes.values() if node.broker.catalog.leads)
    near, far = (node for node in site.nodes.values() if node is not leader)
    changing, repeating = site.client(near.name), site.client(near.name)
    for method in BEFORE.get(type(first), ()):
        changing.call(method, Method)
    site.until(lambda: all(node.broker.catalog_fresh() for node in site.nodes.values()))
    before = content(near.broker.catalog.state)
    site.network.cut([(leader.name, far.name), (near.name, far.name)])
    changing.send(first)
    site.until(lambda: content(near.broker.catalog.state) != before)
    assert far.broker.catalog_fresh()
    assert content(far.broker.catalog.state) == before
    repeating.send(second)
    repeating.answer(answer)
    assert not far.broker.catalog_fresh() or content(far.broker.catalog.state) != before
