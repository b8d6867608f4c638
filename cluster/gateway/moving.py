"""Moves and copies messages that wait in a queue to another queue, or publishes them anew, some at a time.

One transaction publishes messages in other queues, and settles them in theirs. So a message is in its own
queue or in the others, whatever is lost: see `node.queue.transaction_operations.MOVES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from cluster.gateway.commits import Commits, PartitionShares, Share
from cluster.gateway.link import Links
from cluster.gateway.routes import Targets
from cluster.gateway.state import TakeAnswer, unanswered
from cluster.peers.link_messages import NOTHING_TO_GET, Delivery, Ranges
from node.delivery.deeds import Became, Replaying
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


class ToQueue:
    """Implements `node.delivery.deeds.Replaying`: messages go to one queue, as they are."""

    def __init__(self, route: Targets) -> None:
        self._route = route

    def published(self, run: Run) -> Iterator[tuple[int, Run, Targets]]:
        yield 0, run, self._route


class Moving:
    """The moves, copies or replays of one request of a client."""

    def __init__(
        self, links: Links, commits: Commits, queue: QueueRef, target: Replaying, *, copies: bool
    ) -> None:
        self._links, self._commits = links, commits
        self._queue, self._target, self._copies = queue, target, copies
        self._left = RangeSet()
        self._became: dict[Became, RangeSet] = {}
        self._most = MOST_AT_ONCE
        # The message that has been refused alone.
        self._refused = 0
        self._moved: Moved = _forget

    def carry_out(self, ranges: Ranges, moved: Moved) -> None:
        """Move the messages that wait, in their order. The others are left as `Became.LEASED`."""
        self._left, self._moved = RangeSet(ranges), moved
        self._became = {
            one: RangeSet()
            for one in (Became.SETTLED, Became.LEASED, Became.REFUSED, Became.LEFT, Became.UNROUTED)
        }
        self._show()

    def _note(self, became: Became, ranges: Ranges) -> None:
        self._became[became].update(ranges)
        self._left.remove_all(ranges)

    def _finish(self) -> None:
        if self._became[Became.UNROUTED] and not self._copies:
            self._let_go()
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

    def _let_go(self) -> None:
        """Some reserved messages stay: consumers need not wait until the owner ends the reservation."""
        self._ask([], 0, unanswered)

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
            self._publish(runs)
        else:
            self._show()

    def _publish(self, runs: list[tuple[int, Run]]) -> None:
        """Commit those messages that queues take, by their routes."""
        shares: PartitionShares = {}
        routed, unrouted = RangeSet(), RangeSet()
        for first, run in runs:
            for index, piece, route in self._target.published(run):
                place = first + index
                (routed if route else unrouted).add(place, place + piece.count - 1)
                for link, queues in route.links if route else ():
                    shares.setdefault(link, Share()).publishes.append((piece, queues))
        self._note(Became.UNROUTED, list(unrouted.ranges()))
        if routed:
            self._commit(shares, list(routed.ranges()))
        else:
            self._show()

    def _commit(self, shares: PartitionShares, ranges: Ranges) -> None:
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
            self._let_go()
        self._show()


def _forget(_: Any) -> None:
    """Nothing is to be moved yet."""
