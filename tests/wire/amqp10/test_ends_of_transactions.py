"""The end of transactions, transactions over several sessions, and their bounds (part 4)."""

from __future__ import annotations

from typing import Any

import pytest

from node.delivery.settlements import Outcome, Settlement
from node.wire.amqp10 import definitions as d
from node.wire.amqp10 import effects as e
from node.wire.amqp10.definitions import AmqpCondition, Error, Role
from node.wire.amqp10.definitions import TransactionCondition as Condition
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.values import Symbol
from tests.wire.amqp10.controller import (
    ACCEPTED,
    COMMITTING,
    FAILED,
    FAILURE,
    HOLDING,
    UNKNOWN,
    Controller,
    delivered,
    failure,
    given_back,
    unsettled,
)
from tests.wire.amqp10.peer import error_in
from tests.wire.amqp10.performatives import begin, credit, octets_of, receiver, sender
from tests.wire.amqp10.sections import message
from tests.wire.amqp10.transacting import CONTROL, control, coordinator, within

# -- what ends --------------------------------------------------------------------------------------


@pytest.mark.requirement("B10.3", "B10.4")
@pytest.mark.sentence("1.0/4.3-1", "1.0/4.3-2")
def test_a_discharge_of_an_unknown_transaction_is_rejected_and_ends_nothing() -> None:
    controller = Controller(sender(0))
    live = controller.declare()
    for txn_id in (UNKNOWN, b"", b"x" * 500):
        for fail in (False, True, None):
            assert failure(controller.discharge(txn_id, fail)) == Condition.UNKNOWN_ID
    assert controller.rolled_back() == []
    assert controller.discharge(live, fail=True) == ACCEPTED
    assert failure(controller.discharge(live)) == Condition.UNKNOWN_ID
    assert controller.discharge(controller.declare(), None) is None, "fail is false by default"
    assert failure(controller.discharge(b"\0\0\0\0\0\0\0\2")) == Condition.UNKNOWN_ID, "being committed"


@pytest.mark.parametrize("txn_id", [UNKNOWN, b"", b"x" * 500])
@pytest.mark.parametrize("sent", ["transfer", "disposition"])
def test_a_frame_in_an_unknown_transaction_ends_its_session(txn_id: bytes, sent: str) -> None:
    controller = delivered()
    controller.declare()
    found = controller.send(txn_id, message()) if sent == "transfer" else controller.retire(0, 1, txn_id)
    assert error_in(found[-1], d.End).condition == Condition.UNKNOWN_ID
    (ended,) = controller.peer.taken(e.SessionEnded)
    assert ended.unsettled == [(1, [(1, 5)])], "the deliveries go back"
    assert controller.rolled_back() == [1] and controller.held == 0
    assert not controller.peer.taken(e.PublishEffect)


@pytest.mark.requirement("B10.8")
@pytest.mark.parametrize("closed", [True, False])
def test_a_detached_control_link_rolls_its_transactions_back(closed: bool) -> None:
    controller = delivered()
    first, second = controller.declare(), controller.declare()
    controller.peer.send(coordinator(8))
    other = controller.declare(8)
    controller.retire(0, 1, first)
    controller.send(second, message())
    assert controller.peer.send(d.Detach(CONTROL, closed)) == [d.Detach(CONTROL, closed)]
    assert controller.rolled_back() == [1, 2] and unsettled(controller) == [1, 2, 3, 4, 5]
    assert controller.send(other, message())[0].state == within(other, ACCEPTED)
    assert failure(controller.discharge(first, handle=8)) == Condition.UNKNOWN_ID


@pytest.mark.requirement("B10.8")
def test_a_control_link_that_is_taken_over_rolls_back() -> None:
    controller = Controller()
    controller.declare()
    detach, attach, _ = controller.peer.send(coordinator(3, f"control-{CONTROL}"))
    assert (detach.handle, attach.handle) == (CONTROL, 3)
    assert controller.rolled_back() == [1]


@pytest.mark.requirement("B10.8")
@pytest.mark.parametrize("end", [d.End(), d.Detach(77)], ids=["ended", "failed"])
def test_an_ended_session_rolls_the_transactions_of_its_control_links_back(end: Any) -> None:
    controller = delivered()
    txn_id = controller.declare()
    controller.retire(0, 1, txn_id)
    controller.retire(2, None, txn_id, settled=True)
    controller.peer.send(end)
    assert controller.rolled_back() == [1] and controller.held == 0
    (ended,) = controller.peer.taken(e.SessionEnded)
    assert ended.unsettled == [(1, [(1, 2), (4, 5)])] or ended.unsettled == [(1, [(1, 2)]), (1, [(4, 5)])]
    assert given_back(controller) == [(1, [(3, 3)], Outcome.RELEASED)]


@pytest.mark.requirement("B10.8")
@pytest.mark.parametrize("how", ["close", "error", "lost"])
def test_a_closed_connection_rolls_back(how: str) -> None:
    controller = delivered()
    txn_id = controller.declare()
    controller.retire(0, 1, txn_id)
    controller.send(txn_id, message())
    if how == "lost":
        controller.peer.effects += controller.peer.connection.disconnected()
    else:
        controller.peer.send(d.Close() if how == "close" else d.Begin(0, 1, 1))
    assert controller.rolled_back() == [1] and controller.held == 0
    (closed,) = controller.peer.taken(e.ConnectionClosed)
    assert closed.unsettled == [(1, [(1, 5)])]
    assert not controller.peer.taken(e.CommitEffect)


@pytest.mark.requirement("B10.3")
def test_a_commit_goes_on_without_its_control_link() -> None:
    controller = Controller(sender(0))
    txn_id = controller.declare()
    controller.send(txn_id, message())
    assert controller.discharge(txn_id) is None
    controller.peer.send(d.Detach(CONTROL, True))
    assert controller.rolled_back() == [], "the broker decides"
    controller.peer.connection.sessions.committed(controller.commit(), None)
    assert controller.held == 0
    controller.peer.send(d.End())
    assert controller.peer.connection.state.name == "OPEN"


@pytest.mark.requirement("B10.3")
@pytest.mark.parametrize("settles", [False, True])
@pytest.mark.parametrize("how", ["detach", "cancel"])
def test_a_link_that_ends_takes_its_deliveries_out_of_the_transaction(settles: bool, how: str) -> None:
    """They are back in their queue, so the transaction can only fail."""
    controller = delivered()
    txn_id = controller.declare()
    controller.retire(0, 1, txn_id, settled=settles)
    if how == "detach":
        controller.peer.send(d.Detach(1, True))
    else:
        controller.peer.connection.sessions.cancelled(1, Error("x"))
        controller.peer.reads()
    returned = [n for _, ranges, _ in given_back(controller) for low, high in ranges for n in (low, high)]
    assert (min(returned), max(returned)) == (1, 5)
    controller.send(txn_id, message())
    assert failure(controller.discharge(txn_id)) == Condition.TRANSACTION_ROLLBACK
    assert controller.rolled_back() == [1] and given_back(controller) == []
    assert not controller.peer.taken(e.CommitEffect) and controller.held == 0


# -- several sessions -------------------------------------------------------------------------------


def two_sessions(answers: frozenset[type[Any]] = HOLDING) -> Controller:
    """A controller with the control link on channel 0, and links of both kinds on channel 1."""
    controller = Controller(sender(0), answers=answers)
    controller.peer.send(begin(), sender(0), receiver(1), credit(50, handle=1), channel=1)
    controller.peer.deliver(*[message()] * 4)
    controller.peer.effects.clear()
    return controller


@pytest.mark.requirement("B10.6")
def test_a_transaction_is_over_all_sessions_of_the_connection() -> None:
    controller = two_sessions()
    txn_id = controller.declare()
    controller.send(txn_id, message(body=b"a"))
    (told,) = controller.send(txn_id, message(body=b"b"), channel=1)
    assert controller.peer.frames[-1].channel == 1 and told.state == within(txn_id, ACCEPTED)
    retiring = d.Disposition(Role.RECEIVER, 0, 2, True, within(txn_id, ACCEPTED))
    assert controller.peer.send(retiring, channel=1) == []
    assert controller.bodies(1) == [message(body=b"a"), message(body=b"b")]
    controller.discharge(txn_id)
    assert controller.commit().settled == [Settlement(1, [(1, 3)], Outcome.ACCEPTED)]


@pytest.mark.requirement("B10.3")
def test_an_ended_session_takes_its_deliveries_out_of_the_transaction() -> None:
    controller = two_sessions()
    txn_id = controller.declare()
    retiring = d.Disposition(Role.RECEIVER, 0, 2, True, within(txn_id, ACCEPTED))
    controller.peer.send(retiring, d.End(), channel=1)
    (ended,) = controller.peer.taken(e.SessionEnded)
    assert sorted(ended.unsettled) == [(1, [(1, 3)]), (1, [(4, 4)])]
    assert failure(controller.discharge(txn_id)) == Condition.TRANSACTION_ROLLBACK
    assert given_back(controller) == []


@pytest.mark.requirement("B10.3", "B10.4", "B10.6", "B10.8")
@pytest.mark.sentence("1.0/4.4.1-4", "1.0/4.4.4.1-2")
@pytest.mark.parametrize("end", ["commit", "rollback", "detach"])
def test_messages_in_front_of_the_discharge_are_in_the_transaction(end: str) -> None:
    """Those of every session, although they come in the input that has the discharge."""
    controller = two_sessions(COMMITTING)
    txn_id = controller.declare()
    frames = [controller.frame(message(body=b"a"), txn_id)]
    frames += [controller.frame(message(body=b"b"), txn_id, channel=1)]
    detach = octets_of(d.Detach(CONTROL, True))
    last = detach if end == "detach" else controller.discharging(txn_id, end == "rollback")
    told = controller.peer.send(*frames, last)
    kinds = [type(one) for one in controller.peer.effects]
    assert kinds == [e.PublishEffect, e.PublishEffect, e.CommitEffect if end == "commit" else e.Rollback]
    assert sorted(controller.bodies(1)) == [message(body=b"a"), message(body=b"b")]
    states = [one.state for one in told if isinstance(one, d.Disposition)]
    assert states.count(within(txn_id, ACCEPTED)) == 2, "the peer is told an outcome of each"
    for session in controller.peer.connection.sessions:
        assert session.incoming.unconfirmed == 0
    assert controller.held == 0


# -- bounds -----------------------------------------------------------------------------------------


@pytest.mark.requirement("B10.5")
@pytest.mark.sentence("1.0/4.2-3", "1.0/4.2-4")
def test_a_transaction_beyond_the_limit_is_rejected() -> None:
    controller = Controller(limits=ConnectionLimits(transactions=3))
    ids = [controller.declare() for _ in range(3)]
    (told,) = controller.peer.send(controller.declaring())
    assert failure(told.state) == AmqpCondition.RESOURCE_LIMIT_EXCEEDED
    assert controller.discharge(ids[0]) is None
    (told,) = controller.peer.send(controller.declaring())
    assert failure(told.state) == AmqpCondition.RESOURCE_LIMIT_EXCEEDED, "one is being committed"
    controller.peer.connection.sessions.committed(controller.commit(), None)
    controller.peer.reads()
    assert controller.declare() not in ids and controller.rolled_back() == []


@pytest.mark.sentence("1.0/4.2-3", "1.0/4.2-4")
def test_a_part_of_a_distributed_transaction_is_rejected() -> None:
    controller = Controller()
    controller.declare()
    (told,) = controller.peer.send(controller.frame(control(d.Declare("global")), None, CONTROL))
    assert failure(told.state) == AmqpCondition.NOT_IMPLEMENTED and controller.rolled_back() == []


def without_rejections() -> Controller:
    """A controller with a second control link, on handle 8, whose source takes no rejections."""
    attach = coordinator(8, source=d.Source(outcomes=("amqp:accepted:list",)))
    return Controller(sender(0), attach, limits=ConnectionLimits(transactions=1))


@pytest.mark.requirement("B10.8")
@pytest.mark.sentence("1.0/4.2-5", "1.0/4.3-3")
@pytest.mark.parametrize(
    ("sent", "condition"),
    [
        (d.Declare(), AmqpCondition.RESOURCE_LIMIT_EXCEEDED),
        (d.Declare("global"), AmqpCondition.NOT_IMPLEMENTED),
        (d.Discharge(UNKNOWN, False), Condition.UNKNOWN_ID),
    ],
)
def test_a_control_link_without_rejections_is_closed_instead(sent: Any, condition: str) -> None:
    """Its source lists the outcomes that it takes (sections 4.3 and 4.5)."""
    controller = without_rejections()
    controller.declare(8)
    (detach,) = controller.peer.send(controller.frame(control(sent), None, 8))
    assert detach.handle == 8 and error_in(detach, d.Detach).condition == condition
    assert controller.rolled_back() == [1]
    assert isinstance(controller.declare(), bytes), "the other control link is as it was"


@pytest.mark.requirement("B10.3")
@pytest.mark.sentence("1.0/4.3-3")
@pytest.mark.parametrize("when", ["before", "at the commit"])
def test_a_failed_commit_closes_a_control_link_without_rejections(when: str) -> None:
    controller = without_rejections()
    txn_id = controller.declare(8)
    sessions = controller.peer.connection.sessions
    if when == "before":
        sessions.transactions.fail(1, FAILURE)
        (detach,) = controller.peer.send(controller.discharging(txn_id, handle=8))
    else:
        assert controller.discharge(txn_id, handle=8) is None
        sessions.committed(controller.commit(), FAILURE)
        (detach,) = controller.peer.reads()
    assert detach.handle == 8 and error_in(detach, d.Detach) == FAILED.error
    assert controller.peer.session().incoming.unconfirmed == 0 and controller.held == 0


def test_an_error_of_a_transaction_fits_into_the_smallest_frame() -> None:
    controller = Controller(sender(0), max_frame_size=512)
    txn_id, other = controller.declare(), controller.declare()
    sessions = controller.peer.connection.sessions
    sessions.transactions.fail(1, "z" * 600)
    (told,) = controller.send(txn_id, message())
    assert "z" * 300 in str(told.state.outcome.error.description)
    assert failure(controller.discharge(txn_id)) == Condition.TRANSACTION_ROLLBACK
    assert controller.discharge(other) is None
    sessions.committed(controller.commit(), "z" * 600)
    (told,) = controller.peer.reads()
    assert failure(told.state) == Condition.TRANSACTION_ROLLBACK


@pytest.mark.parametrize("end", ["commit", "refused commit", "rollback", "detach"])
def test_the_memory_of_a_transaction_is_counted_and_given_back(end: str) -> None:
    controller = delivered(9)
    before = controller.peer.connection.held
    txn_id = controller.declare()
    declared = controller.held
    assert declared > 0 and controller.peer.connection.held == before + declared
    controller.send(txn_id, message(body=b"x" * 5000))
    published = controller.held
    assert published >= declared + 5000
    controller.retire(0, 8, txn_id)
    retired = controller.held
    assert retired > published
    if end == "detach":
        controller.peer.send(d.Detach(CONTROL, True))
    elif end == "rollback":
        controller.discharge(txn_id, fail=True)
    else:
        controller.discharge(txn_id)
        assert controller.held == retired, "the broker has not answered"
        controller.peer.connection.sessions.committed(
            controller.commit(), FAILURE if end == "refused commit" else None
        )
    assert controller.held == 0
    if end == "rollback":
        controller.peer.reads()
        assert controller.peer.connection.held == before


def test_held_messages_count_for_the_memory_of_a_connection() -> None:
    limits = ConnectionLimits(memory_bytes=1 << 20, message_size=1000)
    controller = Controller(sender(0), limits=limits)
    txn_id = controller.declare()
    found: list[Any] = []
    for _ in range(5200):
        found = controller.send(txn_id, message(body=b"x" * 900))
        if isinstance(found[-1], d.Close):
            break
    assert error_in(found[-1], d.Close).condition == AmqpCondition.RESOURCE_LIMIT_EXCEEDED
    assert controller.rolled_back() == [1] and controller.held == 0


def test_a_held_message_keeps_no_other_input_in_memory() -> None:
    controller = Controller(sender(0))
    txn_id = controller.declare()
    large = controller.frame(message(body=b"x" * 100_000))
    controller.peer.send(large, controller.frame(message(), txn_id))
    (run,) = controller.runs(1)
    assert len(memoryview(run.raw).obj) == len(run.raw) < 1000


@pytest.mark.sentence("1.0/4.4.3-1")
def test_acquisition_in_a_transaction_is_refused() -> None:
    controller = delivered()
    txn_id = controller.declare()
    (detach,) = controller.peer.send(credit(10, 5, handle=1, properties={Symbol("txn-id"): txn_id}))
    assert (detach.handle, detach.closed) == (1, True)
    assert error_in(detach, d.Detach).condition == AmqpCondition.NOT_IMPLEMENTED


# -- deliveries with frames to come -----------------------------------------------------------------


def part(controller: Controller, txn_id: bytes) -> None:
    """Send the first frame of a delivery in a transaction."""
    assert controller.peer.send(controller.frame(b"\0", txn_id, more=True)) == []


@pytest.mark.requirement("B10.8")
@pytest.mark.sentence("1.0/4.4.1-3")
@pytest.mark.parametrize("handle", [CONTROL, 8], ids=["rejections", "no rejections"])
def test_a_commit_while_a_delivery_has_frames_to_come_closes_the_control_link(handle: int) -> None:
    """Whichever outcomes the control link takes (section 4.4.1)."""
    attach = coordinator(8, source=d.Source(outcomes=("amqp:accepted:list",)))
    controller = Controller(sender(0), attach)
    txn_id = controller.declare()
    controller.send(txn_id, message())
    part(controller, txn_id)
    (detach,) = controller.peer.send(controller.discharging(txn_id, handle=handle))
    assert (detach.handle, detach.closed) == (handle, True)
    assert error_in(detach, d.Detach).condition == Condition.TRANSACTION_ROLLBACK
    assert controller.rolled_back() == [1] and controller.held == 0
    assert not controller.peer.taken(e.CommitEffect)
    assert controller.peer.session().incoming.unconfirmed == 0


@pytest.mark.requirement("B10.3")
@pytest.mark.parametrize("how", ["last frame", "aborted", "detached", "other transaction"])
def test_a_delivery_whose_frames_have_ended_holds_up_no_commit(how: str) -> None:
    controller = Controller(sender(0))
    txn_id = controller.declare()
    part(controller, controller.declare() if how == "other transaction" else txn_id)
    if how == "last frame":
        controller.peer.send(octets_of(d.Transfer(0), payload=message()[1:]))
    elif how == "aborted":
        controller.peer.send(octets_of(d.Transfer(0, aborted=True)))
    elif how == "detached":
        controller.peer.send(d.Detach(0, True))
    assert controller.discharge(txn_id) is None
    assert controller.commit().transaction == 1


@pytest.mark.requirement("B10.4")
@pytest.mark.sentence("1.0/4.3-4")
def test_a_rollback_waits_for_no_delivery_with_frames_to_come() -> None:
    controller = Controller(sender(0))
    txn_id = controller.declare()
    part(controller, txn_id)
    assert controller.discharge(txn_id, fail=True) == ACCEPTED
    assert controller.rolled_back() == [1] and controller.held == 0
