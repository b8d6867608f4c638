"""The places of messages as an owner has them, beside those of the model."""

from __future__ import annotations

from node.queue.dispatch import QueueOwner
from node.queue.operations import OWNER
from node.ranges.range_set import RangeSet
from tests.queue.model_queue import DEAD, GONE, HELD, READY, SCHEDULED, ModelQueue, ranges_of


def check_places(owner: QueueOwner, queue: ModelQueue, dead_before: list[int]) -> None:
    """`dead_before` are the dead messages that are gone without a call of the owner."""
    delivery = owner.delivery
    scheduled = RangeSet() if delivery.scheduled is None else RangeSet(delivery.scheduled.all())
    places = ((READY, delivery.ready), (HELD, delivery.held), (SCHEDULED, scheduled))
    for place, found in places:
        assert list(found.ranges()) == ranges_of(queue.at(place))
        assert len(found) == len(queue.at(place))
    for holder in (OWNER, 5, 6, 7):
        assert list(delivery.leases.get(holder, RangeSet()).ranges()) == ranges_of(queue.at(holder))
    living = {number: message for number, message in queue.messages.items() if message.place != GONE}
    soft = [number for number, message in living.items() if message.soft]
    assert list(delivery.soft.numbers.ranges()) == ranges_of(soft)
    kept = [n for first, run in delivery.soft.runs(0, queue.next) for n in range(first, first + run.count)]
    assert kept == soft
    durable = [number for number, message in living.items() if not message.soft]
    assert list(queue.state.alive.ranges()) == ranges_of(durable)
    redelivered = [n for n, message in living.items() if message.redelivered and message.place != DEAD]
    shown = delivery.redelivered.without(ranges_of(dead_before))
    assert list(shown.ranges()) == ranges_of(redelivered)
