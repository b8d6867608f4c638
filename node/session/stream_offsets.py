"""Reads the place in a stream at which a client begins to read (RabbitMQ's argument `x-stream-offset`)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from node.message.bookmarks import BookmarkError, is_bookmark, number_of_bookmark
from node.message.streams import (
    FROM_NEXT,
    LARGEST_OFFSET,
    X_STREAM_OFFSET,
    X_SUBSCRIPTION,
    OffsetKind,
    StreamOffset,
    age_ms,
)
from node.refusal import PreconditionFailedError
from node.session.ports import QueueRef

MOST_RECENT: Final = "most-recent"
"""The place of the reader's subscription."""

_LONGEST_NAME: Final = 255

_NAMED: Final = {
    "first": StreamOffset(OffsetKind.FIRST),
    "last": StreamOffset(OffsetKind.LAST),
    "next": FROM_NEXT,
    MOST_RECENT: StreamOffset(OffsetKind.MOST_RECENT),
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
    known = "first, last, next, most-recent, a number, a time, 5m or a bookmark"
    raise _misfit(queue, f"{asked!r} is no offset: {known}")


def reading_from(
    queue: QueueRef, asked: object, topic: QueueRef | None, arguments: Mapping[str, Any]
) -> tuple[StreamOffset, bytes]:
    """The place that a client asks for, as `stream_offset`, and the subscription in its arguments. A client
    that names no place asks for that of its subscription. Raises PreconditionFailedError.
    """
    name = _subscription(queue, arguments.get(X_SUBSCRIPTION))
    offset = stream_offset(queue, MOST_RECENT if name and asked is None else asked, topic)
    if offset.kind is OffsetKind.MOST_RECENT and not name:
        raise _misfit(queue, f"{MOST_RECENT} needs an {X_SUBSCRIPTION}")
    return offset, name


def _subscription(queue: QueueRef, asked: object) -> bytes:
    """The name of the subscription that a reader states, of 1 to 255 octets of UTF-8; empty for None. Raises
    PreconditionFailedError.
    """
    if asked is None:
        return b""
    name = asked.encode("utf-8", "surrogateescape") if isinstance(asked, str) else b""
    if not 0 < len(name) <= _LONGEST_NAME:
        wrong = f"invalid arg '{X_SUBSCRIPTION}' for {queue}"
        raise PreconditionFailedError(f"{wrong}: a name has 1 to {_LONGEST_NAME} octets")
    return name


def _misfit(queue: QueueRef, reason: str) -> PreconditionFailedError:
    return PreconditionFailedError(f"invalid arg '{X_STREAM_OFFSET}' for {queue}: {reason}")
