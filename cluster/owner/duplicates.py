"""Drops messages whose id a queue has seen lately (queue argument x-deduplication-window, X2)."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.owner.state import OwnerState
from node.message.content import properties_in, read_short_string
from node.message.run import Run
from node.queue.dispatch import QueueOwner
from node.queue.features.deduplication import FEATURE, Deduplication, Window
from node.queue.operation_format import encode_remember_ids
from node.queue.seen_ids import digest_of
from node.ranges.range_set import Range, RangeSet


def duplicates(owner: OwnerState, run: Run, queues: Sequence[int]) -> dict[int, list[Range]]:
    """Which messages of the run, counted from 0, each of the queues has had. Empty for most.

    The ids of the others stand in the next entry and are known from now on: a duplicate may come right
    behind. It is confirmed with its batch, which is not before the message that it repeats is safe.
    """
    found: dict[int, list[Range]] = {}
    ids: list[tuple[int, bytes]] | None = None
    for number in queues:
        queue = owner.queues.get(number)
        window = window_of(queue)
        if queue is None or window is None:
            continue
        if ids is None:
            ids = _ids(run)
        seen_at = window.now(owner.wall_ms())
        fresh = window.fresh([digest for _, digest in ids], seen_at)
        remembered = [digest for (_, digest), new in zip(ids, fresh, strict=True) if new]
        if remembered:
            owner.proposal.add_decision(encode_remember_ids(number, seen_at, remembered))
        if len(remembered) < len(ids):
            again = RangeSet((at, at) for (at, _), new in zip(ids, fresh, strict=True) if not new)
            found[number] = list(again.ranges())
            queue.tally.duplicates += len(again)
    return found


def window_of(queue: QueueOwner | None) -> Window | None:
    """Which ids a queue has seen; None where it is not asked for that."""
    share = None if queue is None else queue.shares.get(FEATURE)
    return share.window if isinstance(share, Deduplication) else None


def repeats(owner: OwnerState, queue: QueueOwner, run: Run) -> tuple[list[int], dict[int, int]]:
    """Which messages of the run, counted from 0, the queue has had; and of the others which have the id of an
    earlier one of the run, with that one. Nothing is remembered.
    """
    window = window_of(queue)
    if window is None:
        return [], {}
    ids = _ids(run)
    digests = [digest for _, digest in ids]
    known = window.seen(digests, window.now(owner.wall_ms()))
    had = [at for (at, _), seen in zip(ids, known, strict=True) if seen]
    again: dict[int, int] = {}
    firsts: dict[bytes, int] = {}
    for (at, digest), seen in zip(ids, known, strict=True):
        if not seen and (first := firsts.setdefault(digest, at)) != at:
            again[at] = first
    return had, again


def _ids(run: Run) -> list[tuple[int, bytes]]:
    """Index and digest of each message that has an id."""
    found = []
    for index, count, properties in properties_in(run):
        name = read_short_string(properties, "message_id")
        if name is not None:
            digest = digest_of(name)
            found += [(at, digest) for at in range(index, index + count)]
    return found
