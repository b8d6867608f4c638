"""Messages that a client names by bookmark or by filter, and the answer about them (requirement D8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from node.delivery.deeds import Became, MoveTarget, Named, Replaying
from node.expressions.condition import encoded_condition
from node.expressions.errors import ExpressionError
from node.message.bookmarks import LAST_NUMBER, BookmarkError, bookmark_of, number_of_bookmark
from node.message.streams import StreamOffset
from node.ranges.range_set import Range, count_of, numbers_of, ranges_of
from node.refusal import PreconditionFailedError
from node.session.commands import MessagesSettled, SettleMessages
from node.session.ports import QueueRef

MOST_BOOKMARKS: Final = 10_000
"""One command names so many messages by bookmark at most."""


def bookmarked(queue: QueueRef, bookmarks: Iterable[str]) -> list[int]:
    """The numbers of the messages, ascending. Raises PreconditionFailedError for the first bookmark that is
    none of the queue.
    """
    try:
        return sorted({number_of_bookmark(queue.id, one) for one in bookmarks})
    except BookmarkError as error:
        raise PreconditionFailedError(str(error)) from None


def named_messages(
    queue: QueueRef, command: SettleMessages, target: MoveTarget | Replaying | None, *, known: bool
) -> Named:
    """The messages that a command names, and where they go. `known`: every owner reads the expressions of
    queues.

    Raises PreconditionFailedError for wrong bookmarks, for a wrong filter, with the column, and for messages
    that are to be moved to their own queue.
    """
    deed, limit, tries = command.deed, command.limit, command.tries
    if isinstance(target, MoveTarget) and target.queue == queue.id:
        raise PreconditionFailedError(f"the messages of {queue} are there already")
    if command.bookmarks:
        if len(command.bookmarks) > MOST_BOOKMARKS:
            raise PreconditionFailedError(f"more than {MOST_BOOKMARKS:,} bookmarks")
        ranges = ranges_of(bookmarked(queue, command.bookmarks))
        return Named(deed, ranges, b"", target, limit, tries)
    if not command.filter:
        raise PreconditionFailedError(f"neither bookmarks nor a filter name messages of {queue}")
    if not known:
        raise PreconditionFailedError("upgrade all nodes first: one runs a release without filters")
    try:
        octets = encoded_condition(command.filter)
        between = _between(queue, command)
        since, until = _plain(command.since), _plain(command.until)
        return Named(deed, between, octets, target, limit, tries, True, since, until)
    except ExpressionError as error:
        raise PreconditionFailedError(f"invalid filter for {queue}: {error}") from None


def _plain(place: StreamOffset | None) -> tuple[int, int] | None:
    return None if place is None else (int(place.kind), place.value)


def _between(queue: QueueRef, command: SettleMessages) -> list[Range]:
    """The range of messages to look at."""
    [first] = bookmarked(queue, [command.first]) if command.first else [0]
    [last] = bookmarked(queue, [command.last]) if command.last else [LAST_NUMBER]
    return [(first, last)] if first <= last else []


def messages_settled(
    queue: QueueRef, command: SettleMessages, became: dict[Became, list[Range]]
) -> MessagesSettled:
    """The answer about messages by what became of them."""
    counts = {one: count_of(ranges) for one, ranges in became.items()}
    if command.bookmarks:
        told = {
            bookmark_of(queue.id, number): one
            for one, ranges in became.items()
            for number in numbers_of(ranges)
        }
        return MessagesSettled(counts, told)
    left = became.get(Became.LEFT)
    # A filter has not looked at these: their number says nothing.
    counts.pop(Became.LEFT, None)
    ends = None if not left else (bookmark_of(queue.id, left[0][0]), bookmark_of(queue.id, left[-1][1]))
    return MessagesSettled(counts, {}, ends)
