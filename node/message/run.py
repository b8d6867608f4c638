"""The unit in which messages travel: a run of publishes that share everything but their content.

A channel published the messages of a run in one piece of input, with the same exchange and flags, and mostly
with the same routing key. A run keeps the frames as the publisher sent them: header and body frames of a
publish go to the consumer as they came, so a delivery is a slice of octets.

A priority queue delivers small pieces of many runs. `gather` joins the pieces, in the order of delivery, so
that they make one delivery.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile
from operator import sub
from struct import Struct
from typing import Final

from node.ranges.range_set import Range

OWN_METHODS: Final = -1
"""The `skip` of a run whose messages state their routing keys each in a method frame of its own length."""

_PAYLOAD: Final = Struct(">3xI")
"""The size of a frame's payload, behind the frame's type and channel (0-9-1 §4.2.3)."""

_FRAME_OVERHEAD: Final = 8
"""The octets of a frame around its payload."""


@dataclass(init=False, slots=True)
class Run:
    """`count` messages, end to end in `raw`.

    Each message is `skip` octets, which readers skip, and then the message in its format. In AMQP 0-9-1 the
    octets to skip are a basic.publish method frame, and the message is one content header frame and any
    number of content body frames, whose channel number is `channel`. `node.wire.amqp10.message_format` tells
    what they are in AMQP 1.0. Where all messages have the same length in octets, `stride` is that length and
    `lengths` is None; otherwise `stride` is 0 and `lengths` has the length of each message.
    Where the routing keys differ, `routing_key` is None and `skip` is OWN_METHODS: the method frame of each
    message states its key, `MessageFormat.routing_keys` reads the keys, and `lengths` is not None.
    `largest_frame` is the size in octets of the largest frame in the run, end octet included.
    `special`: each message has properties that ask something of its queues (see `PropertyChecks`); in a run
    that is not special no message has.
    `format` is the octet of the messages' format, as publish operations state it (`node.wire.formats`).
    """

    exchange: Final[str]
    routing_key: Final[str | None]
    channel: Final[int]
    persistent: Final[bool]
    count: Final[int]
    skip: Final[int]
    stride: Final[int]
    lengths: Final[array[int] | None]
    largest_frame: Final[int]
    raw: Final[bytes | memoryview]
    special: Final[bool]
    format: Final[int]
    # The index behind the last slice, and the offset in `raw` at which that message begins: slices are mostly
    # taken one behind the other.
    _behind: int = field(init=False, repr=False, compare=False)
    _offset: int = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        exchange: str,
        routing_key: str | None,
        channel: int,
        persistent: bool,
        count: int,
        skip: int,
        stride: int,
        lengths: array[int] | None,
        largest_frame: int,
        raw: bytes | memoryview,
        special: bool = False,
        format: int = 0,
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.channel = channel
        self.persistent = persistent
        self.count = count
        self.skip = skip
        self.stride = stride
        self.lengths = lengths
        self.largest_frame = largest_frame
        self.raw = raw
        self.special = special
        self.format = format
        self._behind = self._offset = 0

    def slice(self, first: int, count: int) -> Run:
        """The `count` messages from index `first` on. The slice shares the octets of this run.

        To take a run apart from its first message to its last looks at the length of each message twice at
        most, however many slices these are.
        """
        if first == 0 and count == self.count:
            return self
        view = memoryview(self.raw)
        if self.lengths is None:
            lengths = None
            piece = view[first * self.stride : (first + count) * self.stride]
        else:
            known = self._behind if self._behind <= first else 0
            start = sum(self.lengths[known:first]) + (self._offset if known else 0)
            lengths = self.lengths[first : first + count]
            end = start + sum(lengths)
            piece = view[start:end]
            self._behind, self._offset = first + count, end
        return Run(
            self.exchange,
            self.routing_key,
            self.channel,
            self.persistent,
            count,
            self.skip,
            self.stride,
            lengths,
            self.largest_frame,
            piece,
            self.special,
            self.format,
        )

    def each_length(self) -> array[int]:
        """The length of each message, also where all have the same."""
        return array("I", (self.stride,)) * self.count if self.lengths is None else self.lengths

    def contents(self) -> Iterator[bytes]:
        """The content frames of each message, in order."""
        start = 0
        for length in self.each_length():
            skip = self.skip if self.skip >= 0 else method_octets(self.raw, start)
            yield bytes(self.raw[start + skip : start + length])
            start += length


def method_octets(raw: bytes | memoryview, at: int) -> int:
    """The octets of the method frame at `at`, with which a message of a run with OWN_METHODS begins."""
    size: int = _PAYLOAD.unpack_from(raw, at)[0]
    return size + _FRAME_OVERHEAD


class StoredRun:
    """A run with the sequence numbers `first` to `last`. `offsets` has the offset in `raw` at which each
    message begins, and the offset behind the last one.
    """

    __slots__ = ("first", "last", "offsets", "run")

    def __init__(self, first: int, run: Run) -> None:
        self.first = first
        self.last = first + run.count - 1
        self.run = run
        self.offsets = list(accumulate(run.each_length(), initial=0))


class Gathered:
    """Messages of runs that differ in nothing but their contents, to be joined into one run."""

    __slots__ = ("_joined", "_kind", "_largest", "lengths", "pieces", "ranges")

    def __init__(self) -> None:
        self.ranges: list[Range] = []
        self.pieces: list[bytes | memoryview] = []
        self.lengths = array("I")
        self._kind: Run | None = None
        # The first numbers of the stored runs that have joined.
        self._joined: set[int] = set()
        self._largest = 0

    def takes(self, stored: StoredRun) -> bool:
        """Whether the run's messages can join these. True obliges the caller to add some of them."""
        if stored.first in self._joined:
            return True
        run = stored.run
        if self._kind is not None and _kind(run) != _kind(self._kind):
            return False
        self._kind = run
        self._joined.add(stored.first)
        self._largest = max(self._largest, run.largest_frame)
        return True

    def add(self, stored: StoredRun, first: int, last: int) -> None:
        """Add messages of a run that was taken."""
        offsets = stored.offsets
        low, high = first - stored.first, last - stored.first + 1
        self.ranges.append((first, last))
        self.pieces.append(stored.run.raw[offsets[low] : offsets[high]])
        if first == last:
            self.lengths.append(offsets[high] - offsets[low])
        else:
            self.lengths.extend(map(sub, offsets[low + 1 : high + 1], offsets[low:high]))

    def run(self) -> Run:
        """One run of all messages, in the order in which they were added."""
        kind = self._kind
        assert kind is not None
        return Run(
            kind.exchange,
            kind.routing_key,
            kind.channel,
            kind.persistent,
            len(self.lengths),
            kind.skip,
            0,
            self.lengths,
            self._largest,
            b"".join(self.pieces),
            kind.special,
            kind.format,
        )


def _kind(run: Run) -> tuple[str, str | None, int, bool, int, bool, int]:
    return (
        run.exchange,
        run.routing_key,
        run.channel,
        run.persistent,
        run.skip,
        run.special,
        run.format,
    )


class Sources:
    """The stored runs found so far. Messages of the next priority are mostly in the same runs."""

    __slots__ = ("_find", "_firsts", "_known")

    def __init__(self, find: Callable[[int], StoredRun]) -> None:
        self._find = find
        self._firsts: list[int] = []
        self._known: list[StoredRun] = []

    def holding(self, number: int) -> StoredRun:
        """The stored run that has the message with this sequence number."""
        i = bisect_right(self._firsts, number)
        if i and self._known[i - 1].last >= number:
            return self._known[i - 1]
        found = self._find(number)
        self._firsts.insert(i, found.first)
        self._known.insert(i, found)
        return found


def gather(ranges: list[Range], find: Callable[[int], StoredRun]) -> list[tuple[list[Range], Run]]:
    """The messages of the ranges, in that order, as few runs, each with its ranges.

    `find` gives the stored run that has a sequence number.
    """
    sources = Sources(find)
    one = Gathered()
    found = [one]
    stored: StoredRun | None = None
    for first, last in ranges:
        while first <= last:
            if stored is None or not stored.first <= first <= stored.last:
                stored = sources.holding(first)
                if not one.takes(stored):
                    one = Gathered()
                    one.takes(stored)
                    found.append(one)
            end = min(last, stored.last)
            one.add(stored, first, end)
            first = end + 1
    return [(one.ranges, one.run()) for one in found]


def joined(runs: list[Run]) -> Run:
    """One run of the messages of several runs, which differ in nothing but their contents."""
    first = runs[0]
    if len(runs) == 1:
        return first
    lengths = array("I")
    for run in runs:
        lengths.extend(run.each_length())
    return replace(
        first,
        count=len(lengths),
        stride=0,
        lengths=lengths,
        raw=b"".join([run.raw for run in runs]),
        largest_frame=max(run.largest_frame for run in runs),
    )


def fitting_messages(run: Run, octets: int) -> int:
    """How many messages of the run fit into `octets`; one always fits, unless `octets` is 0."""
    if len(run.raw) <= octets:
        return run.count
    count = sum(1 for _ in takewhile(octets.__ge__, accumulate(run.each_length())))
    return max(count, 1) if octets > 0 else 0
