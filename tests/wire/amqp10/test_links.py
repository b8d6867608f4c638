"""Attach and detach of links in both directions (part 2, section 2.6)."""

from __future__ import annotations

from typing import Any

import pytest

from node.delivery.settlements import Outcome
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.definitions import (
    AmqpCondition,
    Error,
    LinkCondition,
    ReceiverSettleMode,
    Role,
    SenderSettleMode,
)
from node.wire.amqp10.effects import (
    Authenticate,
    EndConsumer,
    FindTarget,
    PublishEffect,
    SettleEffect,
    StartConsumer,
)
from node.wire.amqp10.errors import ConnectionForcedError
from node.wire.amqp10.frames import frame_buffers
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.values import Described, Symbol
from tests.wire.amqp10.peer import ANSWERED, MISSING, Peer, begun, error_in, receiving, transfer
from tests.wire.amqp10.performatives import PLAIN, begin, credit, octets_of, receiver, sender, settled
from tests.wire.amqp10.sections import message

FILTER: Any = {"f": Described(Symbol("apache.org:selector-filter:string"), "a = 1")}


def kept(terminus: Any) -> Any:
    """The terminus as the node tells that it keeps it: no longer than the link is attached, no filter."""
    fields = {name: getattr(terminus, name) for name in terminus.FIELDS}
    fields |= {"durable": d.TerminusDurability.NONE, "timeout": 0}
    fields |= {"expiry_policy": d.TerminusExpiryPolicy.LINK_DETACH}
    if isinstance(terminus, d.Source):
        fields["distribution_mode"] = terminus.distribution_mode or d.StdDistMode.MOVE
    return type(terminus)(**fields | ({"filter": None} if isinstance(terminus, d.Source) else {}))


@pytest.mark.requirement("B4.1")
@pytest.mark.sentence("1.0/2.6.3-3", "1.0/2.7.3-5")
@pytest.mark.parametrize("mode", SenderSettleMode)
@pytest.mark.parametrize("second", ReceiverSettleMode)
def test_a_sending_link_is_attached_as_it_was_asked_for(
    mode: SenderSettleMode, second: ReceiverSettleMode
) -> None:
    peer = begun(limits=ConnectionLimits(message_size=9000, link_credit=50))
    asked = sender(
        7, "/queues/a%20b", "name", snd_settle_mode=mode, rcv_settle_mode=second,
        source=d.Source("anywhere", capabilities=("x",)),
        target=d.Target("/queues/a%20b", d.TerminusDurability.UNSETTLED_STATE, timeout=9),
    )  # fmt: skip
    attach, flow = peer.send(asked)
    assert attach == d.Attach(
        "name", 7, Role.RECEIVER, mode, second, asked.source, kept(asked.target), max_message_size=9000
    )
    assert (flow.handle, flow.link_credit, flow.delivery_count) == (7, 50, 0)
    link = peer.incoming(7)
    assert (link.exchange, link.routing_key) == ("", "a b")


@pytest.mark.requirement("B4.2")
@pytest.mark.sentence("1.0/2.6.3-3", "1.0/2.7.3-5", "1.0/2.7.3-7")
@pytest.mark.parametrize("mode", SenderSettleMode)
@pytest.mark.parametrize("second", ReceiverSettleMode)
def test_a_receiving_link_is_attached_as_it_was_asked_for(
    mode: SenderSettleMode, second: ReceiverSettleMode
) -> None:
    peer = begun()
    source = d.Source(
        "amqp://host/q", filter=FILTER, distribution_mode="copy", outcomes=("amqp:accepted:list",)
    )
    asked = receiver(0, snd_settle_mode=mode, rcv_settle_mode=second, source=source)
    (attach,) = peer.send(asked)
    size = ConnectionLimits().message_size
    assert attach == d.Attach(
        "receiver-0", 0, Role.SENDER, mode, second, kept(source), asked.target, initial_delivery_count=0,
        max_message_size=size,
    )  # fmt: skip
    link = peer.outgoing()
    assert link.browses and link.presettled is (mode is SenderSettleMode.SETTLED)


@pytest.mark.requirement("B11.3")
@pytest.mark.sentence("1.0/3.5.3-5")
@pytest.mark.parametrize(("asked", "told"), [(None, "move"), ("move", "move"), ("copy", "copy")])
def test_the_answer_names_the_distribution_mode(asked: str | None, told: str) -> None:
    (attach,) = begun().send(receiver(0, source=d.Source("q", distribution_mode=asked)))
    assert attach.source.distribution_mode == told


@pytest.mark.sentence("1.0/3.5.3-4", "1.0/3.5.4-4")
@pytest.mark.parametrize("kind", [sender, receiver])
def test_the_answer_has_no_properties_of_a_node_that_is_not_dynamic(kind: Any) -> None:
    properties = {"lifetime-policy": d.DeleteOnClose()}
    end = "target" if kind is sender else "source"
    terminus: Any = d.Target if kind is sender else d.Source
    asked = kind(0, **{end: terminus("q", dynamic_node_properties=properties)})
    attach = begun().send(asked)[0]
    assert getattr(attach, end).dynamic_node_properties is None


VENDORS: Any = Described(Symbol("vendor:outcome:list"), [])


@pytest.mark.sentence("1.0/3.5.3-7", "1.0/3.5.3-9")
@pytest.mark.parametrize("default", [d.Accepted(), d.Modified(True), None, VENDORS, d.Declared(b"t")])
def test_the_answer_names_only_outcomes_that_there_are(default: Any) -> None:
    names = ("amqp:accepted:list", "vendor:outcome:list", "amqp:modified:list", "amqp:received:list")
    asked = d.Source("q", outcomes=names, default_outcome=default)
    (attach,) = begun().send(receiver(0, source=asked))
    assert attach.source.outcomes == ("amqp:accepted:list", "amqp:modified:list")
    assert attach.source.default_outcome == (
        default if isinstance(default, d.Accepted | d.Modified) else None
    )


@pytest.mark.requirement("B4.5", "B4.6")
@pytest.mark.sentence("1.0/2.6.3-1", "1.0/2.7.3-7")
@pytest.mark.parametrize("attach", [sender(3, MISSING), receiver(3, MISSING)], ids=["sender", "receiver"])
def test_a_refused_attach_has_a_null_terminus_and_a_closing_detach(attach: Any) -> None:
    peer = begun()
    answer, detach = peer.send(attach)
    assert isinstance(answer, d.Attach)
    assert (answer.name, answer.handle, answer.role) == (attach.name, 3, not attach.role)
    if attach.role is Role.RECEIVER:
        assert (answer.source, answer.target, answer.initial_delivery_count) == (None, attach.target, 0)
    else:
        assert (answer.source, answer.target) == (attach.source, None)
    assert detach.closed and error_in(detach, d.Detach).condition == AmqpCondition.NOT_FOUND
    assert peer.send(transfer(1, handle=3)) == [] if attach.role is Role.SENDER else True
    assert peer.send(credit(10, handle=3)) == []
    assert peer.send(d.Detach(3, True)) == [], "the node has detached before"
    assert isinstance(peer.send(sender(3))[0], d.Attach), "the handle is free"
    assert not peer.taken(PublishEffect) and not peer.taken(EndConsumer)


# -- names and roles --------------------------------------------------------------------------------


def test_a_link_pair_has_one_name() -> None:
    """A link's identity includes its role: request and response have links of the same name."""
    peer = begun(sender(0, name="pair"), receiver(1, name="pair"), credit(1, handle=1))
    assert len(peer.send(transfer(1))) == 0 and len(peer.taken(PublishEffect)) == 1
    assert len(peer.deliver(message())) == 1
    assert peer.send(d.Detach(0, True)) == [d.Detach(0, True)]
    assert peer.send(d.Detach(1, True)) == [d.Detach(1, True)]


@pytest.mark.sentence("1.0/2.6.1-2", "1.0/2.6.4-1")
@pytest.mark.parametrize("kind", [sender, receiver])
def test_a_second_attach_of_a_link_takes_it_over(kind: Any) -> None:
    peer = begun(kind(0, name="one"))
    detach, attach = peer.send(kind(1, name="one"))[:2]
    assert (detach.handle, detach.closed) == (0, True)
    assert error_in(detach, d.Detach).condition == LinkCondition.STOLEN
    assert (attach.handle, attach.source is None, attach.target is None) == (1, False, False)
    assert len(peer.taken(EndConsumer)) == (1 if kind is receiver else 0)
    assert peer.send(d.Detach(0, True)) == []
    assert peer.send(d.Detach(1, True)) == [d.Detach(1, True)]


@pytest.mark.sentence("1.0/2.6.1-2")
@pytest.mark.parametrize("kind", [sender, receiver])
def test_a_link_may_be_taken_over_before_it_is_attached(kind: Any) -> None:
    peer = begun(answers=frozenset())
    peer.send(kind(0, name="one"))
    (asked,) = [one for one in peer.effects if type(one) in (FindTarget, StartConsumer)]
    attach, detach = peer.send(kind(1, name="one"))
    assert attach.handle == detach.handle == 0 and None in (attach.source, attach.target)
    assert error_in(detach, d.Detach).condition == LinkCondition.STOLEN
    peer.answer(asked)
    assert peer.reads() == [], "the broker's answer comes too late"
    peer.connection.sessions.refuse(asked.link, Error("x"))
    assert peer.reads() == []


def test_links_that_were_taken_over_leave_nothing_behind() -> None:
    peer = begun()
    for handle in range(100):
        peer.send(receiver(handle, name="one"))
        if handle:
            peer.send(d.Detach(handle - 1, True))
    assert peer.consumers_known == 1


# -- detach -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("attach", [sender(), receiver()], ids=["sender", "receiver"])
def test_detach_is_answered_as_it_came(attach: Any, closed: bool) -> None:
    peer = begun(attach)
    assert peer.send(d.Detach(0, closed)) == [d.Detach(0, closed)]
    assert isinstance(peer.send(attach)[0], d.Attach)


def test_detach_gives_unsettled_deliveries_back_before_the_consumer_ends() -> None:
    peer = begun(receiver(0), receiver(1), credit(9), credit(9, handle=1), answers=ANSWERED - {EndConsumer})
    peer.deliver(message(), message(), message())
    peer.deliver(message(), consumer=2, first=70)
    assert peer.send(settled(1, None, d.Accepted()), d.Detach(0, True)) == []
    kinds = [type(one) for one in peer.effects if type(one) in (SettleEffect, EndConsumer)]
    assert kinds == [SettleEffect] * (len(kinds) - 1) + [EndConsumer]
    accepted, *returned = peer.taken(SettleEffect)
    assert accepted == SettleEffect(1, [(2, 2)], Outcome.ACCEPTED)
    assert sorted(one for effect in returned for one in effect.ranges) == [(1, 1), (3, 3)]
    assert peer.deliver(message(), first=9) == []
    assert peer.taken(SettleEffect) == [SettleEffect(1, [(9, 9)], Outcome.RELEASED)]
    peer.answer(peer.taken(EndConsumer)[0])
    assert peer.reads() == [d.Detach(0, True)]
    peer.send(settled(0, 9, d.Accepted()))
    assert peer.taken(SettleEffect) == [SettleEffect(2, [(70, 70)], Outcome.ACCEPTED)]


@pytest.mark.requirement("B11.4", "B11.7")
@pytest.mark.parametrize("durable", d.TerminusDurability)
@pytest.mark.parametrize("policy", d.TerminusExpiryPolicy)
def test_a_terminus_lasts_until_its_link_is_detached(
    durable: d.TerminusDurability, policy: d.TerminusExpiryPolicy
) -> None:
    """Whatever the peer asked for, and the answer says so."""
    peer, asked = begun(), receiver(source=d.Source("q", durable, policy, 60))
    for number in (1, 2):
        (attach,) = peer.send(asked)
        source = attach.source
        assert (source.durable, source.timeout) == (d.TerminusDurability.NONE, 0)
        assert source.expiry_policy == d.TerminusExpiryPolicy.LINK_DETACH
        assert (attach.unsettled, attach.initial_delivery_count) == (None, 0)
        peer.send(credit(9))
        (delivery,) = peer.deliver(message(), consumer=number)
        assert delivery.delivery_tag == b"\0\0\0\0"
        peer.send(d.Detach(0, False))
        assert peer.taken(SettleEffect) == [SettleEffect(number, [(1, 1)], Outcome.LOST)]


@pytest.mark.parametrize("kind", [sender, receiver])
def test_detach_may_come_before_attach_is_answered(kind: Any) -> None:
    """The peer has a link to detach only when the node's attach has come."""
    peer = begun(answers=frozenset())
    peer.send(kind(0))
    (asked,) = [one for one in peer.effects if type(one) in (FindTarget, StartConsumer)]
    attach, detach = peer.send(d.Detach(0, True))
    assert isinstance(attach, d.Attach) and None in (attach.source, attach.target)
    assert detach == d.Detach(0, True)
    peer.answer(asked)
    assert peer.reads() == [] and not peer.session().links


def test_outcomes_that_are_due_go_before_the_answer_to_detach() -> None:
    peer = begun(sender())
    peer.send(transfer(1))
    peer.connection.sessions.decided(1, 2, 2, d.Accepted())
    assert [type(one) for one in peer.send(d.Detach(0, True))] == [d.Disposition, d.Detach]


@pytest.mark.sentence("1.0/2.6.4-1", "1.0/2.6.5-2")
def test_a_consumer_that_the_broker_ends_is_detached_with_the_error() -> None:
    peer = receiving()
    peer.deliver(message())
    peer.connection.sessions.cancelled(1, Error(AmqpCondition.RESOURCE_DELETED, "gone"))
    assert peer.reads() == [d.Detach(0, True, Error(AmqpCondition.RESOURCE_DELETED, "gone"))]
    assert peer.taken(SettleEffect) == [SettleEffect(1, [(1, 1)], Outcome.LOST)]
    peer.connection.sessions.cancelled(1, Error("again"))
    assert peer.send(credit(5)) == [] and peer.send(settled(0, None, d.Accepted())) == []
    assert not peer.taken(SettleEffect)
    assert peer.send(d.Detach(0, True)) == []
    assert peer.consumers_known == 0


def test_a_handle_that_the_node_still_uses_goes_to_no_other_link() -> None:
    """The node answers the detach when the broker has ended the consumer. The next link comes before."""
    peer = begun(receiver(0), sender(1), answers=ANSWERED - {EndConsumer})
    found = peer.send(d.Detach(0, True), sender(0, name="next"))
    assert [(type(one), one.handle) for one in found] == [(d.Attach, 2), (d.Flow, 2)]
    (ended,) = peer.taken(EndConsumer)
    peer.answer(ended)
    assert peer.reads() == [d.Detach(0, True)]
    assert peer.send(d.Detach(0, True)) == [d.Detach(2, True)]
    assert peer.send(sender(0, name="last"))[0].handle == 0


def test_a_session_ends_where_the_node_has_no_handle_left() -> None:
    peer = begun(receiver(0), answers=ANSWERED - {EndConsumer}, begins={"handle_max": 0})
    (end,) = peer.send(d.Detach(0, True), sender(0, name="next"))
    assert end.error.condition == "amqp:session:handle-in-use"


@pytest.mark.sentence("1.0/2.6.5-2")
def test_a_refused_publish_detaches_its_link() -> None:
    peer = begun(sender(0), receiver(1), sender(2))
    peer.send(transfer(1))
    (publish,) = peer.taken(PublishEffect)
    peer.connection.sessions.refuse_publish(publish, 0, Error(AmqpCondition.UNAUTHORIZED_ACCESS, "no"))
    assert peer.reads() == [d.Detach(0, True, Error(AmqpCondition.UNAUTHORIZED_ACCESS, "no"))]
    assert peer.send(transfer(2), transfer(3)) == [], "what is under way is discarded"
    assert not peer.taken(PublishEffect)
    assert peer.send(transfer(4, handle=2)) == [] and len(peer.taken(PublishEffect)) == 1


def test_a_publish_that_is_refused_behind_the_detach_detaches_nothing() -> None:
    """The handle may be that of another link by then."""
    peer = begun(sender(0))
    peer.send(transfer(1))
    (publish,) = peer.taken(PublishEffect)
    assert peer.send(d.Detach(0, True))[-1] == d.Detach(0, True)
    peer.connection.sessions.refuse_publish(publish, 0, Error("x"))
    assert not [one for one in peer.reads() if isinstance(one, d.Detach)]


def test_a_message_to_an_address_that_is_refused_is_rejected_alone() -> None:
    """The link to no address is not to blame for the address of a message, unless the message is settled."""
    error = Error(AmqpCondition.NOT_FOUND, "no such exchange")
    peer = begun(sender(0, None))
    addressed = message(d.Properties(to="/exchanges/gone/key").encode())
    peer.send(*[transfer(number, addressed) for number in (1, 2, 3)])
    (publish,) = peer.taken(PublishEffect)
    peer.connection.sessions.refuse_publish(publish, 1, error)
    peer.connection.sessions.decided(1, 2, 2, d.Accepted())
    assert peer.reads() == [
        d.Disposition(Role.RECEIVER, 2, 3, True, d.Rejected(error)),
        d.Disposition(Role.RECEIVER, 1, None, True, d.Accepted()),
    ]
    peer.send(transfer(4, addressed, settled=True))
    (publish,) = peer.taken(PublishEffect)
    peer.connection.sessions.refuse_publish(publish, 0, error)
    assert peer.reads() == [d.Detach(0, True, error)]


# -- the user of a message --------------------------------------------------------------------------

NAMES_GUEST = message(d.Properties("id", b"guest").encode())
NAMES_ADMIN = message(d.Properties("id", b"admin").encode())
UNREADABLE = message(b"\0\x53\x73\xc0\x08\x02\x40\xa3\x05admin"[:13])


@pytest.mark.parametrize("forged", [NAMES_ADMIN, UNREADABLE], ids=["another user", "no binary"])
@pytest.mark.parametrize("frames", ["one", "row", "several frames"])
def test_a_message_that_names_another_user_detaches_its_link(forged: bytes, frames: str) -> None:
    peer = begun(sender(0))
    assert peer.send(transfer(1, NAMES_GUEST), transfer(2)) == []
    assert len(peer.taken(PublishEffect)) >= 1
    match frames:
        case "one":
            found = peer.send(transfer(3, forged))
        case "row":
            found = peer.send(*[transfer(number, forged) for number in range(3, 9)])
        case _:
            found = peer.send(transfer(3, forged[:9], more=True), transfer(None, forged[9:]))
    assert error_in(found[-1], d.Detach).condition == AmqpCondition.UNAUTHORIZED_ACCESS
    assert not peer.taken(PublishEffect)


def test_an_impersonator_names_any_user() -> None:
    peer = Peer()
    peer.answers -= {Authenticate}
    peer.send(SASL_HEADER, PLAIN)
    peer.connection.authenticated("guest", impersonates=True)
    peer.send(AMQP_HEADER, d.Open("peer"), begin(), sender(0))
    peer.send(*[transfer(number, NAMES_ADMIN) for number in range(1, 9)])
    assert sum(one.run.count for one in peer.taken(PublishEffect)) == 8


# -- frames too small for an answer -----------------------------------------------------------------


@pytest.mark.sentence("1.0/2.7.1-2")
@pytest.mark.parametrize("kind", [sender, receiver])
def test_an_attach_too_large_to_be_answered_ends_the_session(kind: Any) -> None:
    peer = begun(max_frame_size=512)
    peer.send(begin(), sender(), channel=1)
    for answers in (ANSWERED, frozenset[type[Any]]()):
        peer.answers = answers
        peer.send(kind(0, "q" * 600))
        for asked in [*peer.taken(FindTarget), *peer.taken(StartConsumer)] if not answers else ():
            peer.answer(asked)
        peer.reads()
        assert error_in(peer.last, d.End).condition == AmqpCondition.FRAME_SIZE_TOO_SMALL
        peer.answers = ANSWERED
        peer.send(d.End(), begin())
    assert peer.send(transfer(1, channel=1)) == [], "other sessions go on"


@pytest.mark.sentence("1.0/2.7.1-2")
def test_the_text_of_an_error_is_cut_to_what_the_peer_takes() -> None:
    for text in ("x" * 700, "\u20ac" * 700, "\U0001f600" * 700):
        peer = begun(max_frame_size=512)
        peer.send(receiver(0))
        peer.connection.sessions.cancelled(1, Error(AmqpCondition.RESOURCE_DELETED, text, {"k": "v" * 600}))
        (detach,) = peer.reads()
        told = error_in(detach, d.Detach)
        assert told.description is not None and text.startswith(told.description)
        assert len(told.description.encode()) > 250
        peer.connection.close(ConnectionForcedError(text))
        (close,) = peer.reads()
        assert len(b"".join(frame_buffers(0, close, (), 512))) <= 512


def test_an_outcome_too_large_to_be_repeated_is_settled_without_its_error() -> None:
    peer = begun(receiver(rcv_settle_mode=ReceiverSettleMode.SECOND), credit(9), max_frame_size=512)
    peer.deliver(message(), message())
    told = octets_of(settled(0, 0, d.Rejected(Error("x", "y" * 600)), settled=False))
    told += octets_of(settled(1, 1, d.Modified(True, False, {"x": "y" * 600}), settled=False))
    first, second = peer.send(told)
    assert first == d.Disposition(Role.SENDER, 0, 0, True, d.Rejected())
    assert second == d.Disposition(Role.SENDER, 1, 1, True, d.Modified(True, False))
