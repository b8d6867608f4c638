"""The consumers of a session, by the numbers that the broker knows them by."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from node.ranges.numbers import Range
from node.session.ports import BrokerPort

Released = Callable[[], None]

Unsettled = Iterable[tuple[int, list[Range]]]
"""(consumer, ranges) of deliveries that a client has not settled, in the order of delivery."""

KEPT: Final = 16
"""Consumers that a channel has had, from which on those that have ended are looked for."""


@dataclass(slots=True)
class ChannelConsumers:
    """Those of one channel, ended ones too: what they were given may still be settled."""

    numbers: set[int] = field(default_factory=set)
    look_at: int = KEPT


class SessionConsumers:
    """By channel. `in_use` tells which of a channel's consumers go on, or have left something to settle."""

    def __init__(self, port: BrokerPort, in_use: Callable[[int], Collection[int]]) -> None:
        self._port = port
        self._in_use = in_use
        self._by_channel: dict[int, ChannelConsumers] = {}

    def __len__(self) -> int:
        return sum(len(one.numbers) for one in self._by_channel.values())

    def started(self, channel: int, consumer: int) -> None:
        """The channel is about to have a further consumer. It may have any number, one after the other.

        Those that have ended and have left nothing to settle are forgotten.
        """
        mine = self._by_channel.setdefault(channel, ChannelConsumers())
        if len(mine.numbers) >= mine.look_at:
            ended = mine.numbers.difference(self._in_use(channel))
            mine.numbers -= ended
            mine.look_at = max(KEPT, 2 * len(mine.numbers))
            for number in ended:
                self._port.forget(number)
        mine.numbers.add(consumer)

    def channel_closed(self, channel: int, unsettled: Unsettled, done: Released) -> None:
        """What its consumers have not settled goes back to the queues.

        `done` is called once the queues are gone that go with their last consumer.
        """
        mine = self._by_channel.pop(channel, None)
        self._end(() if mine is None else mine.numbers, unsettled, done)

    def connection_closed(self, unsettled: Unsettled, done: Released) -> None:
        """As `channel_closed`, of all channels."""
        every = [number for one in self._by_channel.values() for number in one.numbers]
        self._by_channel.clear()
        self._end(every, unsettled, done)

    def came_late(self, consumer: int) -> None:
        """The connection was closed before the consumer could begin."""
        self._end((consumer,), [], nothing)

    def _end(self, numbers: Collection[int], unsettled: Unsettled, done: Released) -> None:
        countdown = _Countdown(len(numbers) + 1, done)
        for number in numbers:
            self._port.cancel(number, countdown.one_less)
        for number, ranges in unsettled:
            self._port.give_back(number, ranges, True)
        for number in numbers:
            self._port.forget(number)
        countdown.one_less()


class _Countdown:
    """Calls `done` when the last of so many is through."""

    def __init__(self, left: int, done: Released) -> None:
        self._left = left
        self._done = done

    def one_less(self) -> None:
        self._left -= 1
        if not self._left:
            self._done()


def nothing() -> None:
    """No client waits for that."""
