"""The coordinator: control links, declare and discharge, and what a commit and a rollback do (part 4)."""

from __future__ import annotations

from typing import Any

import pytest

from node.delivery.settlements import Outcome, Settlement
from node.wire.amqp10 import definitions as d
from node.wire.amqp10 import effects as e
from node.wire.amqp10.definitions import AmqpCondition, Rejected, Released, Role
from node.wire.amqp10.definitions import TxnCapability as Capability
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.modified import annotations_told
from tests.wire.amqp10.controller import (
    ACCEPTED,
    COMMITTING,
    FAILED,
    FAILURE,
    UNKNOWN,
    Controller,
    delivered,
    given_back,
    unsettled,
)
from tests.wire.amqp10.peer import begun, error_in
from tests.wire.amqp10.performatives import octets_of, sender, settled
from tests.wire.amqp10.sections import data, message, section
from tests.wire.amqp10.transacting import CONTROL, control, coordinator, within

# -- control links ----------------------------------------------------------------------------------


@pytest.mark.requirement("B10.1")
def test_a_control_link_is_told_the_capabilities_and_gets_credit() -> None:
    peer = begun(limits=ConnectionLimits(link_credit=7))
    asked = coordinator(3, target=d.Coordinator((Capability.LOCAL_TRANSACTIONS,)))
    attach, flow = peer.send(asked)
    assert (attach.name, attach.handle, attach.role) == ("control-3", 3, Role.RECEIVER)
    assert attach.source == asked.source
    assert set(attach.target.capabilities) == {
        Capability.LOCAL_TRANSACTIONS, Capability.MULTI_TXNS_PER_SSN, Capability.MULTI_SSNS_PER_TXN,
    }  # fmt: skip
    assert (flow.handle, flow.link_credit) == (3, 7)
    assert not peer.effects, "the broker is not asked for the coordinator"


@pytest.mark.requirement("B10.2", "B10.5")
def test_every_transaction_has_an_id_of_its_own() -> None:
    controller = Controller()
    ids = [controller.declare() for _ in range(20)]
    assert len(set(ids)) == 20
    assert controller.discharge(ids[0], fail=True) == ACCEPTED
    assert controller.declare() not in ids, "a new transaction is not taken for an old one"


@pytest.mark.requirement("B10.2")
def test_the_peer_settles_a_control_message_second_where_it_asked_to() -> None:
    peer = begun(coordinator(rcv_settle_mode=d.ReceiverSettleMode.SECOND))
    controller = Controller(coordinator(8, rcv_settle_mode=d.ReceiverSettleMode.SECOND))
    (told,) = controller.peer.send(controller.declaring(8))
    assert isinstance(told.state, d.Declared) and not told.settled
    assert not peer.effects


@pytest.mark.requirement("B10.2")
def test_a_control_message_may_come_in_frames() -> None:
    controller = Controller()
    octets = control(d.Declare())
    first = controller.frame(octets[:2], None, CONTROL, more=True)
    last = octets_of(d.Transfer(CONTROL), payload=octets[2:])
    assert controller.peer.send(first) == []
    (told,) = controller.peer.send(last)
    assert isinstance(told.state, d.Declared) and told.first == 0


@pytest.mark.requirement("B10.8", "B10.9")
@pytest.mark.parametrize("sent", [d.Declare(), d.Discharge(UNKNOWN, False), d.Discharge(UNKNOWN, True)])
def test_a_settled_control_message_closes_the_control_link(sent: Any) -> None:
    """Its outcome would be lost (section 4.2)."""
    controller = Controller(sender(0))
    live = controller.declare()
    frame = controller.frame(control(sent), None, CONTROL, settled=True)
    (detach,) = controller.peer.send(frame)
    assert (detach.handle, detach.closed) == (CONTROL, True)
    assert error_in(detach, d.Detach).condition == AmqpCondition.NOT_ALLOWED
    assert controller.rolled_back() == [1], "a closed control link rolls back"
    assert controller.send(None, message()) == [], "the session lives on"
    assert isinstance(controller.send(live, message())[0], d.End)


@pytest.mark.requirement("B10.8")
@pytest.mark.parametrize(
    "octets",
    [
        b"", b"\0", message(), data(control(d.Declare())), control(d.Accepted()), control(d.Coordinator()),
        section(d.SectionCode.AMQP_VALUE, "declare"),
        section(d.SectionCode.AMQP_SEQUENCE, [d.Declare()]), control(d.Declare())[:-1],
    ],
)  # fmt: skip
def test_a_message_that_is_no_control_message_closes_the_control_link(octets: bytes) -> None:
    controller = Controller()
    controller.declare()
    (detach,) = controller.peer.send(controller.frame(octets, None, CONTROL))
    assert (detach.handle, detach.closed) == (CONTROL, True)
    assert error_in(detach, d.Detach).condition == AmqpCondition.NOT_IMPLEMENTED
    assert controller.rolled_back() == [1] and controller.held == 0
    assert controller.peer.session().incoming.unconfirmed == 0


# -- publishes --------------------------------------------------------------------------------------


@pytest.mark.requirement("B10.5")
@pytest.mark.sentence("1.0/4.4-1", "1.0/4.4.1-4", "1.0/4.4.4.1-3")
def test_a_publish_in_a_transaction_is_held_and_told_the_presumed_outcome() -> None:
    controller = Controller(sender(0))
    first, second = controller.declare(), controller.declare()
    assert controller.send(first, message(body=b"a"), message(body=b"b")) == [
        d.Disposition(Role.RECEIVER, 2, None, True, within(first, ACCEPTED)),
        d.Disposition(Role.RECEIVER, 3, None, True, within(first, ACCEPTED)),
    ]
    assert controller.send(second, message(body=b"c"))[0].state == within(second, ACCEPTED)
    assert controller.send(None, message(body=b"d")) == [], "in no transaction: the broker decides"
    assert [(one.transaction, one.run.count) for one in controller.peer.taken(e.PublishEffect)] == [
        (1, 1), (1, 1), (2, 1), (0, 1),
    ]  # fmt: skip
    assert controller.peer.session().incoming.unconfirmed == 1


@pytest.mark.requirement("B10.6")
def test_a_publish_in_a_transaction_is_settled_as_the_peer_wants() -> None:
    second = d.ReceiverSettleMode.SECOND
    controller = Controller(sender(0, rcv_settle_mode=second), sender(1))
    txn_id = controller.declare()
    (told,) = controller.send(txn_id, message(), handle=0)
    assert (told.settled, told.state) == (False, within(txn_id, ACCEPTED))
    (told,) = controller.send(txn_id, message(), handle=1)
    assert (told.settled, told.state) == (True, within(txn_id, ACCEPTED))
    assert controller.send(txn_id, message(), handle=1, settled=True) == []
    assert [one.first_tag for one in controller.peer.taken(e.PublishEffect)] == [2, 3, 0]
    assert controller.peer.session().incoming.unconfirmed == 0


def test_alike_transfers_in_a_transaction_are_one_run() -> None:
    bodies = [message(body=b"%03d" % number) for number in range(200)]
    controller, one_by_one = Controller(sender(0)), Controller(sender(0))
    txn_id = controller.declare()
    (told,) = controller.peer.send(*[controller.frame(body, txn_id) for body in bodies])
    assert (told.first, told.last, told.state) == (1, 200, within(txn_id, ACCEPTED))
    (run,) = controller.runs(1)
    assert run.count == 200
    txn_id = one_by_one.declare()
    assert len(one_by_one.send(txn_id, *bodies)) >= 200
    assert list(run.contents()) == bodies == one_by_one.bodies(1)
    assert [peer.peer.incoming().delivery_count for peer in (controller, one_by_one)] == [200, 200]


@pytest.mark.requirement("B10.5")
@pytest.mark.sentence("1.0/4.4-1", "1.0/4.4.4.1-3")
def test_transfers_of_several_transactions_in_one_input_are_kept_apart() -> None:
    controller = Controller(sender(0))
    first, second = controller.declare(), controller.declare()
    order = [None, None, first, first, second, None, first, second, second]
    frames = [controller.frame(message(body=b"%d" % at), one) for at, one in enumerate(order)]
    told = {one.first: one.state.txn_id for one in controller.peer.send(*frames)}
    assert told == {4: first, 6: second, 8: first, 9: second}
    found = [(one.transaction, one.run.count) for one in controller.peer.effects]
    assert found == [(0, 2), (1, 2), (2, 1), (0, 1), (1, 1), (2, 2)]


@pytest.mark.parametrize("stated", ["first", "last", "both"])
def test_a_delivery_in_frames_is_in_the_transaction_that_a_frame_states(stated: str) -> None:
    controller = Controller(sender(0))
    txn_id = controller.declare()
    octets = message(body=b"in two frames")
    first = controller.frame(octets[:4], txn_id if stated != "last" else None, more=True)
    state = within(txn_id) if stated != "first" else None
    (told,) = controller.peer.send(first, octets_of(d.Transfer(0, state=state), payload=octets[4:]))
    assert (told.first, told.state) == (1, within(txn_id, ACCEPTED))
    assert controller.bodies(1) == [octets]


def test_an_aborted_delivery_is_in_no_transaction() -> None:
    controller = Controller(sender(0))
    txn_id = controller.declare()
    octets = controller.held
    aborted = octets_of(d.Transfer(0, aborted=True))
    assert controller.peer.send(controller.frame(b"\0", txn_id, more=True), aborted) == []
    assert controller.peer.effects == [] and controller.held == octets


@pytest.mark.requirement("B10.3", "B10.5")
@pytest.mark.sentence("1.0/4.4.4.1-1")
def test_a_refused_publish_makes_the_transaction_fail() -> None:
    controller = Controller(sender(0), answers=COMMITTING - {e.PublishEffect})
    txn_id, other = controller.declare(), controller.declare()
    sessions = controller.peer.connection.sessions
    controller.send(txn_id, message())
    (publish,) = controller.peer.taken(e.PublishEffect)
    sessions.transactions.fail(1, FAILURE)
    sessions.transactions.fail(1, "the second reason")
    sessions.publish_held(publish)
    (told,) = controller.peer.reads()
    assert told.state == within(txn_id, FAILED) and told.settled
    assert controller.discharge(txn_id) == FAILED
    assert controller.rolled_back() == [1] and not controller.peer.taken(e.CommitEffect)
    assert controller.discharge(other) == ACCEPTED, "the other transaction is as it was"


# -- settlements ------------------------------------------------------------------------------------


@pytest.mark.requirement("B10.3")
@pytest.mark.parametrize("in_one_step", [False, True])
def test_a_commit_settles_what_was_retired(in_one_step: bool) -> None:
    controller = delivered(10)
    txn_id = controller.declare()
    assert controller.retire(0, 2, txn_id, ACCEPTED, in_one_step) == []
    assert controller.retire(5, None, txn_id, Rejected(), in_one_step) == []
    assert controller.retire(3, 4, txn_id, ACCEPTED, in_one_step) == []
    assert controller.retire(7, 99, txn_id, Released(), in_one_step) == []
    assert given_back(controller) == [], "nothing is settled before the commit"
    assert unsettled(controller) == [7]
    assert controller.discharge(txn_id) is None, "the broker has to answer first"
    commit = controller.commit()
    assert (commit.transaction, commit.session, commit.tag) == (1, 1, 2)
    assert {one.outcome: one.ranges for one in commit.settled} == {
        Outcome.ACCEPTED: [(1, 5)], Outcome.REJECTED: [(6, 6)], Outcome.RELEASED: [(8, 10)],
    }  # fmt: skip
    controller.peer.connection.sessions.committed(commit, None)
    assert controller.peer.reads() == [d.Disposition(Role.RECEIVER, 1, None, True, ACCEPTED)]
    assert given_back(controller) == [] and unsettled(controller) == [7] and controller.held == 0


@pytest.mark.requirement("B10.3")
@pytest.mark.sentence("1.0/4.3-1", "1.0/4.3-2", "1.0/4.4.4.1-4")
def test_a_commit_that_the_broker_refuses_rejects_the_discharge() -> None:
    controller = delivered()
    txn_id = controller.declare()
    controller.retire(0, 1, txn_id)
    controller.send(txn_id, message())
    assert controller.discharge(txn_id) is None
    controller.peer.connection.sessions.committed(controller.commit(), FAILURE)
    (told,) = controller.peer.reads()
    assert (told.first, told.settled, told.state) == (2, True, FAILED)
    assert unsettled(controller) == [3, 4, 5] and given_back(controller) == [], "the broker has them back"
    assert controller.held == 0


@pytest.mark.requirement("B10.4")
@pytest.mark.sentence("1.0/4.3-4")
def test_a_rollback_makes_deliveries_unsettled_again() -> None:
    controller = delivered()
    txn_id = controller.declare()
    controller.retire(1, 2, txn_id)
    controller.retire(4, None, txn_id)
    assert unsettled(controller) == [1, 4]
    assert controller.discharge(txn_id, fail=True) == ACCEPTED
    assert unsettled(controller) == [1, 2, 3, 4, 5] and given_back(controller) == []
    controller.peer.send(settled(0, 9, ACCEPTED))
    assert given_back(controller) == [(1, [(1, 5)], Outcome.ACCEPTED)]


@pytest.mark.requirement("B10.4")
@pytest.mark.sentence("1.0/4.4.4.2-1")
def test_a_rollback_releases_the_deliveries_that_the_peer_has_settled() -> None:
    controller = delivered()
    txn_id = controller.declare()
    controller.retire(1, 2, txn_id, settled=True)
    controller.retire(3, None, txn_id)
    assert controller.discharge(txn_id, fail=True) == ACCEPTED
    assert given_back(controller) == [(1, [(2, 3)], Outcome.RELEASED)]
    assert unsettled(controller) == [1, 4, 5] and controller.rolled_back() == [1]


@pytest.mark.requirement("B10.4")
@pytest.mark.sentence("1.0/4.4.4.2-1")
@pytest.mark.parametrize(
    ("default", "outcome"),
    [(ACCEPTED, Outcome.ACCEPTED), (Rejected(), Outcome.REJECTED), (d.Modified(True), Outcome.RETURNED)],
)
def test_a_rollback_gives_settled_deliveries_the_default_outcome(default: Any, outcome: Outcome) -> None:
    controller = delivered(source=d.Source("q", default_outcome=default))
    txn_id = controller.declare()
    controller.retire(0, 1, txn_id, Released(), settled=True)
    controller.retire(2, 3, txn_id, Released())
    controller.retire(3, 3, txn_id, Released(), settled=True)
    assert controller.discharge(txn_id, fail=True) == ACCEPTED
    assert given_back(controller) == [(1, [(1, 2)], outcome), (1, [(4, 4)], outcome)]
    assert unsettled(controller) == [3, 5]


@pytest.mark.requirement("B10.4")
def test_a_delivery_retired_first_and_settled_later_is_released_by_a_rollback() -> None:
    """The peer has forgotten the delivery, so the delivery cannot be among the unsettled ones again."""
    controller = delivered(6)
    txn_id = controller.declare()
    controller.retire(0, 5, txn_id)
    assert controller.retire(1, 2, txn_id, settled=True) == []
    assert controller.peer.send(settled(4, None, ACCEPTED)) == []
    assert given_back(controller) == [] and unsettled(controller) == []
    assert controller.discharge(txn_id, fail=True) == ACCEPTED
    assert sorted(given_back(controller), key=str) == [
        (1, [(2, 3)], Outcome.RELEASED), (1, [(5, 5)], Outcome.RELEASED),
    ]  # fmt: skip
    assert unsettled(controller) == [1, 4, 6]


@pytest.mark.requirement("B10.3", "B10.5")
def test_a_delivery_is_settled_once() -> None:
    controller = delivered(4)
    first, second = controller.declare(), controller.declare()
    controller.retire(0, 1, first)
    controller.retire(0, 2, second)
    controller.peer.send(settled(0, 9, Released()))
    assert given_back(controller) == [(1, [(4, 4)], Outcome.RELEASED)]
    for txn_id, ranges in ((second, [(3, 3)]), (first, [(1, 2)])):
        controller.discharge(txn_id)
        assert controller.commit().settled == [Settlement(1, ranges, Outcome.ACCEPTED)]


@pytest.mark.requirement("B10.3")
def test_a_retirement_without_outcome_has_the_sources_default() -> None:
    controller = delivered(source=d.Source("q", default_outcome=Rejected()))
    txn_id = controller.declare()
    controller.peer.send(d.Disposition(Role.RECEIVER, 0, 1, True, within(txn_id)))
    controller.peer.send(d.Disposition(Role.RECEIVER, 2, 3, False, within(txn_id)))
    assert unsettled(controller) == [3, 4, 5], "no outcome: the peer tells how far it has come"
    controller.discharge(txn_id)
    assert controller.commit().settled == [Settlement(1, [(1, 2)], Outcome.REJECTED)]


@pytest.mark.requirement("B6.9")
def test_annotations_of_modified_come_with_the_commit() -> None:
    controller = delivered(5)
    txn_id = controller.declare()
    held = controller.held
    state = d.Modified(True, None, {"x-opt-a": "a" * 100})
    controller.retire(0, 1, txn_id, state)
    controller.retire(2, None, txn_id, d.Modified(True))
    assert controller.held > held + 100
    controller.discharge(txn_id)
    octets = annotations_told(state)
    assert octets and controller.commit().settled == [
        Settlement(1, [(1, 2)], Outcome.RETURNED, octets), Settlement(1, [(3, 3)], Outcome.RETURNED),
    ]  # fmt: skip


@pytest.mark.requirement("B6.9")
def test_a_rollback_forgets_them() -> None:
    controller = delivered(5)
    txn_id = controller.declare()
    controller.retire(0, 1, txn_id, d.Modified(True, None, {"x-opt-a": 1}), settled=True)
    controller.discharge(txn_id, fail=True)
    assert given_back(controller) == [(1, [(1, 2)], Outcome.RELEASED)]


@pytest.mark.requirement("B6.9")
def test_annotations_beyond_the_limit_end_the_link_and_the_transaction_goes_on() -> None:
    controller = delivered(5)
    txn_id = controller.declare()
    (told,) = controller.retire(0, 1, txn_id, d.Modified(True, None, {"a": "x" * 70_000}))
    assert isinstance(told, d.Detach) and told.error is not None
    assert told.error.condition == AmqpCondition.RESOURCE_LIMIT_EXCEEDED
    assert given_back(controller) == [(1, [(1, 5)], Outcome.LOST)]
    controller.discharge(txn_id)
    assert controller.commit().settled == []
