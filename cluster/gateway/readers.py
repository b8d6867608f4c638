"""The readers of streams, on the front end's side (docs/decisions/0079)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.catalog.membership.formats import Formats
from cluster.gateway.link import Links
from cluster.peers.link_messages import NOTHING_TO_GET, Delivery
from cluster.peers.reader_requests import (
    ADVANCE_READER,
    FORGET_READER,
    MAKE_READER,
    READER_REQUEST,
    SHOW_READERS,
)
from node.message.streams import StreamOffset
from node.session.ports import QueueRef

TellReader = Callable[[list[Any]], None]
"""Takes the owner's answer (`cluster.peers.reader_requests`), or a refusal: a reply code and its reason."""


class FrontEndReaders:
    """Requests about readers, which are answered in a later turn, also after failovers of the owner."""

    def __init__(self, links: Links, formats: Formats) -> None:
        self._links, self._formats = links, formats

    @property
    def known(self) -> bool:
        """Whether all members of the cluster have readers."""
        return self._formats.know_readers()

    def make(
        self,
        stream: QueueRef,
        name: bytes,
        begin: StreamOffset,
        max_lag: tuple[int, int, int],
        answer: TellReader,
    ) -> None:
        """Make a reader that begins at `begin`, or give a reader another max lag: messages, octets,
        milliseconds (`node.queue.subscriptions.MaxLag`).
        """
        self._ask(stream, [MAKE_READER, name, int(begin.kind), begin.value, *max_lag], answer)

    def advance(self, stream: QueueRef, name: bytes, position: int, answer: TellReader) -> None:
        """A reader has read everything in front of a position."""
        self._ask(stream, [ADVANCE_READER, name, position], answer)

    def forget(self, stream: QueueRef, name: bytes, answer: TellReader) -> None:
        """Forget a reader."""
        self._ask(stream, [FORGET_READER, name], answer)

    def show(self, stream: QueueRef, answer: TellReader) -> None:
        """Show the readers of a stream."""
        self._ask(stream, [SHOW_READERS], answer)

    def _ask(self, stream: QueueRef, what: list[Any], answer: TellReader) -> None:
        def answered(value: Any, _: Delivery | None) -> None:
            answer(value)

        arguments = [*NOTHING_TO_GET, stream.id, *what]
        self._links.request(self._links.to(stream.partition), READER_REQUEST, arguments, answered)
