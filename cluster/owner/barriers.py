"""Delivers the released barriers of a partition's queues to all their consumers
(`node.queue.features.barrier`). Pure.

A barrier stays in the log until the front ends of all consumers have told that they have it. A new owner
sends it again, and front ends drop what they have had.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cluster.owner.barriers_under_way import BarrierPlace
from cluster.owner.browsing import message_as_told
from cluster.owner.state import OwnerState
from cluster.peers.link_messages import FIRST_CONSUMER, Delivery
from node.delivery.settlements import BARRIER_TOKEN, BARRIERS_AT_ONCE
from node.queue.barrier_values import BarrierState
from node.queue.consumers import Consumer
from node.queue.decision_format import encode_annotate
from node.queue.dispatch import QueueOwner
from node.queue.entry_format import encode_settle
from node.queue.operations import BARRIERS, OWNER, Aspect
from node.queue.queue import NONE
from node.wire.formats import format_of


def release_barrier(owner: OwnerState, queue: int, number: int) -> None:
    """Every message before a barrier is settled: put its release into the log, behind the settlements. A
    barrier that is in no log is delivered at once.
    """
    place, barriers = (queue, number), owner.barriers
    if place in barriers.releasing or place in barriers.showing:
        return
    if barriers.count >= BARRIERS_AT_ONCE:
        barriers.full.add(queue)
        return
    if number in owner.queues[queue].delivery.soft.numbers:
        show_barrier(owner, queue, number)
        return
    barriers.releasing.add(place)
    owner.decision(encode_annotate(queue, Aspect.BARRIER, [(number, number, BarrierState.RELEASED)]))
    owner.proposal.committed.append(partial(_released, owner, queue, number))


def _released(owner: OwnerState, queue: int, number: int) -> None:
    owner.barriers.releasing.discard((queue, number))
    show_barrier(owner, queue, number)


def show_barrier(owner: OwnerState, queue: int, number: int) -> None:
    """Deliver a released barrier once all consumers of former owners are back."""
    place, barriers = (queue, number), owner.barriers
    if place not in barriers.showing and place not in barriers.waiting:
        barriers.showing.add(place)
        owner.front_ends.after_greetings(partial(_show, owner, queue, number))


def _show(owner: OwnerState, queue: int, number: int) -> None:
    place, found = (queue, number), owner.queues.get(queue)
    if place not in owner.barriers.showing:
        return
    owner.barriers.showing.discard(place)
    if found is None or not _is_there(found, number):
        # The message has been purged, or has expired, or a client has settled it by its bookmark.
        _release_more(owner)
        return
    delivery = found.delivery
    delivery.ready.remove(number, number)
    delivery.lease_of(BARRIERS).remove(number, number)
    delivery.lease_of(OWNER).add(number, number)
    outgoing = _deliveries(owner, place, found, lambda consumer: True)
    # A front end of this node answers while the barrier is being sent.
    owner.barriers.waiting[place] = set(outgoing) | owner.barriers.elsewhere.pop(place, set())
    owner.send(outgoing)
    if number in delivery.soft.numbers:
        del owner.barriers.waiting[place]
        _left(owner, queue, number)
    else:
        _look(owner, place)
    # The messages behind it may be delivered.
    owner.serve_again(queue)


def _is_there(queue: QueueOwner, number: int) -> bool:
    """Whether a queue has a barrier that is not sent yet."""
    delivery = queue.delivery
    ready = delivery.ready.intersection(number, number)
    return bool(ready) or number in delivery.leases.get(BARRIERS, NONE)


def _deliveries(
    owner: OwnerState, place: BarrierPlace, found: QueueOwner, wanted: Callable[[Consumer], bool]
) -> dict[int, list[Delivery]]:
    """The deliveries of a barrier to the wanted consumers whose filters take it, by front end."""
    queue, number = place
    _, run = message_as_told(owner, found, number, telling=False)
    messages, outgoing = format_of(run), dict[int, list[Delivery]]()
    _, _, properties = next(messages.properties_in(run))
    facts = messages.facts(run, properties)
    for key in found.delivery.consumers:
        consumer = found.delivery.consumers.get(*key)
        if consumer is None or consumer.number < FIRST_CONSUMER or not wanted(consumer):
            continue
        if consumer.selector is None or consumer.selector.takes(facts):
            told = Delivery(consumer.number, queue, [(number, number)], False, run, BARRIER_TOKEN)
            outgoing.setdefault(consumer.front_end, []).append(told)
            # Both sides count it among the consumer's messages, beyond the credit where there is none.
            found.delivery.consumers.given(consumer, 1)
    return outgoing


# -- the answers of front ends ------------------------------------------------------------------------


def barrier_received(owner: OwnerState, front_end: int, queue: int, number: int) -> None:
    """A front end has given a barrier to its consumers."""
    waiting = owner.barriers.waiting.get((queue, number))
    if waiting is not None:
        waiting.discard(front_end)
        _look(owner, (queue, number))


def barriers_lost(owner: OwnerState, front_end: int) -> None:
    """A front end is lost, and its consumers with it."""
    for place in list(owner.barriers.waiting):
        barrier_received(owner, front_end, *place)


def send_barriers_again(owner: OwnerState, front_end: int) -> None:
    """A front end has greeted anew: it may not have got what was on its way."""
    for place, waiting in list(owner.barriers.waiting.items()):
        found = owner.queues.get(place[0])
        if front_end in waiting and found is not None:
            outgoing = _deliveries(owner, place, found, lambda one: one.front_end == front_end)
            if outgoing:
                owner.send(outgoing)
            else:
                barrier_received(owner, front_end, *place)


def _look(owner: OwnerState, place: BarrierPlace) -> None:
    """Remove a barrier that all front ends have."""
    queue, number = place
    if owner.barriers.waiting.get(place, {0}):
        return
    del owner.barriers.waiting[place]
    if queue in owner.queues:
        owner.operation(encode_settle(queue, [(number, number)]))
        owner.proposal.committed.append(partial(_left, owner, queue, number))


def _left(owner: OwnerState, queue: int, number: int) -> None:
    """The barrier is out of its queue."""
    found = owner.queues.get(queue)
    if found is not None:
        found.lifecycle.settle(OWNER, [(number, number)])
        owner.mark(queue)
    _release_more(owner)


def _release_more(owner: OwnerState) -> None:
    """There is one barrier less on its way: serve the queues that wait for that."""
    for queue in owner.barriers.full:
        owner.mark(queue)
    owner.barriers.full.clear()
