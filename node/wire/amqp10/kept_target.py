"""A target that is kept with its unsettled deliveries (part 2, section 2.6.13; part 3, section 3.5.5).

The node settles such deliveries after the peer. A queue keeps their tags meanwhile. When the link is attached
again, the peer tells the deliveries that it has not settled:

the queue has the tag   the peer tells the delivery   the node
no                      yes                           leaves the tag out: the peer sends the delivery anew
yes                     yes                           tells the tag as accepted: the peer resumes and settles
yes                     no                            has the queue forget the tag: the peer has settled
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from node.wire.amqp10.definitions import Accepted
from node.wire.amqp10.field_readers import CompositeField

LONGEST_TAG: Final = 32
"""The octets of the longest tag (section 2.8.7)."""

_ENTRY_OCTETS: Final = LONGEST_TAG + 2 + len(Accepted().encode())
"""Most octets of an unsettled delivery in an attach."""

_ATTACH_OCTETS: Final = 512
"""Octets of an attach without its unsettled map, about."""


class KeptTarget:
    """The unsettled deliveries of a link, by number and tag. `number` is that of the target at the broker."""

    __slots__ = ("_committing", "_known", "_most", "_unsettled", "ended", "kept", "number")

    def __init__(self, number: int, known: Iterable[bytes], max_frame_size: int) -> None:
        """`known`: the tags that the queue has, and that the peer tells as unsettled."""
        self.number: Final = number
        self._known = dict.fromkeys(known)
        self._unsettled: dict[int, bytes] = {}
        # Deliveries of transactions that are discharged. The value: the peer has settled the delivery since.
        self._committing: dict[bytes, bool] = {}
        self.ended = False
        """Whether the link has ended."""
        self.kept = True
        """Whether the queue keeps the target, also when the link has ended."""
        # An unsettled map stands in one frame.
        self._most = max(2, (max_frame_size - _ATTACH_OCTETS) // _ENTRY_OCTETS)

    @property
    def room(self) -> int:
        """How many deliveries the peer may send: half as many unsettled ones as an attach can tell. The other
        half is for a peer that resumes all of them.
        """
        known, left = len(self._known), self._most - len(self._known) - len(self._unsettled)
        return max(0, left - (self._most + 1) // 2, min(known, left))

    @property
    def numbers(self) -> Iterable[int]:
        """The numbers of the deliveries on this link that the peer has not settled."""
        return self._unsettled.keys()

    def told(self) -> dict[bytes, CompositeField | None]:
        """The unsettled map of the node's attach."""
        return {tag: Accepted() for tag in self._known}

    def add(self, number: int, tag: bytes) -> None:
        """A delivery has come, whose tag the queue is to keep."""
        self._unsettled[number] = tag

    def tags_of(self, numbers: Iterable[int]) -> list[bytes]:
        """The tags of those deliveries that the peer has not settled."""
        return [self._unsettled[number] for number in numbers if number in self._unsettled]

    def discharged(self, tags: list[bytes]) -> None:
        """The transaction of these deliveries is discharged."""
        self._committing.update(dict.fromkeys(tags, False))

    def concluded(self, tags: list[bytes]) -> list[bytes]:
        """The transaction of these deliveries is committed, or has failed. Returns the tags of those that the
        peer has settled meanwhile.
        """
        return [tag for tag in tags if self._committing.pop(tag, False)]

    def resume(self, tag: bytes) -> bool:
        """The peer resumes a delivery. Returns whether the queue has it."""
        if tag not in self._known:
            return False
        del self._known[tag]
        return True

    def settle(self, first: int, last: int) -> list[bytes]:
        """The peer has settled the deliveries of a closed range. Returns the tags of those on the link, but
        those of discharged transactions: the queue may not have them yet.
        """
        unsettled = self._unsettled
        if last - first < len(unsettled):
            found = [number for number in range(first, last + 1) if number in unsettled]
        else:
            found = [number for number in unsettled if first <= number <= last]
        tags = [unsettled.pop(number) for number in found]
        if self._committing:
            self._committing.update(dict.fromkeys(self._committing.keys() & set(tags), True))
        return [tag for tag in tags if tag not in self._committing]
