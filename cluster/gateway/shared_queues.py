"""Requests of clients about queues with several owners, which concern all parts of the queue.

Requests about a queue with one owner go to that owner as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from cluster.gateway.browsing import BEGINNING, Bookmark, Shown
from cluster.gateway.gets import Gets
from cluster.gateway.owner_requests import Browsed, OwnerRequests
from cluster.gateway.queue_placing import QueuePlacing
from node.refusal import NotFoundError, PreconditionFailedError, Refusal
from node.session.ports import ConsumerOptions, Got, QueueCounts, QueueRef, TakeGot

TakeCounts = Callable[[QueueCounts, Refusal | None], None]
TakePurged = Callable[[int, Refusal | None], None]

FILTERED: Final = "a consumer with a filter, of its own or of its rights"
ALONE: Final = "each owner knows the consumers of its part alone"
EACH_ALONE: Final = "each owner sees the messages of its part alone"
RENUMBERED: Final = "a message that one owner lends to another has another bookmark there"
NOT_EVERYWHERE: Final = (
    "a node of the cluster runs a release whose owners do not lend by filter; upgrade all nodes first"
)
AHEAD_OF_BARRIERS: Final = "an owner with barriers lends its oldest messages alone"


class SharedQueues:
    """The requests of one front end's sessions."""

    def __init__(
        self, placing: QueuePlacing, requests: OwnerRequests, gets: Gets, known: Callable[[], bool]
    ) -> None:
        """`known`: whether all members lend the messages that a filter takes."""
        self._placing, self._requests, self._gets, self._known = placing, requests, gets, known

    def refuse(self, queue: QueueRef, what: str, why: str) -> None:
        """Raises PreconditionFailedError where the queue has several owners: they do not carry `what` out,
        because of `why`.
        """
        if self._placing.shared(queue):
            raise PreconditionFailedError(
                f"{what} is not carried out for {queue}, which has several owners: {why}"
            )

    def consumed(self, queue: QueueRef, options: ConsumerOptions) -> QueueRef:
        """The part to which a new consumer of this node is attached. Raises PreconditionFailedError for a
        consumer that would have to see all parts, for one with a filter beside barriers, and for one with a
        filter, or with other terms, which a member does not know.
        """
        if self._placing.shared(queue):
            early = not self._known()
            wanted = (
                ("an exclusive consumer", options.exclusive, ALONE),
                (FILTERED, options.filter and early, NOT_EVERYWHERE),
                (FILTERED, options.filter and self._placing.has_barriers(queue), AHEAD_OF_BARRIERS),
                ("browsing", options.browse, EACH_ALONE),
                ("a consumer that is told bookmarks", options.tells, RENUMBERED),
                ("another queue, or other terms, of a consumer", options.replaces and early, NOT_EVERYWHERE),
            )
            for what, asked, why in wanted:
                if asked:
                    self.refuse(queue, what, why)
        return self._placing.nearest(queue)

    def count(self, queue: QueueRef, answer: TakeCounts) -> None:
        """Answers how many messages and consumers the parts of the queue have."""
        parts = self._placing.parts(queue)
        if len(parts) == 1:
            self._requests.count(parts[0], answer)
            return
        counting = _Sum(len(parts), answer)
        for part in parts:
            self._requests.count(part, counting.counted)

    def purge(self, queue: QueueRef, answer: TakePurged) -> None:
        """Remove the messages of all parts that are ready. Answers how many these were."""
        parts = self._placing.parts(queue)
        if len(parts) == 1:
            self._requests.purge(parts[0], answer)
            return
        purging = _Sum(len(parts), lambda counts, refusal: answer(counts.ready, refusal))
        for part in parts:
            self._requests.purge(part, purging.purged)

    def browse(self, queue: QueueRef, behind: Bookmark, wanted: int, filter: bytes, answer: Browsed) -> None:
        """Look at the messages of all parts, one part after the other; see `OwnerRequests.browse`. A page has
        messages of one part. At the beginning the answer counts the ready messages of all parts. A message
        that is lent from part to part meanwhile is shown twice, or is not shown.
        """
        parts = sorted(self._placing.parts(queue), key=lambda one: one.id)
        if len(parts) == 1:
            self._requests.browse(parts[0], behind, wanted, filter, answer)
            return
        left = [one for one in parts if one.id >= behind.part]
        looking = _Look(self._requests, wanted, filter, answer)
        if behind == BEGINNING:
            self.count(queue, partial(looking.counted, left))
        else:
            looking.at(left, behind)

    def get(self, queue: QueueRef, no_ack: bool, answer: TakeGot, filter: bytes) -> None:
        """Get a message that a filter takes, of the nearest part that has one; an empty filter takes all."""
        self._get_next(self._placing.parts(queue), no_ack, answer, filter, None, None)

    def _get_next(
        self,
        parts: Sequence[QueueRef],
        no_ack: bool,
        answer: TakeGot,
        filter: bytes,
        got: Got | None,
        refusal: Refusal | None,
    ) -> None:
        if isinstance(refusal, NotFoundError) and parts:
            # A part that comes or goes: its owner may not have it yet, or any more.
            refusal = None
        if got is not None or refusal is not None or not parts:
            answer(got, refusal)
        else:
            going_on = partial(self._get_next, parts[1:], no_ack, answer, filter)
            self._gets.get(parts[0], no_ack, going_on, filter)


class _Look:
    """Looks at the first part that has a message to show."""

    def __init__(self, requests: OwnerRequests, wanted: int, filter: bytes, answer: Browsed) -> None:
        self._requests, self._wanted, self._filter, self._answer = requests, wanted, filter, answer
        self._ready = 0

    def counted(self, parts: Sequence[QueueRef], counts: QueueCounts, refusal: Refusal | None) -> None:
        self._ready = counts.ready
        if refusal is not None:
            self._answer(0, [], refusal)
        else:
            self.at(parts, BEGINNING)

    def at(self, parts: Sequence[QueueRef], behind: Bookmark) -> None:
        """Look at these parts, behind a place in one of them or from their beginnings on."""
        if not parts:
            self._answer(self._ready, [], None)
            return
        part = parts[0]
        begin = behind if behind.part == part.id else BEGINNING
        looked = partial(self._looked, parts)
        self._requests.browse(part, begin, self._wanted, self._filter, looked)

    def _looked(self, parts: Sequence[QueueRef], _: int, shown: list[Shown], refusal: Refusal | None) -> None:
        if isinstance(refusal, NotFoundError):
            # A part that comes or goes: its owner may not have it yet, or any more.
            refusal = None
        if refusal is not None:
            self._answer(0, [], refusal)
        elif shown:
            part = parts[0].id
            placed = [one._replace(place=one.place._replace(part=part)) for one in shown]
            self._answer(self._ready, placed, None)
        else:
            self.at(parts[1:], BEGINNING)


class _Sum:
    """Adds up the answers of the parts. The first refusal counts, but for that of parts that come or go: the
    owner may not have such a part yet, or any more.
    """

    def __init__(self, parts: int, answer: TakeCounts) -> None:
        self._awaited, self._answer = parts, answer
        self._counts = list[QueueCounts]()
        self._refusal, self._absent = list[Refusal](), list[Refusal]()

    def counted(self, counts: QueueCounts, refusal: Refusal | None) -> None:
        self._awaited -= 1
        self._counts.append(counts)
        if refusal is not None:
            (self._absent if isinstance(refusal, NotFoundError) else self._refusal).append(refusal)
        if not self._awaited:
            if len(self._absent) == len(self._counts):
                self._refusal += self._absent
            columns = (
                sum(one.ready for one in self._counts),
                sum(one.consumers for one in self._counts),
                sum(one.leased for one in self._counts),
                sum(one.scheduled for one in self._counts),
            )
            self._answer(QueueCounts(*columns), self._refusal[0] if self._refusal else None)

    def purged(self, count: int, refusal: Refusal | None) -> None:
        self.counted(QueueCounts(count, 0, 0), refusal)
