"""Drops messages whose message id the queue has seen lately (queue argument x-deduplication-window, X2).

The log has the digest of each id, with the time at which it came, so that the next owner recognises
duplicates, too. The owner also keeps the digests in a set, for the look-up.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import read_positive_time
from node.queue.decision_format import encode_forget_ids, encode_remember_ids
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
from node.queue.seen_ids import SeenIds, digest_of
from node.queue.settings import QueueSettings
from node.ranges.range_set import Range, RangeSet

DEDUPLICATION_WINDOW: Final = Argument(
    "x-deduplication-window", read_positive_time, "deduplication_window_ms", policy=PolicyUse.USER
)

FORGET_INTERVAL_MS: Final = 1000
"""How long ids may stay after they leave the window, so that one operation forgets many of them."""


class Window:
    """The owner's set of the ids that came within the last `length` milliseconds, including those whose entry
    is not committed yet. `forgotten` is the time before which a proposed FORGET_IDS has removed ids.
    """

    __slots__ = ("_digests", "_head", "_known", "_times", "forgotten", "length")

    def __init__(self, length: int, seen: SeenIds | None) -> None:
        self.length = length
        self.forgotten = 0
        self._times, self._digests = (array("Q"), []) if seen is None else _latest(*seen.all())
        self._known = set(self._digests)
        # Ids before this index are out of the window; `slide` drops them from the two lists now and then.
        self._head = 0

    def __len__(self) -> int:
        return len(self._known)

    def now(self, wall: int) -> int:
        """The time for new ids: `wall`, or the newest time in the window where another clock was ahead."""
        return max(wall, self._times[-1] if self._times else 0)

    def fresh(self, digests: Iterable[bytes], now: int) -> list[bool]:
        """Whether each id is new. Adds the new ones."""
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
        """Whether each id is known. Adds none."""
        self.slide(now)
        return [digest in self._known for digest in digests]

    def slide(self, now: int) -> int:
        """Forget the ids that have left the window. Returns the time before which replicas may forget ids,
        too.
        """
        before = now - self.length + 1
        head = bisect_left(self._times, before, self._head)
        self._known.difference_update(self._digests[self._head : head])
        if head > len(self._times) // 2:
            del self._times[:head], self._digests[:head]
            head = 0
        self._head = head
        return before


def _latest(times: array[int], digests: list[bytes]) -> tuple[array[int], list[bytes]]:
    """Each id with its newest time: an id that came again may still have its older record."""
    latest = dict(zip(digests, times, strict=True))
    if len(latest) == len(digests):
        return times, digests
    ordered = sorted(latest.items(), key=lambda one: one[1])
    return array("Q", (time for _, time in ordered)), [digest for digest, _ in ordered]


class Deduplication(Feature):
    """Has the queue's window, and logs which ids replicas may forget."""

    def __init__(self, delivery: DeliveryState, length: int) -> None:
        super().__init__()
        self._delivery = delivery
        self.window = Window(length, delivery.state.seen)

    def count_duplicates(self, count: int) -> None:
        """The queue has left out `count` further duplicates."""
        self._delivery.tally.duplicates += count

    def serve(self, context: FeatureContext, now: int) -> None:
        """Log a FORGET_IDS when ids have been out of the window for `FORGET_INTERVAL_MS`."""
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
        # The share knows ids that are proposed and not committed yet.
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
        """Leave out duplicates, and put the ids of the other messages into the next entry.

        The window has these ids at once, as a duplicate may follow before the entry is committed. The
        duplicate is confirmed with its batch, which commits no earlier than the message that it repeats.
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
        for first, last, name in incoming.format.texts_in(incoming.run, "message_id"):
            if name is not None:
                digest = digest_of(name)
                found += [(at, digest) for at in range(first, last + 1)]
    return found


_RECOGNISING: Final = Recognising()


def _rule(settings: QueueSettings) -> Rule | None:
    return None if DEDUPLICATION_WINDOW.of(settings) is None else _RECOGNISING


FEATURE: Final[Declaration] = Declaration(DEDUPLICATION_WINDOW, make=_share, rule=_rule)
