"""The consumers of a session, by channel, under the broker's numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from node.delivery.unsettled import UnsettledRanges
from node.session.ports import BrokerPort

Released = Callable[[], None]

KEPT: Final = 16
"""With so many consumers in its list a channel looks for ended ones, and forgets them."""


@dataclass(slots=True)
class ChannelConsumers:
    """The consumers of one channel, with ended ones, whose deliveries the client may still settle."""

    numbers: set[int] = field(default_factory=set)
    look_at: int = KEPT
    """The length of `numbers` from which on ended consumers are looked for."""


class SessionConsumers:
    """The consumers of a session. `in_use` gives the numbers of a channel's consumers that have not ended, or
    that have unsettled deliveries.
    """

    def __init__(self, port: BrokerPort, in_use: Callable[[int], Collection[int]]) -> None:
        self._port = port
        self._in_use = in_use
        self._by_channel: dict[int, ChannelConsumers] = {}

    def __len__(self) -> int:
        return sum(len(one.numbers) for one in self._by_channel.values())

    def started(self, channel: int, consumer: int) -> None:
        """Add a consumer to a channel, and forget consumers that have ended and have no unsettled deliveries:
        a client may start and end any number of consumers on one channel.
        """
        mine = self._by_channel.setdefault(channel, ChannelConsumers())
        if len(mine.numbers) >= mine.look_at:
            ended = mine.numbers.difference(self._in_use(channel))
            mine.numbers -= ended
            mine.look_at = max(KEPT, 2 * len(mine.numbers))
            for number in ended:
                self._port.forget(number)
        mine.numbers.add(consumer)

    def channel_closed(self, channel: int, unsettled: UnsettledRanges, done: Released) -> None:
        """End the channel's consumers, and return their unsettled deliveries to the queues.

        `done` is called when the auto-delete queues that lose their last consumer are deleted.
        """
        mine = self._by_channel.pop(channel, None)
        self._end(() if mine is None else mine.numbers, unsettled, done)

    def connection_closed(self, unsettled: UnsettledRanges, done: Released) -> None:
        """As `channel_closed`, for all channels."""
        every = [number for one in self._by_channel.values() for number in one.numbers]
        self._by_channel.clear()
        self._end(every, unsettled, done)

    def came_late(self, consumer: int) -> None:
        """End a consumer that the broker has started after the connection was closed."""
        self._end((consumer,), [], nothing)

    def _end(self, numbers: Collection[int], unsettled: UnsettledRanges, done: Released) -> None:
        countdown = _Countdown(len(numbers) + 1, done)
        for number in numbers:
            self._port.cancel(number, countdown.one_less)
        for lease, ranges in unsettled:
            self._port.abandon(lease, ranges)
        for number in numbers:
            self._port.forget(number)
        countdown.one_less()


class _Countdown:
    """Calls `done` after `one_less` has been called `left` times."""

    def __init__(self, left: int, done: Released) -> None:
        self._left = left
        self._done = done

    def one_less(self) -> None:
        self._left -= 1
        if not self._left:
            self._done()


def nothing() -> None:
    """For calls whose end no client waits for."""
