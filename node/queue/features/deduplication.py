"""Which message ids a queue has seen lately (queue argument x-deduplication-window, X2).

Replicas agree on the ids, as digests, and on when each came: the next owner knows a duplicate, too. The
owner alone keeps them in a set as well, to tell duplicates by.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import read_positive_time
from node.queue.delivery_state import DeliveryState
from node.queue.feature import (
    NO_REPEATS,
    Declaration,
    Feature,
    FeatureContext,
    Incoming,
    Repeats,
    Rule,
)
from node.queue.operation_format import encode_forget_ids, encode_remember_ids
from node.queue.seen_ids import SeenIds, digest_of
from node.queue.settings import QueueSettings
from node.ranges.range_set import Range, RangeSet

DEDUPLICATION_WINDOW: Final = Argument(
    "x-deduplication-window", read_positive_time, "deduplication_window_ms", policy=PolicyUse.USER
)

FORGET_INTERVAL_MS: Final = 1000
"""How long ids that are out of the window may stay, so that they are forgotten many at a time."""


class Window:
    """The owner's side: tells what has been seen within the last `length` milliseconds.

    Exact: also of ids whose entry is not committed yet. `forgotten` is the time before which replicas
    have been told to forget.
    """

    __slots__ = ("_digests", "_head", "_known", "_times", "forgotten", "length")

    def __init__(self, length: int, seen: SeenIds | None) -> None:
        self.length = length
        self.forgotten = 0
        self._times, self._digests = (array("Q"), []) if seen is None else _latest(*seen.all())
        self._known = set(self._digests)
        # What is before is out of the window, and is dropped from the two lists now and then.
        self._head = 0

    def __len__(self) -> int:
        return len(self._known)

    def now(self, wall: int) -> int:
        """The time to remember ids by: not before that of ids that a clock ahead of this one has noted."""
        return max(wall, self._times[-1] if self._times else 0)

    def fresh(self, digests: Iterable[bytes], now: int) -> list[bool]:
        """For each id whether it is new; those that are will be known from now on."""
        self.slide(now)
        known, found = self._known, []
        for digest in digests:
            fresh = digest not in known
            if fresh:
                known.add(digest)
                self._digests.append(digest)
                self._times.append(now)
            found.append(fresh)
        return found

    def seen(self, digests: Iterable[bytes], now: int) -> list[bool]:
        """For each id whether it is known; none is remembered."""
        self.slide(now)
        return [digest in self._known for digest in digests]

    def slide(self, now: int) -> int:
        """Forget what is out of the window; returns the time before which replicas may forget, too."""
        before = now - self.length + 1
        head = bisect_left(self._times, before, self._head)
        self._known.difference_update(self._digests[self._head : head])
        if head > len(self._times) // 2:
            del self._times[:head], self._digests[:head]
            head = 0
        self._head = head
        return before


def _latest(times: array[int], digests: list[bytes]) -> tuple[array[int], list[bytes]]:
    """Each id when it came last: one that came anew may not have been forgotten since it came before."""
    latest = dict(zip(digests, times, strict=True))
    if len(latest) == len(digests):
        return times, digests
    ordered = sorted(latest.items(), key=lambda one: one[1])
    return array("Q", (time for _, time in ordered)), [digest for digest, _ in ordered]


class Deduplication(Feature):
    """Knows the queue's window, and has replicas forget what is out of it."""

    def __init__(self, delivery: DeliveryState, length: int) -> None:
        super().__init__()
        self._delivery = delivery
        self.window = Window(length, delivery.state.seen)

    def count_duplicates(self, count: int) -> None:
        """So many messages more were left out."""
        self._delivery.tally.duplicates += count

    def serve(self, context: FeatureContext, now: int) -> None:
        """Let replicas forget what is out of the window, now and then."""
        window, seen = self.window, self._delivery.state.seen
        if seen is None:
            return
        before = window.slide(now)
        due = max(seen.first, window.forgotten) + FORGET_INTERVAL_MS
        if before > due:
            window.forgotten = before
            context.log(encode_forget_ids(context.number, before))
        else:
            context.wake(due + window.length)


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    length = DEDUPLICATION_WINDOW.of(delivery.settings)
    if length is None:
        return None
    if isinstance(former, Deduplication):
        # It knows more ids than the log does: those on their way there.
        former.window.length = length
        return former
    return Deduplication(delivery, length)


class Recognising(Rule):
    """Leaves out messages whose id the queue has seen lately."""

    def repeats(self, share: Feature | None, incoming: Incoming, now: int) -> Repeats:
        if not isinstance(share, Deduplication):
            return NO_REPEATS
        ids = _ids(incoming)
        known = share.window.seen([digest for _, digest in ids], share.window.now(now))
        had = frozenset(at for (at, _), seen in zip(ids, known, strict=True) if seen)
        again: dict[int, int] = {}
        firsts: dict[bytes, int] = {}
        for (at, digest), seen in zip(ids, known, strict=True):
            if not seen and (first := firsts.setdefault(digest, at)) != at:
                again[at] = first
        return Repeats(had, again)

    def omit(self, share: Feature | None, context: FeatureContext, incoming: Incoming) -> list[Range]:
        """The ids of the others stand in the next entry and are known from now on: a duplicate may come right
        behind. It is confirmed with its batch, which is not before the message that it repeats is safe.
        """
        if not isinstance(share, Deduplication):
            return []
        window, ids = share.window, _ids(incoming)
        seen_at = window.now(context.wall_ms())
        fresh = window.fresh([digest for _, digest in ids], seen_at)
        remembered = [digest for (_, digest), new in zip(ids, fresh, strict=True) if new]
        if remembered:
            context.log_behind(encode_remember_ids(context.number, seen_at, remembered))
        if len(remembered) == len(ids):
            return []
        again = RangeSet((at, at) for (at, _), new in zip(ids, fresh, strict=True) if not new)
        share.count_duplicates(len(again))
        return list(again.ranges())


def _ids(incoming: Incoming) -> list[tuple[int, bytes]]:
    """Index and digest of each message that has an id."""
    found = incoming.ids
    if found is None:
        found = incoming.ids = []
        for first, last, properties in incoming.stretches():
            name = incoming.format.text(properties, "message_id")
            if name is not None:
                digest = digest_of(name)
                found += [(at, digest) for at in range(first, last + 1)]
    return found


_RECOGNISING: Final = Recognising()


def _rule(settings: QueueSettings) -> Rule | None:
    return None if DEDUPLICATION_WINDOW.of(settings) is None else _RECOGNISING


FEATURE: Final[Declaration] = Declaration(DEDUPLICATION_WINDOW, make=_share, rule=_rule)
