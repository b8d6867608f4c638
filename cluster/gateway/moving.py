"""Moves and copies messages that wait in a queue to another queue, some at a time.

One transaction publishes messages in the other queue, and settles them in theirs. So a message is in one of
the two, whatever is lost: see `node.queue.transaction_operations.MOVES`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from cluster.gateway.commits import Commits, PartitionShares, Share
from cluster.gateway.link import Links
from cluster.gateway.state import TakeAnswer, unanswered
from cluster.peers.link_messages import NOTHING_TO_GET, Delivery, Ranges
from node.delivery.deeds import Became, MoveTarget
from node.delivery.settlements import NO_TOKEN, Outcome
from node.message.run import Run
from node.queue.entry_format import read_run
from node.ranges.range_set import RangeSet, count_of
from node.refusal import Refusal
from node.session.ports import QueueRef

MOST_AT_ONCE: Final = 1024
"""One transaction moves so many messages at most."""

Moved = Callable[[Any], None]
"""Takes the ranges of messages by what became of them, as rows, or the owner's refusal."""


class Moving:
    """The moves, or copies, of one request of a client."""

    def __init__(
        self, links: Links, commits: Commits, queue: QueueRef, target: MoveTarget, *, copies: bool
    ) -> None:
        self._links, self._commits = links, commits
        self._queue, self._target, self._copies = queue, target, copies
        self._left = RangeSet()
        self._became: dict[Became, RangeSet] = {}
        self._most = MOST_AT_ONCE
        # The message that has been refused alone.
        self._refused = 0
        self._moved: Moved = _forget

    def move(self, ranges: Ranges, moved: Moved) -> None:
        """Move the messages that wait, in their order. The others are left as `Became.LEASED`."""
        self._left, self._moved = RangeSet(ranges), moved
        self._became = {
            one: RangeSet() for one in (Became.SETTLED, Became.LEASED, Became.REFUSED, Became.LEFT)
        }
        self._show()

    def _note(self, became: Became, ranges: Ranges) -> None:
        self._became[became].update(ranges)
        self._left.remove_all(ranges)

    def _finish(self) -> None:
        self._moved([[int(one), list(ranges.ranges())] for one, ranges in self._became.items() if ranges])

    def _show(self) -> None:
        if not self._left:
            self._finish()
            return
        self._ask(list(self._left.ranges()), self._most, self._shown)

    def _ask(self, ranges: Ranges, wanted: int, answered: TakeAnswer) -> None:
        """Ask for messages that wait, and reserve them for a move."""
        link = self._links.to(self._queue.partition)
        arguments = [*NOTHING_TO_GET, self._queue.id, ranges, wanted, not self._copies]
        self._links.request(link, "show_waiting", arguments, answered)

    def _shown(self, value: Any, _: Delivery | None) -> None:
        if not isinstance(value[0], list):
            self._moved(value)
            return
        rows, behind = value
        runs = [(first, read_run(data, 0)) for first, data in rows]
        shown = RangeSet((first, first + run.count - 1) for first, run in runs)
        looked = [(first, min(last, behind - 1) if behind else last) for first, last in self._left.ranges()]
        missing = RangeSet((first, last) for first, last in looked if first <= last)
        missing.remove_all(list(shown.ranges()))
        self._note(Became.LEASED, list(missing.ranges()))
        if runs:
            self._commit(runs, list(shown.ranges()))
        else:
            self._show()

    def _commit(self, runs: list[tuple[int, Run]], ranges: Ranges) -> None:
        shares: PartitionShares = {}
        share = shares.setdefault(self._links.to(self._target.partition), Share())
        share.publishes += [(run, [self._target.queue]) for _, run in runs]
        if not self._copies:
            share = shares.setdefault(self._links.to(self._queue.partition), Share())
            share.settled.append((self._queue.id, Outcome.ACCEPTED, NO_TOKEN, b"", ranges))
        self._commits.commit(shares, partial(self._committed, ranges), moves=True)

    def _committed(self, ranges: Ranges, refusal: Refusal | None) -> None:
        """Some messages have moved, or one of the queues has refused all of them: then fewer are tried."""
        if refusal is None:
            self._most = min(MOST_AT_ONCE, 2 * self._most)
            self._note(Became.SETTLED, ranges)
        elif (count := count_of(ranges)) > 1:
            self._most = count // 2
        elif self._refused != ranges[0][0]:
            # A consumer may have got the message meanwhile.
            self._refused = ranges[0][0]
        else:
            self._note(Became.REFUSED, ranges)
            self._note(Became.LEFT, list(self._left.ranges()))
            # Consumers need not wait until the owner lets the reservation go.
            self._ask([], 0, unanswered)
        self._show()


def _forget(_: Any) -> None:
    """Nothing is to be moved yet."""
