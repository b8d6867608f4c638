"""The places of named readers in a stream: a part of the replicated state of the stream (D17, F8).

A subscription is the name under which a client reads a stream, and reads on later, at any node. Its place is
the number of the message up to which the client has settled everything. The place never goes back. Retention
waits for a subscription with a *max lag*, a reader, until it is further behind than that
(docs/decisions/0079).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from node.ranges.range_set import RangeSet

MOST_SUBSCRIPTIONS: Final = 1024
"""The most subscriptions of a stream. A subscription without a max lag that is behind the oldest message of
the stream makes room for another one: both begin with the oldest message.
"""

LAST_LAG: Final = (1 << 64) - 1
"""The highest limit of a max lag."""

_FEED: Final = b"\xff"
"""The first octet of the places of feeds. Clients name subscriptions in UTF-8, which does not have it."""

_FED = Struct("<Q")

_COUNT = Struct("<I")
_PLACE = Struct("<QB")
_PASSED = Struct("<QQI")
_READER = Struct("<BQQQBQ")

_AHEAD, _COUNTED, _VAGUE = 0, 1, 2
"""Of a reader in a snapshot: retention has not passed it; it has, and the messages in front of the reader are
counted; or there are so many at least.
"""


def feed_place(queue: int) -> bytes:
    """The name of a stream's place for a queue of another partition: the number of the first message that
    the owner of the stream has not sent there (`cluster.owner.feeding`).
    """
    return _FEED + _FED.pack(queue)


def queue_of_feed(name: bytes) -> int | None:
    """The queue of a place with a name by `feed_place`; None for other places."""
    return _FED.unpack(name[1:])[0] if name[:1] == _FEED and len(name) == 1 + _FED.size else None


class MaxLag(NamedTuple):
    """How far a reader may be behind the end of its stream: messages, octets of log entries, and milliseconds
    since the owner took the oldest message that is not read. 0: no limit of the kind. Retention waits for the
    reader as long as all limits are kept.
    """

    messages: int = 0
    octets: int = 0
    milliseconds: int = 0


class Advance(NamedTuple):
    """A subscription has read a stream up to a message. With the number 0 the stream forgets it."""

    queue: int
    subscription: bytes
    number: int


class MakeReader(NamedTuple):
    """A subscription has a max lag from now on. `number`: its place, where the stream does not have it."""

    queue: int
    subscription: bytes
    number: int
    max_lag: MaxLag


class RetentionPassed(NamedTuple):
    """Retention is about to remove `messages` messages of a stream, the last of which has a number."""

    queue: int
    number: int
    messages: int


class Loss(NamedTuple):
    """The messages of a stream behind a reader's place that retention has removed: at most so many. `exact`:
    as many as that.
    """

    messages: int
    exact: bool


NO_LOSS: Final = Loss(0, True)


class Subscriptions:
    """The places of a stream's subscriptions by name. `max_lags` are those of readers. `passed` is the number
    of messages that retention has removed, since every node counts them: all with numbers above
    `counted_behind`.
    """

    __slots__ = ("_in_front", "_places", "_vague", "counted_behind", "max_lags", "passed")

    def __init__(self) -> None:
        self._places: dict[bytes, int] = {}
        self.max_lags: dict[bytes, MaxLag] = {}
        self.passed = self.counted_behind = 0
        # Of readers that retention has passed: the messages up to the reader's place, counted as `passed` is.
        # Of vague ones there are so many at least.
        self._in_front: dict[bytes, int] = {}
        self._vague: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._places)

    def __bool__(self) -> bool:
        return bool(self._places or self.passed)

    @property
    def has_readers(self) -> bool:
        """Whether the state is one that releases without readers do not know."""
        return bool(self.max_lags or self.passed)

    def place(self, name: bytes) -> int | None:
        """The place of a subscription; None for one that has read nothing."""
        return self._places.get(name)

    def names(self) -> Iterator[bytes]:
        """The subscriptions, in their order."""
        return (name for name in sorted(self._places) if name[:1] != _FEED)

    def feeds(self) -> list[int]:
        """The queues of other partitions for which the stream has places."""
        return [queue for name in self._places if (queue := queue_of_feed(name)) is not None]

    def readers(self) -> Iterator[tuple[bytes, int, MaxLag]]:
        """(name, place, max lag) of each subscription that retention waits for."""
        return ((name, self._places[name], max_lag) for name, max_lag in self.max_lags.items())

    def ahead_of(self, mark: int) -> list[bytes]:
        """The readers whose place retention has not passed, which has come to the message `mark`."""
        return [name for name in self.max_lags if self._places[name] >= mark]

    def lost(self, name: bytes, mark: int) -> Loss:
        """The messages that a subscription misses where retention has come to the message `mark`."""
        place = self._places[name]
        if place >= mark:
            return NO_LOSS
        most = self.most_lost(place, mark)
        in_front = self._in_front.get(name)
        if in_front is None:
            return Loss(most, False)
        lost = self.passed - in_front
        return Loss(min(lost, most), False) if name in self._vague else Loss(lost, True)

    def most_lost(self, place: int, mark: int) -> int:
        """A bound for the messages behind a place that retention has removed, which has come to `mark`."""
        # Each message has a number of its own, of which queues of the partition, and terms, have some.
        numbers = mark - place
        return min(numbers, self.passed) if place >= self.counted_behind else numbers

    def advance(self, step: Advance, mark: int) -> None:
        """Carry out a step. Retention has come to the message `mark`."""
        name = step.subscription
        if not step.number:
            self._places.pop(name, None)
            self.max_lags.pop(name, None)
            self._in_front.pop(name, None)
            self._vague.discard(name)
        elif step.number > self._places.get(name, -1):
            self._places[name] = step.number
            if name in self._in_front and step.number < mark:
                self._vague.add(name)
            elif name in self._in_front:
                del self._in_front[name]
                self._vague.discard(name)

    def make_reader(self, step: MakeReader) -> None:
        """Give a subscription a max lag."""
        self._places.setdefault(step.subscription, step.number)
        self.max_lags[step.subscription] = step.max_lag

    def retention_passed(self, step: RetentionPassed, mark: int, alive: RangeSet) -> None:
        """Retention is about to remove messages of those that are `alive`. It had come to `mark`."""
        if not self.passed:
            self.counted_behind = mark
        for name in self.max_lags:
            place = self._places[name]
            if mark <= place < step.number:
                self._in_front[name] = self.passed + alive.count_in(1, place) if place else self.passed
        self.passed += step.messages

    def stale(self, oldest: int) -> list[bytes]:
        """The subscriptions without a max lag that are behind the oldest message."""
        places = self._places.items()
        old = (name for name, place in places if place < oldest and name not in self.max_lags)
        return [name for name in old if name[:1] != _FEED]

    # -- snapshots ------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """The places."""
        parts = [_COUNT.pack(len(self._places))]
        for name, place in sorted(self._places.items()):
            parts += (_PLACE.pack(place, len(name)), name)
        return b"".join(parts)

    def encode_readers(self) -> bytes:
        """The count of removed messages, and the max lags of readers."""
        parts = [_PASSED.pack(self.passed, self.counted_behind, len(self.max_lags))]
        for name, max_lag in sorted(self.max_lags.items()):
            in_front = self._in_front.get(name)
            known = _AHEAD if in_front is None else _VAGUE if name in self._vague else _COUNTED
            parts += (_READER.pack(len(name), *max_lag, known, in_front or 0), name)
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int) -> tuple[Subscriptions, int]:
        """The inverse of `encode`, and the offset behind it. Raises struct.error when malformed."""
        found = cls()
        (count,) = _COUNT.unpack_from(data, offset)
        offset += _COUNT.size
        for _ in range(count):
            place, size = _PLACE.unpack_from(data, offset)
            offset += _PLACE.size
            found._places[data[offset : offset + size]] = place
            offset += size
        return found, offset

    def decode_readers(self, data: bytes, offset: int) -> int:
        """Take what `encode_readers` has written, and return the offset behind it. Raises ValueError or
        struct.error when malformed.
        """
        self.passed, self.counted_behind, count = _PASSED.unpack_from(data, offset)
        offset += _PASSED.size
        for _ in range(count):
            size, messages, octets, milliseconds, known, counted = _READER.unpack_from(data, offset)
            start = offset + _READER.size
            offset = start + size
            name = data[start:offset]
            if name not in self._places:
                raise ValueError("a reader without a place")
            self.max_lags[name] = MaxLag(messages, octets, milliseconds)
            if known != _AHEAD:
                self._in_front[name] = counted
            if known == _VAGUE:
                self._vague.add(name)
        return offset
