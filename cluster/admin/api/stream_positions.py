"""Streams that a user may read, and positions in streams, in requests of the management API
(docs/log-api.md).
"""

from __future__ import annotations

from typing import Final

from cluster.admin.api.barrier_views import BARRIER_PREFIX, barrier_position
from cluster.admin.api.call import Call
from cluster.admin.api.errors import bad_request, no_such_object, not_authorised
from cluster.admin.api.internal_channel import internal_channel
from cluster.admin.api.services import Services
from cluster.catalog.definitions import QueueDefinition
from node.message.bookmarks import BookmarkError, is_bookmark, number_of_bookmark
from node.message.streams import FROM_NEXT, OffsetKind, StreamOffset, age_ms, moment_ms

_NAMED: Final = {"earliest": StreamOffset(OffsetKind.FIRST), "latest": FROM_NEXT}


async def readable_stream(services: Services, call: Call, name: str) -> QueueDefinition:
    """A stream, of which the user may read everything. Raises ApiError and Refusal."""
    queue = services.state.queues.get((call.vhost, name))
    if queue is None:
        raise no_such_object()
    if not queue.stream:
        raise bad_request(f"queue '{name}' in vhost '{call.vhost}' is no stream: streams alone are read so")
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        if channel.readable(name):
            raise not_authorised("the user may read some messages of the stream only")
    return queue


def check_names(call: Call, known: tuple[str, ...]) -> None:
    """Raises ApiError for a parameter that the request does not have."""
    for name in call.query:
        if name not in known:
            raise bad_request(f"there is no parameter {name}; these are: {', '.join(known)}")


def read_position(services: Services, queue: QueueDefinition, name: str, text: str) -> StreamOffset:
    """The position that a parameter states. Raises ApiError."""
    if text in _NAMED:
        return _NAMED[text]
    if text.startswith(BARRIER_PREFIX):
        return StreamOffset(OffsetKind.NUMBER, barrier_position(services, queue, text))
    if is_bookmark(text):
        return StreamOffset(OffsetKind.NUMBER, read_bookmark(queue, name, text))
    age, moment = age_ms(text), moment_ms(text)
    if age is not None:
        return StreamOffset(OffsetKind.AGE, age)
    if moment is not None:
        return StreamOffset(OffsetKind.TIME, moment)
    raise bad_request(
        f"{name}, {text!r}, is no position: earliest, latest, a bookmark, barrier:NAME, a time as in "
        "ISO 8601, or an age such as 12h"
    )


def read_bookmark(queue: QueueDefinition, name: str, text: str) -> int:
    """The number of a bookmark of the stream. Raises ApiError."""
    try:
        return number_of_bookmark(queue.id, text)
    except BookmarkError as error:
        raise bad_request(f"{name}: {error}") from None
