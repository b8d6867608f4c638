"""A parked message: a delivery that the peer neither settles nor gives an outcome. It belongs to its link
(part 2, section 2.6.12; part 4, section 4.4).
"""

from __future__ import annotations

from typing import Any

import pytest

from node.delivery.settlements import Outcome, Settlement
from node.wire.amqp10 import definitions as d
from node.wire.amqp10 import effects as e
from node.wire.amqp10.definitions import Rejected, Released
from tests.wire.amqp10.controller import ACCEPTED, Controller, delivered, given_back, unsettled
from tests.wire.amqp10.performatives import credit, receiver, settled
from tests.wire.amqp10.sections import message
from tests.wire.amqp10.transacting import CONTROL, within

RECEIVED = d.Received(0, 0)


def parked(told: Any = RECEIVED) -> Controller:
    """A controller that has parked the second of three deliveries, and accepted the others."""
    controller = delivered(3)
    if told is not None:
        assert controller.peer.send(settled(1, None, told, settled=False)) == []
    controller.peer.send(settled(0, None, ACCEPTED), settled(2, None, ACCEPTED))
    assert given_back(controller) == [(1, [(1, 1), (3, 3)], Outcome.ACCEPTED)]
    return controller


@pytest.mark.requirement("E6.4")
@pytest.mark.parametrize("told", [None, RECEIVED])
def test_a_parked_message_stays_while_others_are_accepted(told: Any) -> None:
    controller = parked(told)
    controller.peer.deliver(message(), message(), first=4)
    controller.peer.send(settled(3, 4, ACCEPTED))
    assert given_back(controller) == [(1, [(4, 5)], Outcome.ACCEPTED)]
    assert controller.peer.tick(1.0) == [] and given_back(controller) == []
    assert unsettled(controller) == [2]


@pytest.mark.requirement("E6.1", "E6.2", "E6.3", "E6.4")
@pytest.mark.parametrize("settles", [True, False])
@pytest.mark.parametrize(
    ("state", "outcome"),
    [(ACCEPTED, Outcome.ACCEPTED), (Released(), Outcome.RELEASED), (Rejected(), Outcome.REJECTED)],
)
def test_a_parked_message_has_its_outcome_later(state: Any, outcome: Outcome, settles: bool) -> None:
    controller = parked()
    controller.peer.send(settled(0, 2, state, settled=settles))
    assert given_back(controller) == [(1, [(2, 2)], outcome)]
    assert unsettled(controller) == []


@pytest.mark.requirement("E6.5")
def test_a_parked_message_belongs_to_its_link() -> None:
    """Neither the end nor the outcomes of other links concern the message."""
    controller = parked()
    controller.peer.send(receiver(2), credit(50, handle=2))
    controller.peer.deliver(message(), first=70, consumer=2)
    assert unsettled(controller) == [2, 70]
    controller.peer.send(settled(3, None, Rejected()), d.Detach(2, True))
    assert given_back(controller) == [(2, [(70, 70)], Outcome.REJECTED)]
    assert unsettled(controller) == [2]
    controller.peer.send(settled(1, None, ACCEPTED))
    assert given_back(controller) == [(1, [(2, 2)], Outcome.ACCEPTED)]


@pytest.mark.requirement("E6.6")
@pytest.mark.parametrize("end", ["rollback", "detach"])
def test_a_rollback_parks_the_message_again(end: str) -> None:
    controller = parked()
    txn_id = controller.declare()
    assert controller.retire(1, None, txn_id, Rejected()) == []
    assert unsettled(controller) == []
    if end == "rollback":
        assert controller.discharge(txn_id, fail=True) == ACCEPTED
    else:
        controller.peer.send(d.Detach(CONTROL, True))
    assert controller.rolled_back() == [1]
    assert unsettled(controller) == [2] and given_back(controller) == []
    controller.peer.send(settled(1, None, ACCEPTED))
    assert given_back(controller) == [(1, [(2, 2)], Outcome.ACCEPTED)]


@pytest.mark.requirement("E6.6")
def test_a_message_that_is_parked_in_a_transaction_stays_with_its_link() -> None:
    """The transaction has no part in the message, whether it is committed or rolled back."""
    controller = parked()
    for fail in (False, True):
        txn_id = controller.declare()
        controller.peer.send(d.Disposition(d.Role.RECEIVER, 1, None, False, within(txn_id)))
        assert unsettled(controller) == [2]
        if fail:
            assert controller.discharge(txn_id, fail=True) == ACCEPTED
        else:
            assert controller.discharge(txn_id) is None
            commit = controller.commit()
            assert commit.settled == []
            controller.peer.connection.sessions.committed(commit, None)
            controller.peer.reads()
        assert unsettled(controller) == [2] and given_back(controller) == []


@pytest.mark.requirement("E6.6")
def test_a_parked_message_is_accepted_in_a_transaction_after_a_rollback() -> None:
    controller = parked()
    first = controller.declare()
    controller.retire(1, None, first)
    controller.discharge(first, fail=True)
    second = controller.declare()
    controller.retire(1, None, second)
    assert controller.discharge(second) is None
    assert controller.commit().settled == [Settlement(1, [(2, 2)], Outcome.ACCEPTED)]


@pytest.mark.requirement("E6.7")
@pytest.mark.parametrize("closed", [True, False])
def test_a_parked_message_goes_back_when_its_link_is_detached(closed: bool) -> None:
    controller = parked()
    controller.peer.send(d.Detach(1, closed))
    assert given_back(controller) == [(1, [(2, 2)], Outcome.LOST)]
    assert unsettled(controller) == []
    controller.peer.send(settled(1, None, ACCEPTED))
    assert given_back(controller) == [], "the link has the message no more"


@pytest.mark.requirement("E6.7")
def test_a_parked_message_goes_back_when_its_session_ends() -> None:
    controller = parked()
    controller.peer.send(d.End())
    (ended,) = controller.peer.taken(e.SessionEnded)
    assert ended.unsettled == [(1, [(2, 2)])]


@pytest.mark.requirement("E6.7")
@pytest.mark.parametrize("how", ["close", "lost"])
def test_a_parked_message_goes_back_when_its_connection_closes(how: str) -> None:
    controller = parked()
    if how == "lost":
        controller.peer.effects += controller.peer.connection.disconnected()
    else:
        controller.peer.send(d.Close())
    (closed,) = controller.peer.taken(e.ConnectionClosed)
    assert closed.unsettled == [(1, [(2, 2)])]
