"""The unit in which messages travel: a run of publishes that share everything but their content.

A run is what one channel published in one piece of input with the same exchange, routing key and
flags. Its content is kept as the frames that the publisher sent, so that a delivery is a matter of
slicing bytes (design: "Header and body frames of a publish go to the consumer as they came").
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(init=False, slots=True)
class Run:
    """`count` messages, end to end in `raw`.

    Each message is `skip` octets of basic.publish method frame, which nobody needs any more,
    followed by one content header frame and any number of content body frames whose channel
    number is `channel`. Where every message has the same length, `stride` is that length and
    `lengths` is None; otherwise `stride` is 0 and `lengths` holds each message's length.
    `largest_frame` is the size in octets of the largest frame in the run, end octet included.
    `special`: the messages' properties ask for something (see `PropertyChecks`), all of them or none.
    `format` is the octet of the messages' format, as the publish operation has it: `node.wire.formats`.
    """

    exchange: Final[str]
    routing_key: Final[str]
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

    def __init__(
        self,
        exchange: str,
        routing_key: str,
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

    def slice(self, first: int, count: int) -> Run:
        """The `count` messages from index `first` on, sharing this run's bytes."""
        if first == 0 and count == self.count:
            return self
        view = memoryview(self.raw)
        if self.lengths is None:
            lengths = None
            piece = view[first * self.stride : (first + count) * self.stride]
        else:
            start = sum(self.lengths[:first])
            lengths = self.lengths[first : first + count]
            size = sum(lengths)
            piece = view[start : start + size]
        return Run(
            self.exchange, self.routing_key, self.channel, self.persistent,
            count, self.skip, self.stride, lengths, self.largest_frame, piece, self.special,
            self.format,
        )  # fmt: skip

    def contents(self) -> Iterator[bytes]:
        """The content frames of each message, in order."""
        start = 0
        for length in self.lengths if self.lengths is not None else [self.stride] * self.count:
            yield bytes(self.raw[start + self.skip : start + length])
            start += length
