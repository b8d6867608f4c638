"""Removals of messages that front ends have got by basic.get without acknowledgement. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.owner.intake import Taking
from node.queue.dispatch import QueueOwner
from node.queue.entry_format import encode_settle
from node.queue.operations import Operation, Settle
from node.ranges.range_set import Range, count_of


def take_removal(taking: Taking, front_end: int, share: Sequence[Operation]) -> bool:
    """Remove messages that a front end has got. Returns False, and changes nothing, where another client has
    a message, or has had it.

    An owner that takes a front end for lost gives its messages to other clients. A front end that greets
    sends its removals before its consumers are attached again, so the owner has not given it a message twice.
    """
    owner = taking.owner
    settlements = [one for one in share if type(one) is Settle]
    for one in settlements:
        queue = owner.queues.get(one.queue)
        if queue is None or not all(_is_there(queue, front_end, part, one.token) for part in one.ranges):
            return False
    for one in settlements:
        queue = owner.queues[one.queue]
        # The get counted them as delivered without acknowledgement, so they do not count as acknowledged.
        durable = queue.lifecycle.settle(front_end, one.ranges, one.token).durable
        if durable:
            taking.keep(encode_settle(one.queue, durable))
        if queue.lifecycle.passes_on:
            owner.mark(one.queue)
    return True


def _is_there(queue: QueueOwner, front_end: int, messages: Range, token: int) -> bool:
    """Whether each message of a range is leased to the front end, with a `token` under that lease, or to none
    as far as this owner knows.
    """
    first, last = messages
    delivery = queue.delivery
    if delivery.settleable(front_end, [messages], token) != [messages]:
        return False
    places = (delivery.leases.get(front_end), delivery.held, delivery.ready, delivery.scheduled)
    found = [part for place in places if place is not None for part in place.intersection(first, last)]
    return count_of(found) == last - first + 1
