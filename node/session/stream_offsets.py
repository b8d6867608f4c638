"""Reads the place in a stream at which a client begins to read (RabbitMQ's argument `x-stream-offset`)."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from node.message.bookmarks import BookmarkError, is_bookmark, number_of_bookmark
from node.message.streams import FROM_NEXT, LARGEST_OFFSET, X_STREAM_OFFSET, OffsetKind, StreamOffset, age_ms
from node.refusal import PreconditionFailedError
from node.session.ports import QueueRef

_NAMED: Final = {
    "first": StreamOffset(OffsetKind.FIRST),
    "last": StreamOffset(OffsetKind.LAST),
    "next": FROM_NEXT,
}


def stream_offset(queue: QueueRef, asked: object, topic: QueueRef | None) -> StreamOffset:
    """The place that a client asks for: a name, a number, an age (`5m`), the bookmark of a message of the
    queue or of the stream under it, or a time, which its protocol has read; None for the next message.

    Raises PreconditionFailedError.
    """
    if asked is None:
        return FROM_NEXT
    if isinstance(asked, StreamOffset):
        return asked
    if isinstance(asked, int) and not isinstance(asked, bool) and 0 <= asked <= LARGEST_OFFSET:
        return StreamOffset(OffsetKind.NUMBER, asked)
    if isinstance(asked, str) and is_bookmark(asked):
        for one in (queue, topic):
            with suppress(BookmarkError):
                if one is not None:
                    return StreamOffset(OffsetKind.NUMBER, number_of_bookmark(one.id, asked))
        raise _misfit(queue, f"{asked!r} is a bookmark of another queue, or of one that was deleted")
    if isinstance(asked, str):
        age = age_ms(asked)
        found = _NAMED.get(asked) if age is None else StreamOffset(OffsetKind.AGE, age)
        if found is not None:
            return found
    raise _misfit(queue, f"{asked!r} is no offset: first, last, next, a number, a time, 5m or a bookmark")


def _misfit(queue: QueueRef, reason: str) -> PreconditionFailedError:
    return PreconditionFailedError(f"invalid arg '{X_STREAM_OFFSET}' for {queue}: {reason}")
