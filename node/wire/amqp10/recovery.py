"""Deliveries that outlive their link (part 2, section 2.6.13; part 3, section 3.5.5, unsettled-state).

The tag of such a delivery is the number of the message in its queue, so that every node knows a delivery by
its tag. When the link is attached again, the peer tells the deliveries that it has not settled, with the
outcomes that it has reached:

the queue has the message for the link   the peer tells    the node
no                                       anything          leaves the tag out: the peer may forget it
yes                                      an outcome        settles it, then attaches, and leaves the tag out
yes                                      no outcome        sends the message again, with the flag resume
yes                                      nothing           sends the message again, as a new delivery
"""

from __future__ import annotations

from typing import Final

from node.ranges.range_set import RangeSet, numbers_of
from node.wire.amqp10.definitions import Received, Transfer
from node.wire.amqp10.field_readers import CompositeField

TAG_OCTETS: Final = 8

FIRST_FRAME_OCTETS: Final = 72
"""At least the octets of a transfer's fields in front of the payload, in the first frame of a delivery."""

_ATTACH_OCTETS: Final = 256
"""Octets of an attach without its unsettled map, about."""

FROM_BEGINNING: Final = Received(0, 0)
"""The state of a message of which the peer may have any part, or none."""

_ENTRY_OCTETS: Final = TAG_OCTETS + 2 + len(FROM_BEGINNING.encode())
"""Octets of an unsettled delivery in an attach."""


class Recovery:
    """The deliveries of one link on which the node sends."""

    __slots__ = ("_most", "_resumed", "_unsettled")

    def __init__(self, unsettled: RangeSet, resumed: set[int], max_frame_size: int) -> None:
        """`unsettled` are the messages that the link has had before and that have no outcome yet. The peer
        has told the `resumed` ones of them.
        """
        self._unsettled, self._resumed = unsettled, resumed
        # An unsettled map stands in one frame.
        self._most = max(1, (max_frame_size - _ATTACH_OCTETS) // _ENTRY_OCTETS)

    def room(self, unsettled: int) -> int:
        """How many further deliveries the link may have, which has so many unsettled ones."""
        return max(0, self._most - unsettled)

    def told(self) -> dict[bytes, CompositeField | None]:
        """The unsettled map of the node's attach. The node can send each message again from its beginning
        (part 3, section 3.4.6).
        """
        return {delivery_tag(number): FROM_BEGINNING for number in numbers_of(list(self._unsettled.ranges()))}

    def transfer(self, handle: int, delivery_id: int, number: int, more: bool) -> Transfer:
        """The first frame of a delivery."""
        resumed = number in self._resumed
        self._resumed.discard(number)
        tag = delivery_tag(number)
        state = FROM_BEGINNING if resumed else None
        return Transfer(handle, delivery_id, tag, 0, settled=False, more=more, state=state, resume=resumed)


def number_of(tag: bytes) -> int:
    """The number of the message whose delivery has this tag; 0 for a tag that is none of the node's."""
    return int.from_bytes(tag, "big") if len(tag) == TAG_OCTETS else 0


def delivery_tag(number: int) -> bytes:
    """The tag of the delivery of a message."""
    return number.to_bytes(TAG_OCTETS, "big")
