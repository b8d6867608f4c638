"""Prefetch in octets (§3.1.7, basic.qos prefetch-size): a bound on the octets of unsettled message bodies.

"The server will send a message in advance if it is equal to or smaller in size than the available
prefetch size." RabbitMQ answers 540 to any prefetch-size; quorate carries it out. A message larger than the
whole window is sent when no other message of the window is unsettled, because it could never be sent
otherwise.

Only channels whose client asked for such a limit have an `OctetWindows`, so other channels pay nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from node.delivery.credit import ChannelConsumer, Credits
from node.ranges.range_set import Numbers

SIZE_OCTETS: Final = 192
"""Octets of memory for the record of one delivery's size."""


class OctetWindows:
    """The window of each consumer of a channel, and the one that they share. A limit of 0 is no limit.

    Messages delivered before the client set its first limit are in no window.
    """

    __slots__ = ("_credits", "_sizes", "channel_limit", "in_flight")

    def __init__(self, credits: Credits) -> None:
        self._credits = credits
        self.channel_limit = 0
        self.in_flight = 0
        self._sizes: dict[tuple[int, int], int] = {}

    def fitting(self, consumer: ChannelConsumer, sizes: Iterable[int]) -> int:
        """How many messages of these sizes (in octets), from the first on, fit into both windows.

        While a message that did not fit is on its way back to its queue, no message behind it fits: the
        consumer would get them out of order.
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
        """The channel has delivered messages with these sizes (in octets) and sequence numbers."""
        known = len(self._sizes)
        for sequence, size in zip(numbers, sizes, strict=True):
            self._sizes[consumer.number, sequence] = size
            consumer.octets_in_flight += size
            self.in_flight += size
        self._credits.record_octets += SIZE_OCTETS * (len(self._sizes) - known)

    def settled(self, consumer: ChannelConsumer, number: int, numbers: Numbers) -> None:
        """The client has settled the messages with these sequence numbers, which came when the consumer had
        the number `number`.
        """
        known = len(self._sizes)
        for sequence in numbers:
            size = self._sizes.pop((number, sequence), 0)
            consumer.octets_in_flight -= size
            self.in_flight -= size
        self._credits.record_octets -= SIZE_OCTETS * (known - len(self._sizes))

    def clear(self) -> None:
        """The channel is closed."""
        self._credits.record_octets -= SIZE_OCTETS * len(self._sizes)
        self._sizes.clear()

    def messages(self, consumer: ChannelConsumer) -> int:
        """How many further messages probably fit, by the mean size of the consumer's messages so far.

        A guess that is too high costs little: the message that does not fit goes back to its queue, and the
        consumer has no credit until that message fits.
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
