"""Finds the place at which a reader of a stream begins. The reader browses from there on."""

from __future__ import annotations

from node.message.streams import OffsetKind, StreamOffset
from node.queue.delivery_state import DeliveryState
from node.queue.operations import Aspect


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
