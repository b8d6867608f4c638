"""Reads the rows of a view from one owner, page by page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cluster.gateway.link import Links
from cluster.gateway.refusals import refusal_of
from cluster.peers.link_messages import NOTHING_TO_GET
from node.refusal import NotFoundError, Refusal
from node.session.ports import QueueRef
from node.session.view_port import UNKNOWN_VERSION, ViewVersion

MOST_ROWS: Final = 100_000
"""With so many rows a reading ends: all of them are in memory."""

OF_PART: Final = [True, True]
"""The last arguments of a question about the rows of one part of a queue with several owners."""

_KEYED: Final = [True]
"""The last argument of a question for keys. Owners of earlier releases know no such argument."""


class PagesRead(NamedTuple):
    """An owner's rows of a view. `told` are the names of the fields, or of a part the digest of the view's
    terms. `rows` is None where they have the version that was asked about; `cut`: there are more of them.
    `transfers`: see `cluster.owner.views.ask_view`.
    """

    version: ViewVersion
    behind: int
    awaited: bool
    at_once: bool
    cut: bool
    told: Any
    rows: list[list[Any]] | None
    transfers: int


TakePages = Callable[[PagesRead | None, Refusal | None], None]
"""Takes the rows, or a refusal."""


class ViewReading:
    """One reading of a view at one owner."""

    def __init__(
        self,
        links: Links,
        queue: QueueRef,
        name: str,
        answer: TakePages,
        *,
        keyed: bool = False,
        part: bool = False,
        most: int = MOST_ROWS,
    ) -> None:
        """`part`: the queue is a part of one with several owners. With `most` rows the reading ends."""
        self._links, self._queue, self._name, self._answer = links, queue, name, answer
        self._more = OF_PART if part else _KEYED if keyed else []
        self._rows, self._most = list[list[Any]](), most
        self._first: ViewVersion | None = None

    def begin(self, known: ViewVersion, wait_ms: int) -> None:
        """Read the rows, where they have the version `known` up to `wait_ms` milliseconds later."""
        self._ask(0, known, wait_ms)

    def _ask(self, behind: int, known: ViewVersion, wait_ms: int) -> None:
        asked = [self._queue.id, self._name, behind, known.term, known.number, wait_ms]
        arguments = [*NOTHING_TO_GET, *asked, *self._more]
        self._links.request(self._links.to(self._queue.partition), "view", arguments, self._answered)

    def _answered(self, value: Any, _: object) -> None:
        refusal = refusal_of(self._queue, value)
        if value is None:
            refusal = NotFoundError(f"no view '{self._name}' over {self._queue}")
        if refusal is not None:
            self._answer(None, refusal)
            return
        term, number, behind, awaited, told, rows, last, *more = value
        version = ViewVersion(term, number)
        if self._first is not None and term != self._first.term:
            # The rows of another owner have other numbers.
            self._rows, self._first = [], None
            self._ask(0, UNKNOWN_VERSION, 0)
            return
        transfers = more[0] if more else 0
        if rows is None:
            self._answer(PagesRead(version, behind, awaited, True, False, told, None, transfers), None)
            return
        self._first = self._first or version
        self._rows += rows
        if last and len(self._rows) < self._most:
            self._ask(last, UNKNOWN_VERSION, 0)
            return
        at_once = version == self._first
        found = PagesRead(version, behind, awaited, at_once, bool(last), told, self._rows, transfers)
        self._answer(found, None)
