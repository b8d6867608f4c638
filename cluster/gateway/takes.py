"""The takes of readers, on the front end's side (docs/decisions/0078)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.catalog.membership.formats import Formats
from cluster.gateway.link import Links
from cluster.peers.link_messages import NOTHING_TO_GET, Delivery
from cluster.peers.take_requests import HELD, RELEASE, SETTLE_TAKES, SHOW_TAKES, TAKE, TAKE_REQUEST
from node.session.ports import QueueRef

TellTake = Callable[[list[Any]], None]
"""Takes the owner's answer (`cluster.peers.take_requests`), or a refusal: a reply code and its reason."""


class FrontEndTakes:
    """The requests of one front end's clients. They are answered at once or in a later turn, also after
    failovers of the owner.
    """

    def __init__(self, links: Links, formats: Formats) -> None:
        self._links, self._formats = links, formats

    @property
    def known(self) -> bool:
        """Whether all members of the cluster hold messages for readers."""
        return self._formats.know_takes()

    @property
    def end(self) -> bool:
        """Whether all members take the end of a take."""
        return self._formats.know_ends_of_takes()

    def take(
        self,
        queue: QueueRef,
        reader: bytes,
        number: int,
        rows: int,
        octets: int,
        answer: TellTake,
        *,
        end: int = 0,
    ) -> None:
        """Hold up to `rows` messages under a number, or tell those that are held; with `octets`, messages
        whose entries have about so many octets; with `end`, messages in front of this number.
        """

        def told(value: list[Any]) -> None:
            if value[0] == HELD:
                # The answer of another node has lists in the place of ranges.
                held, time, ranges = value
                value = [held, time, [(first, last) for first, last in ranges]]
            answer(value)

        self._ask(queue, [TAKE, reader, number, rows, octets, *([end] if end else [])], told)

    def settle(self, queue: QueueRef, reader: bytes, number: int, answer: TellTake) -> None:
        """Settle the messages of the takes up to a number."""
        self._ask(queue, [SETTLE_TAKES, reader, number], answer)

    def release(self, queue: QueueRef, reader: bytes, number: int, answer: TellTake) -> None:
        """Give the messages of the reader's takes back, and forget the reader. `number`: the last one that
        the reader has asked for; 0 for whatever reader has the name.
        """
        self._ask(queue, [RELEASE, reader, number], answer)

    def show(self, queue: QueueRef, answer: TellTake) -> None:
        """Show all readers of a queue."""
        self._ask(queue, [SHOW_TAKES, b""], answer)

    def _ask(self, queue: QueueRef, what: list[Any], answer: TellTake) -> None:
        def answered(value: Any, _: Delivery | None) -> None:
            answer(value)

        arguments = [*NOTHING_TO_GET, queue.id, *what]
        self._links.request(self._links.to(queue.partition), TAKE_REQUEST, arguments, answered)
