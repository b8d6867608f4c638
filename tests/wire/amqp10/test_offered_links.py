"""Links that the node attaches of its own accord, in a session that the node begins (part 2, sections 2.5.1
and 2.6.3).
"""

from __future__ import annotations

from typing import Any

import pytest

from node.delivery.settlements import Outcome
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import AmqpCondition, Error, Role, SessionCondition
from node.wire.amqp10.effects import (
    EndConsumer,
    FindTarget,
    LogEffect,
    PublishEffect,
    SessionEnded,
    SettleEffect,
    StartConsumer,
)
from node.wire.amqp10.errors import NoChannelError
from node.wire.amqp10.flow_writer import OUTGOING_WINDOW
from node.wire.amqp10.incoming import ACCEPTED
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.links import NodeLink
from tests.wire.amqp10.peer import MISSING, Peer, error_in, opened, transfer
from tests.wire.amqp10.performatives import begin, credit, receiver, sender, settled
from tests.wire.amqp10.sections import message

SENDS = NodeLink("out", Role.SENDER, "/queues/q", "inbox")
TAKES = NodeLink("in", Role.RECEIVER, "/exchanges/e/k", "outbox")
LIMITS = ConnectionLimits(channel_max=9, first_window=2000)
MINE = 9
"""The channel of the node's session."""
THEIRS = 4
"""The peer's channel for it."""


def offered(*links: NodeLink, **fields: Any) -> Peer:
    """A peer to which the node has begun a session for these links."""
    peer = opened(LIMITS, **fields)
    peer.connection.sessions.offer(links, peer.connection.channel_max)
    return peer


def attached(*links: NodeLink, **begins: Any) -> Peer:
    """A peer that has begun the session too, and has the node's attaches."""
    peer = offered(*links)
    found = peer.send(begin(remote_channel=MINE, **begins), channel=THEIRS)
    assert [type(one) for one in found] == [d.Begin] + [d.Attach] * len(links)
    assert all(one.channel == MINE for one in peer.frames[-1 - len(links) :])
    return peer


def taking(handle: int = 7, **fields: Any) -> d.Attach:
    """The peer's answer to SENDS."""
    whole: dict[str, Any] = {"source": d.Source("/queues/q"), "target": d.Target("inbox")} | fields
    return d.Attach(SENDS.name, handle, Role.RECEIVER, **whole)


def giving(handle: int = 8, **fields: Any) -> d.Attach:
    """The peer's answer to TAKES."""
    whole: dict[str, Any] = {"source": d.Source("outbox"), "target": d.Target("/exchanges/e/k")} | fields
    return d.Attach(TAKES.name, handle, Role.SENDER, **whole | {"initial_delivery_count": 0})


def logged(peer: Peer) -> list[tuple[Any, Any]]:
    return [(one.fields["link"], one.fields["reason"]) for one in peer.taken(LogEffect)]


# -- the session ------------------------------------------------------------------------------------


@pytest.mark.requirement("B4.3", "B4.4")
@pytest.mark.sentence("1.0/2.5.1-1", "1.0/2.7.2-1")
def test_the_node_begins_a_session_on_its_highest_channel() -> None:
    peer = offered(SENDS)
    assert peer.reads() == [d.Begin(0, LIMITS.incoming_window, OUTGOING_WINDOW, None, LIMITS.handle_max)]
    assert peer.frames[-1].channel == MINE and not len(peer.connection.sessions)


@pytest.mark.requirement("B4.3", "B4.4")
@pytest.mark.sentence("1.0/2.6.1-1")
def test_the_node_attaches_when_the_peer_has_begun_the_session_too() -> None:
    peer = offered(SENDS, TAKES)
    peer.reads()
    out, into = peer.send(begin(remote_channel=MINE), channel=THEIRS)
    assert (out.name, out.handle, out.role, out.initial_delivery_count) == ("out", 0, Role.SENDER, 0)
    assert (out.source.address, out.target.address) == ("/queues/q", "inbox")
    assert (into.name, into.handle, into.role, into.initial_delivery_count) == ("in", 1, Role.RECEIVER, None)
    assert (into.source.address, into.target.address) == ("outbox", "/exchanges/e/k")
    assert out.max_message_size == into.max_message_size == LIMITS.message_size
    assert [one.number for one in peer.connection.sessions] == [1]
    assert not peer.taken(StartConsumer) and not peer.taken(FindTarget), "the peer has not answered"


@pytest.mark.parametrize("remote", [0, MINE - 1, 65_535])
def test_a_begin_for_a_session_that_the_node_has_not_begun_closes_the_connection(remote: int) -> None:
    peer = offered(SENDS)
    peer.reads()
    (close,) = peer.send(begin(remote_channel=remote), channel=THEIRS)
    assert error_in(close, d.Close).condition == AmqpCondition.ILLEGAL_STATE


def test_a_session_is_begun_once() -> None:
    peer = attached(SENDS)
    (close,) = peer.send(begin(remote_channel=MINE), channel=THEIRS + 1)
    assert error_in(close, d.Close).condition == AmqpCondition.ILLEGAL_STATE


def test_the_peers_sessions_keep_their_channels_but_for_the_one_of_the_node() -> None:
    peer = offered(SENDS)
    peer.reads()
    channels = {}
    for channel in (0, MINE, MINE - 1):
        assert peer.send(begin(), channel=channel)[0].remote_channel == channel
        channels[channel] = peer.frames[-1].channel
    assert channels == {0: 0, MINE: MINE - 1, MINE - 1: MINE - 2}
    peer.send(begin(remote_channel=MINE), channel=THEIRS)
    for channel, mine in channels.items():
        assert peer.send(d.End(), channel=channel) == [d.End()] and peer.frames[-1].channel == mine
    assert peer.send(d.End(), channel=THEIRS) == [d.End()] and peer.frames[-1].channel == MINE
    assert peer.send(begin(), channel=MINE)[0].remote_channel == MINE and peer.frames[-1].channel == MINE


def test_a_peer_of_one_session_gets_no_other() -> None:
    peer = opened(LIMITS, channel_max=0)
    with pytest.raises(NoChannelError):
        peer.connection.sessions.offer([SENDS], peer.connection.channel_max)
    assert peer.reads() == []


def test_a_peer_that_uses_up_all_channels_is_closed() -> None:
    peer = offered(SENDS, channel_max=1)
    peer.reads()
    assert isinstance(peer.send(begin(), channel=0)[0], d.Begin)
    (close,) = peer.send(begin(), channel=1)
    assert error_in(close, d.Close).condition == AmqpCondition.RESOURCE_LIMIT_EXCEEDED


@pytest.mark.requirement("B4.3", "B4.4")
def test_a_peer_that_refuses_the_session_is_logged_for_each_link() -> None:
    peer = attached(SENDS, TAKES)
    assert peer.send(d.End(Error(AmqpCondition.NOT_ALLOWED, "no sessions")), channel=THEIRS) == [d.End()]
    assert logged(peer) == [("out", "amqp:not-allowed: no sessions"), ("in", "amqp:not-allowed: no sessions")]
    assert len(peer.taken(SessionEnded)) == 1 and peer.reads() == []


def test_a_connection_that_ends_first_takes_the_session_along() -> None:
    peer = offered(SENDS)
    peer.reads()
    assert peer.send(d.Close()) == [d.Close()]
    assert logged(peer) == []


# -- a link on which the node sends -----------------------------------------------------------------


@pytest.mark.requirement("B4.3")
def test_a_link_of_the_node_sends_as_one_of_the_peer() -> None:
    peer = attached(SENDS)
    assert peer.send(taking(), channel=THEIRS) == [], "the node has attached already"
    (start,) = peer.taken(StartConsumer)
    assert start.link.source.address == "/queues/q" and start.link.handle == 0
    assert peer.send(credit(3, handle=7), channel=THEIRS) == []
    found = peer.deliver(message(), message())
    assert [(one.handle, one.delivery_id) for one in found] == [(0, 0), (0, 1)]
    assert [one.channel for one in peer.frames[-2:]] == [MINE, MINE]
    peer.send(settled(0, 1, d.Accepted()), channel=THEIRS)
    assert peer.taken(SettleEffect) == [SettleEffect(1, [(1, 2)], Outcome.ACCEPTED)]
    assert peer.send(d.Detach(7, closed=True), channel=THEIRS) == [d.Detach(0, closed=True)]
    assert len(peer.taken(EndConsumer)) == 1 and logged(peer) == [("out", "detached")]
    assert peer.reads() == [] and not peer.consumers_known


@pytest.mark.requirement("B4.3")
def test_the_peer_does_not_choose_the_queue() -> None:
    peer = attached(SENDS)
    other = d.Source("/queues/secret", dynamic=True, filter={}, distribution_mode="copy")
    peer.send(taking(source=other), channel=THEIRS)
    (start,) = peer.taken(StartConsumer)
    source = start.link.source
    assert (source.address, source.dynamic, source.filter, start.link.browses) == (
        "/queues/q", False, None, False,
    )  # fmt: skip


@pytest.mark.requirement("B4.3", "B4.4")
@pytest.mark.parametrize("error", [None, Error(AmqpCondition.NOT_FOUND, "no inbox " + "x" * 300)])
@pytest.mark.parametrize("refusal", [taking(target=None), giving(source=None)], ids=["sends", "receives"])
def test_a_link_that_the_peer_refuses_is_detached_and_logged_once(
    refusal: d.Attach, error: Error | None
) -> None:
    peer = attached(SENDS, TAKES)
    assert peer.send(refusal, channel=THEIRS) == []
    assert not peer.taken(StartConsumer) and not peer.taken(FindTarget)
    (answer,) = peer.send(d.Detach(refusal.handle, True, error), channel=THEIRS)
    mine = 0 if refusal.name == "out" else 1
    assert answer == d.Detach(mine, True)
    ((link, reason),) = logged(peer)
    assert link == refusal.name and len(reason) <= 200
    assert reason.startswith("detached" if error is None else "amqp:not-found: no inbox")
    peer.tick(1.0)
    assert peer.reads() == [] and not peer.session(THEIRS).links


def test_a_refused_link_gets_no_credit_and_takes_no_message() -> None:
    peer = attached(TAKES)
    peer.send(giving(source=None), channel=THEIRS)
    flow = credit(0, 0, handle=8, echo=True)
    assert peer.send(flow, channel=THEIRS) == []
    (detach,) = peer.send(transfer(0, handle=8, channel=THEIRS), channel=THEIRS)
    assert error_in(detach, d.Detach).condition == "amqp:link:transfer-limit-exceeded"
    assert not peer.taken(PublishEffect)


@pytest.mark.requirement("B4.3")
def test_a_queue_that_the_broker_does_not_give_ends_the_link_with_the_error() -> None:
    peer = attached(NodeLink("out", Role.SENDER, MISSING, "inbox"))
    (detach,) = peer.send(taking(), channel=THEIRS)
    assert detach.handle == 0 and error_in(detach, d.Detach).condition == AmqpCondition.NOT_FOUND
    assert logged(peer) == [("out", "amqp:not-found: no such queue")]
    assert peer.send(d.Detach(7, closed=True), channel=THEIRS) == [] and logged(peer) == []


def test_an_answer_may_be_detached_while_the_broker_is_asked() -> None:
    peer = attached(SENDS)
    peer.answers = frozenset()
    assert peer.send(taking(), d.Detach(7, True), channel=THEIRS) == [d.Detach(0, True)]
    (start,) = peer.taken(StartConsumer)
    assert not peer.connection.sessions.consuming(start.link, 1, True)
    assert logged(peer) == [("out", "detached")]


# -- a link on which the node receives --------------------------------------------------------------


@pytest.mark.requirement("B4.4")
def test_a_link_of_the_node_receives_as_one_of_the_peer() -> None:
    peer = attached(TAKES)
    (flow,) = peer.send(giving(target=d.Target("/queues/secret")), channel=THEIRS)
    assert (flow.handle, flow.link_credit) == (0, LIMITS.link_credit) and peer.frames[-1].channel == MINE
    link = peer.incoming(8, THEIRS)
    assert (link.exchange, link.routing_key) == ("e", "k")
    peer.send(transfer(0, handle=8, channel=THEIRS), channel=THEIRS)
    (publish,) = peer.taken(PublishEffect)
    assert (publish.session, publish.run.exchange, publish.run.routing_key) == (1, "e", "k")
    peer.connection.sessions.decided(1, publish.first_tag, publish.first_tag, ACCEPTED)
    (told,) = peer.reads()
    assert (told.role, told.first, told.settled, told.state) == (Role.RECEIVER, 0, True, d.Accepted())
    assert peer.send(d.Detach(8, closed=True), channel=THEIRS) == [d.Detach(0, closed=True)]
    assert logged(peer) == [("in", "detached")]


@pytest.mark.requirement("B4.4")
def test_a_delivery_in_front_of_the_answer_ends_the_session() -> None:
    peer = attached(TAKES)
    (end,) = peer.send(transfer(0, handle=8, channel=THEIRS), giving(), channel=THEIRS)
    assert error_in(end, d.End).condition == SessionCondition.UNATTACHED_HANDLE


# -- answers that are none --------------------------------------------------------------------------


@pytest.mark.requirement("B4.3", "B4.4")
@pytest.mark.parametrize(
    ("answers", "condition"),
    [
        ((d.Detach(0, True),), SessionCondition.UNATTACHED_HANDLE),
        ((credit(1, handle=0),), SessionCondition.UNATTACHED_HANDLE),
        ((taking(3), giving(3)), SessionCondition.HANDLE_IN_USE),
    ],
    ids=["detach", "flow", "handle-in-use"],
)
def test_an_answer_that_breaks_the_rules_ends_the_session(answers: Any, condition: str) -> None:
    peer = attached(SENDS, TAKES)
    end = peer.send(*answers, channel=THEIRS)[-1]
    assert error_in(end, d.End).condition == condition
    assert peer.send(d.End(), channel=THEIRS) == []
    assert peer.send(begin(), channel=MINE)[0].remote_channel == MINE and peer.frames[-1].channel == MINE


def test_a_handle_above_the_handle_max_closes_the_connection() -> None:
    peer = attached(SENDS)
    (close,) = peer.send(taking(LIMITS.handle_max + 1), channel=THEIRS)
    assert error_in(close, d.Close).condition == "amqp:connection:framing-error"


def test_links_that_the_peer_has_no_handles_for_are_left_out_and_logged() -> None:
    peer = offered(SENDS, TAKES)
    peer.reads()
    (attach,) = peer.send(begin(remote_channel=MINE, handle_max=0), channel=THEIRS)
    assert attach.name == "out"
    assert logged(peer) == [("in", "amqp:session:handle-in-use: no handle of the node is free")]


def test_links_that_do_not_fit_into_a_frame_of_the_peer_are_left_out_and_logged() -> None:
    peer = offered(NodeLink("out", Role.SENDER, "q" * 255, "i" * 255), TAKES, max_frame_size=512)
    peer.reads()
    (attach,) = peer.send(begin(remote_channel=MINE), channel=THEIRS)
    assert (attach.name, attach.handle) == ("in", 0)
    ((link, reason),) = logged(peer)
    assert link == "out" and reason.startswith("amqp:frame-size-too-small")


def test_the_peer_attaches_links_of_its_own_in_the_nodes_session() -> None:
    peer = attached(SENDS, TAKES)
    attach, _ = peer.send(sender(0), channel=THEIRS)
    assert (attach.name, attach.handle) == ("sender-0", 2), "the node has used its handle 0"
    (attach,) = peer.send(receiver(1, name="in"), channel=THEIRS)
    assert (attach.name, attach.handle) == ("in", 3), "another direction is another link"
    peer.send(taking(), channel=THEIRS)
    (stolen, again) = peer.send(taking(5, source=d.Source("q")), channel=THEIRS)
    assert error_in(stolen, d.Detach).condition == "amqp:link:stolen" and stolen.handle == 0
    assert again.source.address == "q", "the second attach is the peer's own"
