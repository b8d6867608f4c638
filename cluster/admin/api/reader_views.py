"""The readers of streams over HTTP: names with positions, for which retention waits (docs/log-api.md,
requirement F8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from cluster.admin.api.call import Call
from cluster.admin.api.decision_timeout import told_in_time
from cluster.admin.api.errors import ApiError, bad_request, no_such_object
from cluster.admin.api.fields import Fields
from cluster.admin.api.internal_channel import InternalChannel, internal_channel
from cluster.admin.api.log_replicas import POSITION_GONE
from cluster.admin.api.names import visible_vhosts
from cluster.admin.api.node_report import READER_ROWS
from cluster.admin.api.responses import DONE, Rows, Status
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.admin.api.stream_positions import read_bookmark, read_position, readable_stream
from cluster.catalog.definitions import QueueDefinition
from cluster.gateway.readers import TellReader
from cluster.owner.readers import ReaderRow
from cluster.peers.link_messages import TOO_MANY_SUBSCRIPTIONS, UNREACHABLE
from cluster.peers.reader_requests import BEGIN_GONE, NO_READER, POSITION_AHEAD
from node.message.bookmarks import bookmark_of, is_bookmark
from node.queue.subscriptions import LAST_LAG, MOST_SUBSCRIPTIONS
from node.refusal import Refusal
from node.session.ports import QueueRef

endpoints = Endpoints()

MOST_OCTETS_OF_READER: Final = 255

_LIMITS: Final = ("messages", "octets", "seconds")
_PATH: Final = "/readers/{vhost}/{stream}/{reader}"


@endpoints.on("GET", "/readers")
async def list_readers(services: Services, call: Call) -> Rows:
    """The readers of the streams that the user may read, as their owners know them."""
    told = await services.inquiry.ask_all(READER_ROWS)
    by_vhost: dict[str, list[tuple[QueueDefinition, ReaderRow]]] = {}
    for id, *row in (one for rows in told.values() for one in rows):
        stream = services.state.queues_by_id.get(id)
        if stream is not None:
            by_vhost.setdefault(stream.vhost, []).append((stream, ReaderRow(*row)))
    found: dict[tuple[str, str, bytes], dict[str, Any]] = {}
    for vhost in by_vhost.keys() & set(visible_vhosts(services, call)):
        async with internal_channel(services.front_end, call.identity, vhost) as channel:
            for stream, one in by_vhost[vhost]:
                if _may_read(channel, stream):
                    found[vhost, stream.name, one.name] = reader_fields(stream, one)
    return Rows(found[key] for key in sorted(found))


endpoints.on("GET", "/readers/{vhost}")(list_readers)


@endpoints.on("GET", "/readers/{vhost}/{stream}")
async def list_readers_of(services: Services, call: Call) -> Rows:
    """The readers of a stream."""
    stream = await readable_stream(services, call, call.path["stream"])
    rows = await _rows(stream, partial(services.front_end.readers.show, _ref(stream)))
    return Rows(reader_fields(stream, row) for row in rows)


@endpoints.on("GET", _PATH)
async def show_reader(services: Services, call: Call) -> dict[str, Any]:
    """A reader, with its position and its lag."""
    stream = await readable_stream(services, call, call.path["stream"])
    name = _name(call)
    for row in await _rows(stream, partial(services.front_end.readers.show, _ref(stream))):
        if row.name == name:
            return reader_fields(stream, row)
    raise no_such_object()


@endpoints.on("PUT", _PATH)
async def put_reader(services: Services, call: Call) -> dict[str, Any]:
    """Make a reader with a `max_lag`, which begins at `from`, or give a reader another `max_lag`."""
    stream = await readable_stream(services, call, call.path["stream"])
    fields = call.fields()
    _check_fields(fields, ("from", "max_lag"))
    begin = read_position(services, stream, "from", fields.text("from", "earliest"))
    max_lag = _max_lag(fields, services.config.cluster.reader_max_lag_octets)
    _check_known(services)
    make = partial(services.front_end.readers.make, _ref(stream), _name(call), begin, max_lag)
    return await _told(stream, make)


@endpoints.on("POST", _PATH + "/advance")
async def advance_reader(services: Services, call: Call) -> dict[str, Any]:
    """A reader has read everything in front of the bookmark `to`. Readers never go back."""
    stream = await readable_stream(services, call, call.path["stream"])
    fields = call.fields()
    _check_fields(fields, ("to",))
    fields.require("to")
    text = fields.text("to")
    if not is_bookmark(text):
        raise bad_request(f"to, {text!r}, is no bookmark")
    position = read_bookmark(stream, "to", text)
    _check_known(services)
    advance = partial(services.front_end.readers.advance, _ref(stream), _name(call), position)
    return await _told(stream, advance)


@endpoints.on("DELETE", _PATH)
async def delete_reader(services: Services, call: Call) -> Status:
    """Forget a reader: retention does not wait for it any more."""
    stream = await readable_stream(services, call, call.path["stream"])
    _check_known(services)
    await _rows(stream, partial(services.front_end.readers.forget, _ref(stream), _name(call)))
    return DONE


# -- answers --------------------------------------------------------------------------------------


def reader_fields(stream: QueueDefinition, row: ReaderRow) -> dict[str, Any]:
    """A reader as JSON has it. `max_lag` is null where retention does not wait; `lost` is null where the
    number is not known, and `lost_at_most` then is its bound.
    """
    max_lag = None
    if row.max_lag is not None:
        messages, octets, milliseconds = row.max_lag
        limits = (messages or None, octets or None, milliseconds / 1000 if milliseconds else None)
        max_lag = dict(zip(_LIMITS, limits, strict=True))
    lag = dict(zip(_LIMITS, (row.messages, row.octets, row.milliseconds / 1000), strict=True))
    return {
        "vhost": stream.vhost,
        "stream": stream.name,
        "reader": row.name.decode("utf-8", "replace"),
        "position": bookmark_of(stream.id, row.place + 1),
        "max_lag": max_lag,
        "lag": lag,
        "lost": row.lost if row.exact else None,
        "lost_at_most": row.lost,
    }


async def _told(stream: QueueDefinition, ask: Callable[[TellReader], None]) -> dict[str, Any]:
    """The one reader that the owner answers with. Raises ApiError."""
    [row] = await _rows(stream, ask)
    return reader_fields(stream, row)


async def _rows(stream: QueueDefinition, ask: Callable[[TellReader], None]) -> list[ReaderRow]:
    """The readers that the owner answers with. Raises ApiError."""
    told = await told_in_time(ask)
    if told[0] == NO_READER:
        raise no_such_object()
    if told[0] == POSITION_AHEAD:
        end = bookmark_of(stream.id, told[1])
        raise ApiError(400, "bad_request", f"the position is behind the end of the stream, {end}", end=end)
    if told[0] == BEGIN_GONE:
        oldest = None if told[1] < 0 else bookmark_of(stream.id, told[1])
        has = "it has no message" if oldest is None else f"the oldest is {oldest}"
        reason = f"messages behind the position have left stream '{stream.name}': {has}"
        raise ApiError(POSITION_GONE, "gone", reason, oldest=oldest)
    if told == TOO_MANY_SUBSCRIPTIONS:
        raise bad_request(f"stream '{stream.name}' has {MOST_SUBSCRIPTIONS} readers: delete one")
    if told == UNREACHABLE:
        raise ApiError(503, "service_unavailable", "no node with the stream answers: ask again")
    if not isinstance(told[0], str):
        raise no_such_object()
    return [ReaderRow(*row) for row in _with_limits(told[1])]


def _with_limits(rows: Iterable[list[Any]]) -> Iterable[list[Any]]:
    """Rows as another node has told them, whose max lag is a list."""
    for name, place, max_lag, *rest in rows:
        yield [name, place, None if max_lag is None else tuple(max_lag), *rest]


# -- parameters -----------------------------------------------------------------------------------


def _ref(stream: QueueDefinition) -> QueueRef:
    return QueueRef(stream.name, stream.partition, stream.id, stream.vhost)


def _may_read(channel: InternalChannel, stream: QueueDefinition) -> bool:
    try:
        return not channel.readable(stream.name)
    except Refusal:
        return False


def _check_known(services: Services) -> None:
    """Raises ApiError."""
    if not services.front_end.readers.known:
        raise bad_request("upgrade all nodes first: one runs a release without readers")


def _name(call: Call) -> bytes:
    """Raises ApiError."""
    name = call.path["reader"].encode()
    if not 1 <= len(name) <= MOST_OCTETS_OF_READER:
        raise bad_request(f"a reader has a name of 1 to {MOST_OCTETS_OF_READER} octets")
    return name


def _check_fields(fields: Fields, known: tuple[str, ...]) -> None:
    for name in fields.values:
        if name not in known:
            raise bad_request(f"there is no field {name}; these are: {', '.join(known)}")


def _max_lag(fields: Fields, default_octets: int) -> tuple[int, int, int]:
    """Messages, octets and milliseconds; 0 for no limit. Raises ApiError."""
    stated = fields.values.get("max_lag")
    if stated is None:
        return 0, default_octets, 0
    if not isinstance(stated, dict) or not stated:
        raise bad_request(f"max_lag is no object with some of {', '.join(_LIMITS)}")
    for name, value in stated.items():
        if name not in _LIMITS:
            raise bad_request(f"max_lag: there is no limit {name}; these are: {', '.join(_LIMITS)}")
        number = isinstance(value, int) and not isinstance(value, bool)
        if not number or not 0 < value <= LAST_LAG // 1000:
            raise bad_request(f"max_lag: {name}, {value!r}, is no number from 1 to {LAST_LAG // 1000}")
    messages, octets, seconds = (stated.get(name, 0) for name in _LIMITS)
    return messages, octets, 1000 * seconds
