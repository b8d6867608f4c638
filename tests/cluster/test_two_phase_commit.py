"""A participant of a transaction whose front end is lost finds out the outcome by itself."""

from __future__ import annotations

import pytest

from cluster.peers.held_leases import HeldLeases
from node.queue.entry_format import encode_publish, encode_settle
from node.queue.transaction_format import encode_prepare
from node.queue.transaction_operations import TransactionKey
from tests.cluster.recorders import Silence
from tests.cluster.test_taking_over import FRONT_END, QUEUE, FrontEnds, Recording, apply_all, taken_over
from tests.inside import machine_of
from tests.queue.building import uniform_run

pytestmark = [pytest.mark.interpreted]

KEY, COORDINATOR = TransactionKey(FRONT_END, 1), 77


class NoCoordinator(Silence):
    """A `Transit` for which the coordinator is gone, so that no transaction was decided there."""

    def gone(self, partition: int) -> bool:
        return partition == COORDINATOR


class OutOfReach(FrontEnds):
    """A front end that cannot be reached, and may come back."""

    def alive(self, front_end: int) -> bool:
        return False


def test_what_ends_in_the_entry_that_prepares_it_is_undone() -> None:
    """While the disk stands still, all operations go into the next entry."""
    node = Recording()
    owner = taken_over(node)
    owner.sessions.hello(FRONT_END, 1, "n1", [], 1)
    prepare = encode_prepare(KEY.number, COORDINATOR, encode_publish(uniform_run(2), [QUEUE]))
    owner.sessions.operations(FRONT_END, 1, 2, b"".join(prepare))
    node.front_ends, node.transit = OutOfReach(), NoCoordinator()
    owner.sessions.front_end_lost(FRONT_END)
    owner.tick(10.0)
    assert owner.propose()
    (entry,) = node.entries
    owner.apply(4, entry, 10.0)
    assert machine_of(owner).transactions.prepared == {}
    state = machine_of(owner).queues[QUEUE]
    assert (list(state.alive.ranges()), list(state.withheld.ranges())) == ([(1, 1)], [])


@pytest.mark.requirement("A22.2")
def test_what_is_older_than_a_held_message_that_a_transaction_settles_is_marked() -> None:
    """A former owner leased three messages, of which the second has arrived."""
    node = Recording()
    owner = taken_over(node, 3)
    owner.sessions.hello(FRONT_END, 1, "n1", [], 1)
    prepare = encode_prepare(KEY.number, COORDINATOR, [encode_settle(QUEUE, [(2, 2)])])
    owner.sessions.operations(FRONT_END, 1, 2, b"".join(prepare))
    owner.sessions.held(FRONT_END, 1, HeldLeases({}, {}, {}, {}))
    apply_all(node, owner, 4)
    delivery = owner.queues[QUEUE].delivery
    assert list(delivery.ready.ranges()) == [(1, 1), (3, 3)]
    assert list(delivery.redelivered.ranges()) == [(1, 1)]
