"""The subscription of one reader of a stream: tells the owner how far the reader has settled all messages."""

from __future__ import annotations

from functools import partial
from typing import Any

from cluster.gateway.link import Links, PartitionLink
from cluster.peers.link_messages import NOTHING_TO_GET
from node.ranges.range_set import Range, RangeSet


class Reading:
    """The messages that one reader has got and not settled.

    The owner is told of a new place when it has answered the place before, so a fast reader makes one
    operation of the log for many messages. A place that is lost with its owner or this node makes the next
    reader of the subscription get messages again, and miss none.
    """

    __slots__ = ("_arguments", "_front", "_last", "_link", "_links", "_no_ack", "_told")

    def __init__(
        self, links: Links, link: PartitionLink, queue: int, subscription: bytes, no_ack: bool
    ) -> None:
        """`no_ack`: a message is settled when it is delivered."""
        self._links, self._link, self._no_ack = links, link, no_ack
        self._arguments = (*NOTHING_TO_GET, queue, subscription)
        self._front = RangeSet()
        self._last = 0
        self._told: int | None = 0
        """The place of which the owner was told last; None while its answer is awaited."""

    def delivered(self, first: int, last: int) -> None:
        """The reader gets messages."""
        self._last = last
        if self._no_ack:
            self._tell()
        else:
            self._front.add(first, last)

    def passed(self, last: int) -> None:
        """The filter of the reader takes no message up to this one."""
        self._last = last
        self._tell()

    def settled(self, ranges: list[Range]) -> None:
        """The reader has settled messages."""
        self._front.remove_all(ranges)
        self._tell()

    def _tell(self) -> None:
        """Tell the owner of a new place, unless it has not answered yet."""
        oldest = self._front.first
        place = self._last if oldest is None else oldest - 1
        if self._told is not None and place > self._told:
            self._told = None
            told = partial(self._answered, place)
            self._links.request(self._link, "advance", [*self._arguments, place], told)

    def _answered(self, place: int, _value: Any, _: object) -> None:
        self._told = place
        self._tell()
