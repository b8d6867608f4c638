"""Messages of a link that are published as one run."""

from __future__ import annotations

from array import array
from typing import Final

from node.message.run import Run
from node.wire.amqp10.links import IncomingLink
from node.wire.amqp10.transactions import Transaction

FORMAT_OCTET: Final = 1
"""The octet of the messages' format, as `node.wire.formats` has it."""


class Batch:
    """Messages of a link in a row whose frames are neighbours in the input, and alike but for contents."""

    __slots__ = (
        "begin",
        "data",
        "durable",
        "end",
        "exchange",
        "first_tag",
        "largest",
        "lengths",
        "link",
        "routing_key",
        "skip",
        "special",
        "tags",
        "transaction",
    )

    def __init__(
        self,
        link: IncomingLink,
        exchange: str,
        routing_key: str,
        data: bytes,
        begin: int,
        skip: int,
        first_tag: int,
        durable: bool,
        special: bool,
        transaction: Transaction | None,
    ) -> None:
        self.link = link
        self.exchange = exchange
        self.routing_key = routing_key
        self.data = data
        self.begin = self.end = begin
        self.skip = skip
        self.first_tag = first_tag
        self.durable = durable
        self.special = special
        self.transaction = transaction
        self.tags: list[bytes] = []
        """The tags of all deliveries, on a link whose target is kept; else empty."""
        self.lengths = array("I")
        self.largest = 0

    def run(self) -> Run:
        raw: bytes | memoryview = self.data
        if self.transaction is not None:
            # A view would keep the octets of the whole input in memory until the commit.
            raw = self.data[self.begin : self.end]
        elif self.begin or self.end < len(self.data):
            raw = memoryview(self.data)[self.begin : self.end]
        lengths = self.lengths
        alike = lengths == array("I", (lengths[0],)) * len(lengths)
        return Run(
            self.exchange,
            self.routing_key,
            0,
            self.durable,
            len(lengths),
            self.skip,
            lengths[0] if alike else 0,
            None if alike else lengths,
            self.largest,
            raw,
            self.special,
            FORMAT_OCTET,
        )
