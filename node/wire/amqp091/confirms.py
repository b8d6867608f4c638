"""Publisher confirms of one channel, in few frames for many messages.

The confirms of a turn are sent at its end. A range that begins directly behind all settled tags is one
basic.ack or basic.nack with `multiple`. A range behind a gap takes a frame for each message, because
`multiple` would include the gap.
"""

from __future__ import annotations

from struct import Struct

from node.wire.amqp091.codec import encode_method
from node.wire.amqp091.methods import BasicAck, BasicNack

_TAG = Struct(">Q")


class Confirms:
    """The settled tags of a channel. All tags up to `settled_to` are acknowledged or refused; `_ahead` has
    the
    settled ranges beyond, last tag by first tag.
    """

    __slots__ = ("_ahead", "_channel", "_due", "settled_to")

    def __init__(self, channel: int) -> None:
        self.settled_to = 0
        self._channel = channel
        self._ahead: dict[int, int] = {}
        self._due: list[tuple[int, int, bool]] = []

    @property
    def count(self) -> int:
        """The number of tags that frames have settled."""
        return self.settled_to + sum(last - first + 1 for first, last in self._ahead.items())

    def add(self, first: int, last: int, positive: bool) -> None:
        """Settle a closed range of tags, none of which is settled yet: acknowledged, or (`positive` False)
        refused.
        """
        due = self._due
        if due and due[-1][1] + 1 == first and due[-1][2] == positive:
            due[-1] = (due[-1][0], last, positive)
        else:
            due.append((first, last, positive))

    def take(self) -> bytes:
        """The frames for the ranges added since the last call."""
        if not self._due:
            return b""
        due, self._due = sorted(self._due), []
        joined = [due[0]]
        for first, last, positive in due[1:]:
            before = joined[-1]
            if before[1] + 1 == first and before[2] == positive:
                joined[-1] = (before[0], last, positive)
            else:
                joined.append((first, last, positive))
        return b"".join([self._frames(first, last, positive) for first, last, positive in joined])

    def _frames(self, first: int, last: int, positive: bool) -> bytes:
        if first == self.settled_to + 1:
            self.settled_to = last
            while self.settled_to + 1 in self._ahead:
                self.settled_to = self._ahead.pop(self.settled_to + 1)
            multiple = first != last
            method = BasicAck(last, multiple) if positive else BasicNack(last, multiple, requeue=False)
            return encode_method(self._channel, method)
        self._ahead[first] = last
        frame = encode_method(self._channel, BasicAck(0) if positive else BasicNack(0, requeue=False))
        cut = len(frame) - _TAG.size - 2
        before, after = frame[:cut], frame[cut + _TAG.size :]
        return b"".join([before + _TAG.pack(tag) + after for tag in range(first, last + 1)])
