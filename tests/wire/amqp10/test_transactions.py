"""Transactions: coordinator, declare and discharge, work in them, and their ends (part 4)."""

from __future__ import annotations

from typing import Any

import pytest

from node.delivery.settlements import Outcome, Settlement
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import (
    AmqpCondition,
    Error,
    ReceiverSettleMode,
    Role,
    TransactionalState,
    TransactionCondition,
    TxnCapability,
)
from node.wire.amqp10.effects import CommitEffect, PublishEffect, Rollback, SettleEffect
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.values import Described, ULong
from tests.wire.amqp10.peer import Peer, begin, begun, credit, error_in, receiver, sender, settled, transfer
from tests.wire.amqp10.sections import data, message

CONTROL = 9
"""The handle of the link to the coordinator."""

UNKNOWN = b"\xff" * 8
VALUE = b"\0\x53\x77"
"""The descriptor of the body's section amqp-value."""


def control(delivery_id: int, body: Any, handle: int = CONTROL, **fields: Any) -> bytes:
    """A transfer to the coordinator."""
    return transfer(delivery_id, VALUE + body.encode(), handle, **fields)


def coordinating(*attaches: Any, limits: ConnectionLimits | None = None, **fields: Any) -> Peer:
    """A peer with a link to the coordinator, and these links."""
    return begun(sender(CONTROL, target=d.Coordinator(), **fields), *attaches, limits=limits)


def declared(peer: Peer, delivery_id: int, handle: int = CONTROL, channel: int = 0) -> bytes:
    """Declare a transaction; returns its id."""
    found = peer.send(control(delivery_id, d.Declare(), handle, channel=channel))
    state = found[0].state
    assert isinstance(state, d.Declared) and found[0].settled
    return state.txn_id


def working(txn_id: bytes, outcome: Any = None) -> TransactionalState:
    return TransactionalState(txn_id, outcome)


def discharge(txn_id: bytes, fail: bool = False) -> d.Discharge:
    return d.Discharge(txn_id, fail)


def condition(disposition: Any) -> str:
    """The condition of a rejection."""
    assert isinstance(disposition.state, d.Rejected) and disposition.state.error is not None
    return str(disposition.state.error.condition)


# -- the coordinator --------------------------------------------------------------------------------


@pytest.mark.requirement("B10")
def test_the_coordinator_tells_what_it_can_do_and_gives_credit() -> None:
    peer = begun()
    attach, flow = peer.send(sender(CONTROL, target=d.Coordinator((TxnCapability.LOCAL_TRANSACTIONS,))))
    assert attach.target == d.Coordinator(
        (TxnCapability.LOCAL_TRANSACTIONS, TxnCapability.MULTI_TXNS_PER_SSN, TxnCapability.MULTI_SSNS_PER_TXN)
    )
    assert flow.handle == CONTROL and flow.link_credit > 0


@pytest.mark.requirement("B10")
def test_transactions_have_ids_of_their_own() -> None:
    peer = coordinating()
    assert len({declared(peer, number) for number in range(1, 6)}) == 5


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (d.Declare(), {"settled": True}),
        (discharge(UNKNOWN), {"settled": True}),
        (d.Accepted(), {}),
        (d.Declare(b"global"), {}),
    ],
    ids=["settled declare", "settled discharge", "no control message", "distributed"],
)
@pytest.mark.requirement("B10")
def test_a_control_message_that_is_none_detaches_the_link(body: Any, fields: Any) -> None:
    peer = coordinating()
    txn_id = declared(peer, 1)
    (detach,) = peer.send(control(2, body, **fields))
    assert detach.closed and error_in(detach, d.Detach).condition in (
        AmqpCondition.INVALID_FIELD, AmqpCondition.NOT_IMPLEMENTED, AmqpCondition.NOT_ALLOWED,
        AmqpCondition.DECODE_ERROR, TransactionCondition.TRANSACTION_ROLLBACK,
    )  # fmt: skip
    assert peer.taken(Rollback) == [Rollback(int.from_bytes(txn_id, "big"))]
    assert peer.send(begin(), channel=1) != [], "the session lives on"


@pytest.mark.parametrize(
    "octets",
    [b"", data(b"body"), VALUE + encode_amqp("text"), VALUE + encode_amqp(Described(ULong(0x99), [])), b"\0"],
)
def test_octets_that_are_no_control_message_detach_the_link(octets: bytes) -> None:
    peer = coordinating()
    (detach,) = peer.send(transfer(1, octets, CONTROL))
    assert isinstance(detach, d.Detach) and detach.error is not None


def test_the_number_of_transactions_is_bounded() -> None:
    peer = coordinating(limits=ConnectionLimits(transactions=2))
    first, _ = declared(peer, 1), declared(peer, 2)
    (detach,) = peer.send(control(3, d.Declare()))
    assert error_in(detach, d.Detach).condition == AmqpCondition.RESOURCE_LIMIT_EXCEEDED
    assert len(peer.taken(Rollback)) == 2
    peer.send(d.Detach(CONTROL, True), sender(8, name="again", target=d.Coordinator()))
    assert declared(peer, 4, 8) != first, "there is room again"


# -- publishes --------------------------------------------------------------------------------------


@pytest.mark.requirement("B10")
def test_publishes_are_held_until_the_commit() -> None:
    peer = coordinating(sender(0), sender(1, "r"))
    txn_id = declared(peer, 1)
    state = working(txn_id)
    sent = [transfer(2, state=state), transfer(3, state=state), transfer(4, handle=1, state=state)]
    assert peer.send(*sent) == []
    number = int.from_bytes(txn_id, "big")
    held = peer.taken(PublishEffect)
    assert sum(one.run.count for one in held) == 3
    assert {(one.run.routing_key, one.transaction) for one in held} == {("q", number), ("r", number)}
    for one in held:
        peer.connection.sessions.publish_held(one)
    told = peer.reads()
    assert [(one.first, one.last or one.first) for one in told] == [(2, 4)]
    assert told[0].state == working(txn_id, d.Accepted()) and told[0].settled
    assert peer.send(control(5, discharge(txn_id))) == []
    (commit,) = peer.taken(CommitEffect)
    assert (commit.transaction, commit.settled) == (number, [])
    peer.connection.sessions.committed(commit, None)
    assert peer.reads() == [d.Disposition(Role.RECEIVER, 5, None, True, d.Accepted())]


def test_a_row_of_transfers_in_a_transaction_is_held_too() -> None:
    """Transfers that are alike come as one row, but for those with a state."""
    peer = coordinating(sender(0))
    txn_id = declared(peer, 1)
    alike = [transfer(number, state=working(txn_id), delivery_tag=b"t") for number in range(2, 12)]
    peer.send(*alike)
    held = peer.taken(PublishEffect)
    assert sum(one.run.count for one in held) == 10
    assert all(one.transaction for one in held), "none is published outside of the transaction"
    peer.send(*[transfer(number, delivery_tag=b"t") for number in range(12, 22)])
    assert all(one.transaction == 0 for one in peer.taken(PublishEffect))


def test_a_delivery_in_several_frames_may_name_its_transaction_in_the_last_one() -> None:
    peer = coordinating(sender(0))
    txn_id, octets = declared(peer, 1), message(body=b"x" * 50)
    peer.send(
        transfer(2, octets[:9], more=True), transfer(None, octets[9:20], more=True),
        transfer(None, octets[20:], state=working(txn_id)),
    )  # fmt: skip
    (held,) = peer.taken(PublishEffect)
    assert held.transaction == int.from_bytes(txn_id, "big") and list(held.run.contents()) == [octets]


@pytest.mark.requirement("B10")
def test_a_refused_publish_makes_the_commit_fail() -> None:
    peer = coordinating(sender(0))
    txn_id = declared(peer, 1)
    number = int.from_bytes(txn_id, "big")
    peer.send(transfer(2, state=working(txn_id)))
    refused = Error(TransactionCondition.TRANSACTION_ROLLBACK, "no right")
    peer.connection.sessions.transactions.fail(number, refused)
    (held,) = peer.taken(PublishEffect)
    peer.connection.sessions.publish_held(held)
    (told,) = peer.reads()
    assert told.state == working(txn_id, d.Rejected(refused))
    (answer,) = peer.send(control(3, discharge(txn_id)))
    assert (answer.first, condition(answer)) == (3, TransactionCondition.TRANSACTION_ROLLBACK)
    assert peer.taken(Rollback) == [Rollback(number)] and not peer.taken(CommitEffect)


@pytest.mark.requirement("B10")
def test_a_commit_that_fails_is_told() -> None:
    peer = coordinating(sender(0))
    txn_id = declared(peer, 1)
    peer.send(transfer(2, state=working(txn_id)), control(3, discharge(txn_id)))
    (commit,) = peer.taken(CommitEffect)
    error = Error(TransactionCondition.TRANSACTION_ROLLBACK, "no queue takes a message")
    peer.connection.sessions.committed(commit, error)
    assert condition(peer.reads()[-1]) == TransactionCondition.TRANSACTION_ROLLBACK
    assert peer.connection.sessions.transactions.octets == 0


# -- settlements ------------------------------------------------------------------------------------


def consuming(mode: ReceiverSettleMode = ReceiverSettleMode.FIRST) -> tuple[Peer, bytes]:
    """A peer with four unsettled deliveries, 0 to 3, and a transaction."""
    peer = coordinating(receiver(0, rcv_settle_mode=mode), credit(100))
    peer.deliver(*[message()] * 4)
    txn_id = declared(peer, 1)
    peer.effects.clear()
    return peer, txn_id


@pytest.mark.requirement("B10")
@pytest.mark.parametrize("settles", [True, False])
def test_deliveries_are_settled_by_the_commit(settles: bool) -> None:
    peer, txn_id = consuming()
    states = (working(txn_id, d.Accepted()), working(txn_id, d.Rejected()))
    assert (
        peer.send(settled(0, 1, states[0], settled=settles), settled(3, 3, states[1], settled=settles)) == []
    )
    assert not peer.taken(SettleEffect), "nothing is settled before the commit"
    peer.send(control(2, discharge(txn_id)))
    (commit,) = peer.taken(CommitEffect)
    assert commit.settled == [
        Settlement(1, [(1, 2)], Outcome.ACCEPTED), Settlement(1, [(4, 4)], Outcome.REJECTED),
    ]  # fmt: skip
    peer.connection.sessions.committed(commit, None)
    assert peer.reads()[-1].state == d.Accepted()
    peer.send(settled(0, 3, d.Accepted()))
    assert peer.taken(SettleEffect) == [SettleEffect(1, [(3, 3)], Outcome.ACCEPTED)]


@pytest.mark.requirement("B10")
def test_a_rollback_leaves_unsettled_deliveries_with_the_peer() -> None:
    peer, txn_id = consuming()
    peer.send(settled(0, 1, working(txn_id, d.Accepted()), settled=False))
    (answer,) = peer.send(control(2, discharge(txn_id, fail=True)))
    assert answer.state == d.Accepted()
    assert not peer.taken(CommitEffect) and not peer.taken(SettleEffect)
    peer.send(settled(0, 3, d.Accepted()))
    assert peer.taken(SettleEffect) == [SettleEffect(1, [(1, 4)], Outcome.ACCEPTED)]


@pytest.mark.requirement("B10")
def test_a_rollback_returns_deliveries_that_the_peer_has_settled() -> None:
    peer, txn_id = consuming()
    peer.send(settled(0, 1, working(txn_id, d.Accepted())), control(2, discharge(txn_id, fail=True)))
    assert peer.taken(SettleEffect) == [SettleEffect(1, [(1, 2)], Outcome.RELEASED)]
    peer.send(settled(0, 3, d.Accepted()))
    assert peer.taken(SettleEffect) == [SettleEffect(1, [(3, 4)], Outcome.ACCEPTED)]


@pytest.mark.requirement("B10")
def test_two_transactions_settle_nothing_twice() -> None:
    peer, first = consuming()
    second = declared(peer, 2)
    peer.send(
        settled(0, 2, working(first, d.Accepted()), settled=False),
        settled(1, 3, working(second, d.Accepted()), settled=False),
        control(3, discharge(second)), control(4, discharge(first)),
    )  # fmt: skip
    commits = peer.taken(CommitEffect)
    assert [one.settled for one in commits] == [
        [Settlement(1, [(4, 4)], Outcome.ACCEPTED)], [Settlement(1, [(1, 3)], Outcome.ACCEPTED)],
    ]  # fmt: skip


# -- unknown transactions ---------------------------------------------------------------------------


@pytest.mark.requirement("B10")
@pytest.mark.parametrize("kind", ["transfer", "row", "disposition"])
def test_a_frame_in_an_unknown_transaction_ends_its_session(kind: str) -> None:
    peer = coordinating(sender(0), receiver(1), credit(9, handle=1))
    peer.deliver(message())
    txn_id = declared(peer, 1)
    match kind:
        case "transfer":
            (end,) = peer.send(transfer(2, state=working(UNKNOWN)))
        case "row":
            (end,) = peer.send(*[transfer(number, state=working(UNKNOWN)) for number in range(2, 9)])
        case _:
            (end,) = peer.send(settled(0, 0, working(UNKNOWN, d.Accepted())))
    assert error_in(end, d.End).condition == TransactionCondition.UNKNOWN_ID
    assert not peer.taken(PublishEffect) and not peer.taken(SettleEffect)
    assert peer.taken(Rollback) == [Rollback(int.from_bytes(txn_id, "big"))]


@pytest.mark.requirement("B10")
def test_a_discharge_of_an_unknown_transaction_is_rejected() -> None:
    peer = coordinating()
    txn_id = declared(peer, 1)
    peer.send(control(2, discharge(txn_id, fail=True)))
    for number, one in ((3, txn_id), (4, UNKNOWN)):
        (answer,) = peer.send(control(number, discharge(one)))
        assert condition(answer) == TransactionCondition.UNKNOWN_ID
    assert declared(peer, 5), "the link lives on"


def test_no_frame_names_a_transaction_whose_commit_is_under_way() -> None:
    peer = coordinating(sender(0))
    txn_id = declared(peer, 1)
    peer.send(control(2, discharge(txn_id)))
    (end,) = peer.send(transfer(3, state=working(txn_id)))
    assert error_in(end, d.End).condition == TransactionCondition.UNKNOWN_ID


def test_credit_for_a_transaction_is_not_implemented() -> None:
    peer, txn_id = consuming()
    (detach,) = peer.send(credit(10, properties={"txn-id": txn_id}))
    assert error_in(detach, d.Detach).condition == AmqpCondition.NOT_IMPLEMENTED


# -- the end ----------------------------------------------------------------------------------------


@pytest.mark.requirement("B10")
@pytest.mark.parametrize("end", ["detach", "end", "close", "lost"])
def test_transactions_are_rolled_back_with_their_coordinators_link(end: str) -> None:
    peer = coordinating(sender(0), receiver(1), credit(9, handle=1))
    peer.deliver(message(), message())
    first, second = declared(peer, 1), declared(peer, 2)
    peer.send(transfer(3, state=working(first)), settled(0, 0, working(second, d.Accepted()), settled=False))
    peer.effects.clear()
    match end:
        case "detach":
            peer.send(d.Detach(CONTROL, True))
        case "end":
            peer.send(d.End())
        case "close":
            peer.send(d.Close())
        case _:
            for effect in peer.connection.disconnected():
                peer.effects.append(effect)
                if isinstance(effect, Rollback):
                    peer.answer(effect)
    assert {one.transaction for one in peer.taken(Rollback)} == {
        int.from_bytes(first, "big"), int.from_bytes(second, "big"),
    }  # fmt: skip
    assert peer.connection.sessions.transactions.octets == 0
    returned = [one.unsettled for one in peer.effects if hasattr(one, "unsettled")]
    assert returned == ([] if end == "detach" else [[(1, [(1, 2)])]]), "deliveries go back once"


@pytest.mark.requirement("B10")
def test_a_transaction_works_over_all_sessions_of_the_connection() -> None:
    peer = coordinating()
    peer.send(begin(), sender(0, "r", "other"), channel=3)
    txn_id = declared(peer, 1)
    peer.send(transfer(7, state=working(txn_id), channel=3))
    (held,) = peer.taken(PublishEffect)
    assert (held.session, held.transaction) == (2, int.from_bytes(txn_id, "big"))
    peer.connection.sessions.publish_held(held)
    peer.reads()
    peer.send(d.End(), channel=3)
    peer.send(control(2, discharge(txn_id)))
    assert len(peer.taken(CommitEffect)) == 1, "held publishes outlive the session that has sent them"


@pytest.mark.parametrize("settles", [True, False])
def test_a_link_that_ends_takes_its_deliveries_out_of_the_transaction(settles: bool) -> None:
    peer, txn_id = consuming()
    peer.send(settled(0, 1, working(txn_id, d.Accepted()), settled=settles), d.Detach(0, True))
    returned = [part for one in peer.taken(SettleEffect) for part in one.ranges]
    assert sorted(number for first, last in returned for number in range(first, last + 1)) == [1, 2, 3, 4]
    (answer,) = peer.send(control(2, discharge(txn_id)))
    assert condition(answer) == TransactionCondition.TRANSACTION_ROLLBACK
    assert not peer.taken(CommitEffect) and not peer.taken(SettleEffect)


def test_memory_is_counted_and_given_back() -> None:
    peer = coordinating(sender(0), receiver(1), credit(100, handle=1))
    peer.deliver(*[message()] * 50)
    peer.send(settled(0, 49, d.Accepted()))
    before = peer.connection.held
    for number in range(10):
        txn_id = declared(peer, 1 + 3 * number)
        peer.send(transfer(2 + 3 * number, message(body=b"x" * 5000), state=working(txn_id)))
        assert peer.connection.held > before + 5000
        peer.send(control(3 + 3 * number, discharge(txn_id, fail=number % 2 == 0)))
        for commit in peer.taken(CommitEffect):
            peer.connection.sessions.committed(commit, None)
        peer.reads()
        assert peer.connection.held == before
