"""Requests of clients to the owner of a queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.catalog.membership.formats import Formats
from cluster.gateway.browsing import Bookmark, Shown, browse
from cluster.gateway.commits import Commits
from cluster.gateway.link import Links
from cluster.gateway.moving import Moving, ToQueue
from cluster.gateway.refusals import refusal_of
from cluster.gateway.routes import Routes
from cluster.gateway.settling import NamedSettling
from cluster.gateway.undoing import Undoing
from cluster.peers.link_messages import NOTHING_TO_GET, Delivery, Ranges
from node.delivery.deeds import MoveTarget, Named
from node.delivery.settlements import NO_TOKEN
from node.queue.leasing import UNTOLD
from node.refusal import PreconditionFailedError, Refusal
from node.session.ports import NamedAnswer, QueueCounts, QueueRef, RenewalAnswer

Browsed = Callable[[int, list[Shown], Refusal | None], None]
"""Takes the number of ready messages, a page of them, and the refusal."""


class OwnerRequests:
    """The requests of one front end's sessions."""

    def __init__(self, links: Links, routes: Routes, commits: Commits, formats: Formats) -> None:
        self._links, self._routes, self._commits, self._formats = links, routes, commits, formats

    def ask(
        self,
        queue: QueueRef,
        name: str,
        arguments: list[Any],
        answer: Callable[[Any, Delivery | None, Refusal | None], None],
    ) -> None:
        """Send a request, whose first argument is the queue. `answer` gets a refusal if the owner refuses."""

        def answered(value: Any, delivery: Delivery | None) -> None:
            answer(value, delivery, refusal_of(queue, value))

        self._links.request(self._links.to(queue.partition), name, [queue.id, *arguments], answered)

    def purge(self, queue: QueueRef, answer: Callable[[int, Refusal | None], None]) -> None:
        """Remove the messages that are ready. Answers how many these were."""

        def purged(count: Any, _: Delivery | None, refusal: Refusal | None) -> None:
            answer(0 if refusal else count, refusal)

        def known(last: Any, _: Delivery | None) -> None:
            # The owner may be lost before it answers. The link then asks the next owner, which must not
            # remove messages published since: `last` bounds the purge. An owner of the release before does
            # not know that request.
            self.ask(queue, "purge", [last] if isinstance(last, int) else [], purged)

        link = self._links.to(queue.partition)
        self._links.request(link, "last", [*NOTHING_TO_GET, queue.id], known)

    def renew_leases(self, queue: QueueRef, ranges: Ranges, answer: RenewalAnswer) -> None:
        """See `node.session.ports.BrokerPort.renew_leases`."""

        def renewed(value: Any, _: Delivery | None) -> None:
            refusal = refusal_of(queue, value)
            until, messages = (UNTOLD, []) if refusal else value
            answer(until, [(first, last) for first, last in messages], refusal)

        # The owner of a release without ends of leases answers that there is no such queue.
        arguments = [*NOTHING_TO_GET, queue.id, ranges, NO_TOKEN]
        self._links.request(self._links.to(queue.partition), "renew", arguments, renewed)

    def settle_named(
        self, queue: QueueRef, named: Named, answer: NamedAnswer, topic: QueueRef | None
    ) -> None:
        """See `node.session.ports.BrokerPort.settle_named`. `topic` is the stream out of which messages come
        back; None for other deeds.
        """
        moving: Moving | Undoing | None = None
        if topic is not None:
            if not self._formats.know_undoing():
                answer(
                    {}, PreconditionFailedError("upgrade all nodes first: one runs a release without undo")
                )
                return
            moving = Undoing(self._links, queue, topic)
        elif named.target is not None:
            if not self._formats.know_moves():
                answer(
                    {}, PreconditionFailedError("upgrade all nodes first: one runs a release without moves")
                )
                return
            target = named.target
            if isinstance(target, MoveTarget):
                target = ToQueue(self._routes.find_place(target))
            moving = Moving(self._links, self._commits, queue, target, copies=named.deed.copies)
        cancels = self._formats.know_cancels()
        NamedSettling(self._links, queue, named, answer, cancels=cancels, moving=moving).go_on()

    def browse(self, queue: QueueRef, behind: Bookmark, wanted: int, filter: bytes, answer: Browsed) -> None:
        """Look at up to `wanted` messages behind a bookmark, those that a filter takes; an empty one takes
        all. Answers how many messages are ready, and a page; an empty page is the last.
        """

        def looked(ready: int, shown: list[Shown], value: Any) -> None:
            answer(ready, shown, refusal_of(queue, value))

        if filter and not self._formats.know_moves():
            answer(0, [], PreconditionFailedError("upgrade all nodes first: one has no queries"))
        else:
            browse(self._links, queue, behind, wanted, filter, looked)

    def count(self, queue: QueueRef, answer: Callable[[QueueCounts, Refusal | None], None]) -> None:
        """Answers how many messages and consumers the queue has."""

        def counted(value: Any, _: Delivery | None, refusal: Refusal | None) -> None:
            counts = QueueCounts(0, 0, 0) if refusal or value is None else QueueCounts(*value)
            answer(counts, refusal)

        self.ask(queue, "count", [], counted)
