"""Prefetch in octets (§3.1.7, basic.qos prefetch-size): what unsettled message bodies may amount to.

"The server will send a message in advance if it is equal to or smaller in size than the available
prefetch size." RabbitMQ answers 540 to any prefetch-size; here it is done. A message larger than the
whole window is sent when nothing else of the window is unsettled, or it could never be sent.

Only channels that asked for such a limit have this object: deliveries of others cost nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from node.delivery.credit import ChannelConsumer, Credits
from node.ranges.numbers import Numbers

SIZE_OCTETS: Final = 192
"""Octets of memory for the record of one delivery's size."""


class OctetWindows:
    """The windows of a channel's consumers and, shared by all of them, of the channel; 0 for no limit.

    Messages delivered before the first limit was set are in no window.
    """

    __slots__ = ("_credits", "_sizes", "channel_limit", "in_flight")

    def __init__(self, credits: Credits) -> None:
        self._credits = credits
        self.channel_limit = 0
        self.in_flight = 0
        self._sizes: dict[tuple[int, int], int] = {}

    def fitting(self, consumer: ChannelConsumer, sizes: Iterable[int]) -> int:
        """How many messages of these sizes, from the first on, fit into both windows one after the other.

        Once one has gone back because it did not fit, none does that was on its way behind it.
        """
        if consumer.awaited_octets and consumer.returnable:
            return 0
        mine, all_ = consumer.octets_in_flight, self.in_flight
        fit = 0
        for size in sizes:
            if not (_fits(consumer.octet_limit, mine, size) and _fits(self.channel_limit, all_, size)):
                consumer.awaited_octets = size
                return fit
            fit += 1
            mine += size
            all_ += size
        return fit

    def sent(self, consumer: ChannelConsumer, sizes: Iterable[int], numbers: Numbers) -> None:
        """Messages of these sizes were delivered; these are their sequence numbers."""
        known = len(self._sizes)
        for sequence, size in zip(numbers, sizes, strict=True):
            self._sizes[consumer.number, sequence] = size
            consumer.octets_in_flight += size
            self.in_flight += size
        self._credits.record_octets += SIZE_OCTETS * (len(self._sizes) - known)

    def settled(self, consumer: ChannelConsumer, numbers: Numbers) -> None:
        """The client is done with messages of these sequence numbers."""
        known = len(self._sizes)
        for sequence in numbers:
            size = self._sizes.pop((consumer.number, sequence), 0)
            consumer.octets_in_flight -= size
            self.in_flight -= size
        self._credits.record_octets -= SIZE_OCTETS * (known - len(self._sizes))

    def clear(self) -> None:
        """The channel is gone."""
        self._credits.record_octets -= SIZE_OCTETS * len(self._sizes)
        self._sizes.clear()

    def messages(self, consumer: ChannelConsumer) -> int:
        """How many more messages to ask for, judged by the mean size of those that came.

        One too many costs little: it goes back to its queue, and no more are asked for before it fits.
        """
        room = min(
            _room(consumer.octet_limit, consumer.octets_in_flight),
            _room(self.channel_limit, self.in_flight),
        )
        empty = not consumer.octets_in_flight and not self.in_flight
        if room < consumer.awaited_octets and not empty:
            return 0
        consumer.awaited_octets = 0
        mean = consumer.octets // consumer.received if consumer.received else room
        return max(1, room // max(1, mean)) if room > 0 or empty else 0


_UNLIMITED = 1 << 62


def _room(limit: int, used: int) -> int:
    return max(0, limit - used) if limit else _UNLIMITED


def _fits(limit: int, used: int, size: int) -> bool:
    return not limit or not used or used + size <= limit
