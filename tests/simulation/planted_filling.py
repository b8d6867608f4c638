"""Planted bugs in the filling of queues with the past of their streams (`tests.simulation.planted`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from unittest import mock

from cluster.owner import feeding, filling, recovery_points, requests, serving
from cluster.owner.state import OwnerState
from node.message.streams import StreamOffset
from node.queue.dispatch import QueueOwner
from node.queue.operations import OWNER


def deliveries_ahead_of_the_past() -> AbstractContextManager[object]:
    """D13: a queue that decides about each message delivers nothing before all of its past is in it. With the
    bug it delivers what has come in.
    """
    intact = filling.fill

    def hasty(owner: OwnerState, number: int, queue: QueueOwner) -> bool:
        intact(owner, number, queue)
        return False

    return mock.patch.object(serving, "fill", hasty)


def past_in_memory() -> AbstractContextManager[object]:
    """D13: the log has how far the past has come in. With the bug the first part says that all has, and the
    owner goes on by what it remembers.
    """
    advance, fill = filling._advance, filling.fill
    remembered: dict[tuple[int, int], tuple[int, int]] = {}

    def hasty(owner: OwnerState, number: int, last: int, through: int) -> None:
        remembered.pop((id(owner), number), None)
        if last < through:
            remembered[id(owner), number] = last + 1, through
        advance(owner, number, through, through)

    def remembering(owner: OwnerState, number: int, queue: QueueOwner) -> bool:
        part = remembered.get((id(owner), number))
        if part is None or number not in owner.filling:
            return fill(owner, number, queue)
        if not owner.filling[number]:
            filling._go_on(owner, number, queue, *part)
        return True

    def leave_out(owner: OwnerState, number: int, queue: QueueOwner, upto: int) -> bool:
        first, through = remembered.get((id(owner), number), (upto + 1, 0))
        if first <= upto:
            hasty(owner, number, min(upto, through), through)
        return first <= upto

    bugs = ExitStack()
    bugs.enter_context(mock.patch.object(requests, "leave_out", leave_out))
    bugs.enter_context(mock.patch.object(filling, "_advance", hasty))
    bugs.enter_context(mock.patch.object(serving, "fill", remembering))
    return bugs


def purges_of_what_has_come() -> AbstractContextManager[object]:
    """A purge removes the past that has yet to come in. With the bug it removes what has come in."""
    return mock.patch.object(requests, "leave_out", lambda *_: False)


def past_refilled_twice() -> AbstractContextManager[object]:
    """D13: the entry that brings in the past of another recovery point says so. With the bug the entry does
    not say from where on the queue has had all messages by then: the next change brings the past in again.
    """
    log, had = recovery_points._log_point, recovery_points._place

    def forgetful(owner: OwnerState, queue: int, had_from: int, point: StreamOffset | None) -> None:
        known = owner.queues.get(queue)
        before = None if known is None else had(known.delivery.state, recovery_points.HAD_FROM)
        log(owner, queue, had_from if before is None else before, point)

    return mock.patch.object(recovery_points, "_log_point", forgetful)


def places_behind_their_transfers() -> AbstractContextManager[object]:
    """The entry with a transfer of copies has the place behind them, too. With the bug the next entry has it:
    an owner that begins in between sends the messages a second time, under another number.
    """
    log = feeding.Feeds._log

    def late(
        self: feeding.Feeds,
        feed: feeding.Feed,
        place: int,
        then: Callable[[], None] | None = None,
        *before: bytes,
    ) -> None:
        def logged() -> None:
            if then is not None:
                then()
            log(self, feed, place)

        if not before:
            log(self, feed, place, then)
            return
        self._logging.add(feed)
        self._owner.proposal.add_batch(OWNER, 0, self._owner.next_sequence, before)
        self._owner.proposal.committed.append(logged)
        self._owner.wake()

    return mock.patch.object(feeding.Feeds, "_log", late)
