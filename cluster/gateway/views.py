"""Reads the rows of views from the owners of their queues, page by page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cluster.catalog.membership.formats import Formats
from cluster.catalog.state import CatalogState
from cluster.gateway.link import Links
from cluster.gateway.view_pages import PagesRead, ViewReading
from cluster.gateway.views_of_parts import PartsReading, PartWatches
from node.refusal import NotFoundError, NotImplementedRefusal, Refusal
from node.session.ports import QueueRef
from node.session.view_port import TakeRows, ViewRows, ViewVersion


class FrontEndViews:
    """Implements `node.session.view_port.ViewPort`."""

    def __init__(
        self,
        state: CatalogState,
        links: Links,
        queue: Callable[[str, str, int], QueueRef],
        formats: Formats,
    ) -> None:
        """`queue` is `node.session.ports.BrokerPort.queue`."""
        self._state, self._links = state, links
        self._queue, self._formats = queue, formats
        self._watches = PartWatches(links)

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
        if keyed and not self._formats.know_row_keys():
            raise NotImplementedRefusal("upgrade all nodes first: one runs a release without links to views")
        parts = self._parts(queue)
        defined = self._state.views.get(vhost, view)
        if len(parts) > 1 and defined is not None:
            reading = PartsReading(self._links, self._watches, parts, defined.terms(), answer, keyed=keyed)
            reading.begin(known, wait_ms)
            return
        done = partial(_answer_of_one, answer, keyed)
        ViewReading(self._links, queue, view, done, keyed=keyed).begin(known, wait_ms)

    def _parts(self, queue: QueueRef) -> list[QueueRef]:
        """The parts of a queue with several owners, in the order of their numbers; none of another queue."""
        defined = self._state.queues_by_id.get(queue.id)
        found = [] if defined is None else self._state.owner_parts.of(defined)
        ordered = sorted(found, key=lambda one: one.id)
        return [QueueRef(queue.name, one.partition, one.id, queue.vhost) for one in ordered]


def _answer_of_one(answer: TakeRows, keyed: bool, read: PagesRead | None, refusal: Refusal | None) -> None:
    """The answer of the one owner of a queue."""
    if read is None:
        answer(None, refusal)
        return
    fields, rows = read.told, read.rows
    if rows is None:
        same = ViewRows(read.version, read.behind, read.awaited, True, False, fields, [], unchanged=True)
        answer(same, None)
        return
    keys = [row[len(fields) :] for row in rows] if keyed else []
    shown = [row[: len(fields)] for row in rows] if keyed else rows
    found = ViewRows(read.version, read.behind, read.awaited, read.at_once, read.cut, fields, shown, keys)
    answer(found, None)
