"""Reads the rows of a view from the owner of its queue, page by page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster.catalog.state import CatalogState
from cluster.gateway.link import Links
from cluster.gateway.refusals import refusal_of
from cluster.peers.link_messages import NOTHING_TO_GET
from node.refusal import NotFoundError, NotImplementedRefusal
from node.session.ports import QueueRef
from node.session.view_port import UNKNOWN_VERSION, TakeRows, ViewRows, ViewVersion

MOST_ROWS: Final = 100_000
"""With so many rows a reading ends: all of them are in memory."""


class FrontEndViews:
    """Implements `node.session.view_port.ViewPort`."""

    def __init__(
        self,
        state: CatalogState,
        links: Links,
        queue: Callable[[str, str, int], QueueRef],
        know_keys: Callable[[], bool],
    ) -> None:
        """`queue` is `node.session.ports.BrokerPort.queue`. `know_keys`: whether all members tell keys of
        rows.
        """
        self._state, self._links, self._queue, self._know_keys = state, links, queue, know_keys

    def queue_of(self, vhost: str, view: str) -> str:
        """The queue under a view. Raises NotFoundError."""
        found = self._state.views.get(vhost, view)
        if found is None:
            raise NotFoundError(f"no view '{view}' in vhost '{vhost}'")
        return found.queue

    def read(
        self,
        vhost: str,
        view: str,
        holder: int,
        known: ViewVersion,
        wait_ms: int,
        answer: TakeRows,
        *,
        keyed: bool = False,
    ) -> None:
        """See `node.session.view_port.ViewPort`. Raises NotImplementedRefusal as stated there."""
        queue = self._queue(vhost, self.queue_of(vhost, view), holder)
        if keyed and not self._know_keys():
            raise NotImplementedRefusal("upgrade all nodes first: one runs a release without links to views")
        ViewReading(self._links, queue, view, answer, keyed=keyed).begin(known, wait_ms)


class ViewReading:
    """One reading of a view."""

    def __init__(self, links: Links, queue: QueueRef, name: str, answer: TakeRows, *, keyed: bool) -> None:
        self._links, self._queue, self._name, self._answer = links, queue, name, answer
        self._keyed = [True] if keyed else []
        """Owners of earlier releases know no such argument."""
        self._rows = list[list[Any]]()
        self._first: ViewVersion | None = None

    def begin(self, known: ViewVersion, wait_ms: int) -> None:
        """Read the rows, where they have the version `known` up to `wait_ms` milliseconds later."""
        self._ask(0, known, wait_ms)

    def _ask(self, behind: int, known: ViewVersion, wait_ms: int) -> None:
        arguments = [*NOTHING_TO_GET, self._queue.id, self._name, behind, *known, wait_ms, *self._keyed]
        self._links.request(self._links.to(self._queue.partition), "view", arguments, self._answered)

    def _answered(self, value: Any, _: object) -> None:
        refusal = refusal_of(self._queue, value)
        if value is None:
            refusal = NotFoundError(f"no view '{self._name}' over {self._queue}")
        if refusal is not None:
            self._answer(None, refusal)
            return
        term, number, behind, awaited, fields, rows, last = value
        version = ViewVersion(term, number)
        if self._first is not None and term != self._first.term:
            # The rows of another owner have other numbers.
            self._rows, self._first = [], None
            self._ask(0, UNKNOWN_VERSION, 0)
            return
        if rows is None:
            self._answer(ViewRows(version, behind, awaited, True, False, fields, [], unchanged=True), None)
            return
        self._first = self._first or version
        self._rows += rows
        if last and len(self._rows) < MOST_ROWS:
            self._ask(last, UNKNOWN_VERSION, 0)
            return
        at_once, rows = version == self._first, self._rows
        keys = [row[len(fields) :] for row in rows] if self._keyed else []
        shown = [row[: len(fields)] for row in rows] if self._keyed else rows
        self._answer(ViewRows(version, behind, awaited, at_once, bool(last), fields, shown, keys), None)
