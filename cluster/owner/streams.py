"""Finds the place at which a reader of a stream begins, from which on the reader browses, and logs the places
of subscriptions.
"""

from __future__ import annotations

from cluster.owner.state import OwnerState
from cluster.peers.link_messages import NOT_FOUND, TOO_MANY_SUBSCRIPTIONS
from node.message.streams import OffsetKind, StreamOffset
from node.queue.decision_format import encode_advance
from node.queue.delivery_state import DeliveryState
from node.queue.operations import Aspect
from node.queue.subscriptions import MOST_SUBSCRIPTIONS, Advance


def place_of(delivery: DeliveryState, offset: StreamOffset, upto: int, now_ms: int) -> int:
    """The number of a message behind which a reader begins. `upto` is the last number that the owner has
    given away, `now_ms` the time in milliseconds since the epoch.
    """
    match offset.kind:
        case OffsetKind.FIRST:
            return 0
        case OffsetKind.LAST:
            newest = delivery.state.alive.last
            return upto if newest is None else newest - 1
        case OffsetKind.NUMBER:
            # As on RabbitMQ, a place behind the end of the stream is its end.
            return min(max(0, offset.value - 1), upto)
        case OffsetKind.TIME | OffsetKind.AGE:
            since = offset.value if offset.kind is OffsetKind.TIME else max(0, now_ms - offset.value)
            first = delivery.annotations.logged(Aspect.ARRIVAL).first_from(since)
            return upto if first is None else first - 1
    return upto


def tell_place(owner: OwnerState, number: int, offset: StreamOffset, subscription: bytes) -> list[object]:
    """The answer to a reader that asks where it begins: the number behind which that is, or a refusal."""
    queue, upto = owner.queues.get(number), owner.next_sequence - 1
    if queue is None:
        return [*NOT_FOUND]
    if subscription and not has_room(owner, number, subscription):
        return [*TOO_MANY_SUBSCRIPTIONS]
    if offset.kind is not OffsetKind.MOST_RECENT:
        return [place_of(queue.delivery, offset, upto, owner.wall_ms())]
    known = queue.delivery.state.subscriptions
    place = None if known is None else known.place(subscription)
    # The log of the stream may have been replaced by one that ends before the place.
    return [min(place or 0, upto)]


def advance(owner: OwnerState, number: int, subscription: bytes, place: int) -> None:
    """A subscription has read a stream up to a message."""
    queue = owner.queues.get(number)
    if queue is not None and 0 < place < owner.next_sequence and has_room(owner, number, subscription):
        owner.operation(encode_advance(Advance(number, subscription, place)))


def has_room(owner: OwnerState, number: int, subscription: bytes) -> bool:
    """Whether the stream has the subscription, or room for it, which a stale one may make."""
    state = owner.queues[number].delivery.state
    known = state.subscriptions
    if known is None or known.place(subscription) is not None or len(known) < MOST_SUBSCRIPTIONS:
        return True
    stale = known.stale(state.alive.first or owner.next_sequence)
    if stale:
        owner.operation(encode_advance(Advance(number, stale[0], 0)))
    return bool(stale)
