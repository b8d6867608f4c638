"""Takes over HTTP: a queue holds numbered batches of messages for readers, which read them as blocks
(docs/log-api.md, requirement F8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster.admin.api.call import Call
from cluster.admin.api.decision_timeout import told_in_time
from cluster.admin.api.errors import ApiError, bad_request, no_such_object, not_authorised
from cluster.admin.api.internal_channel import internal_channel
from cluster.admin.api.log_replicas import NO_REPLICA, POSITION_GONE, LogReplicas
from cluster.admin.api.log_views import BLOCKS_TYPE, RANGE_OCTETS, limit_of, log_blocks, nodes_with
from cluster.admin.api.responses import Streamed
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.catalog.definitions import PartitionKind, QueueDefinition
from cluster.gateway.takes import TellTake
from cluster.owner.log_reading import NamedTake
from cluster.peers.link_messages import UNREACHABLE
from cluster.peers.take_requests import (
    ENDED,
    NOT_KNOWN,
    NOT_NEXT,
    NOTHING_READY,
    TAKE_SETTLED,
    TOO_MANY_READERS,
    UNFIT,
)
from node.message.bookmarks import BookmarkError, bookmark_of, is_bookmark, number_of_bookmark
from node.queue.take_operations import LAST_TAKE, READER_OCTETS
from node.ranges.range_set import count_of
from node.session.ports import QueueRef

endpoints = Endpoints()

TAKEN_ROWS: Final = 100_000
"""The messages of a take, unless the client asks for more or fewer."""

MOST_TAKEN_ROWS: Final = 10_000_000
"""The messages of a take at most."""

_OF_TAKES: Final = ("rows", "octets", "range_octets", "to", "identity")
_OF_COMMITS: Final = ("identity",)
_OF_RELEASES: Final = ("number", "identity")
_OF_BLOCKS: Final = ("from", "to")
_IDENTITY_DIGITS: Final = 8
_PATH: Final = "/takes/{vhost}/{queue}"
_READER: Final = _PATH + "/{reader}"
_TAKE: Final = _READER + "/{number}"


@endpoints.on("POST", _TAKE)
async def take_messages(services: Services, call: Call) -> dict[str, Any]:
    """Hold messages under a number, or tell which are held."""
    _check_names(call, _OF_TAKES)
    take = _named(call)
    rows = limit_of(call.query, "rows", TAKEN_ROWS)
    if rows > MOST_TAKEN_ROWS:
        raise bad_request(f"rows, {rows}, is above {MOST_TAKEN_ROWS}")
    octets, range_octets = (
        limit_of(call.query, "octets", 0),
        limit_of(call.query, "range_octets", RANGE_OCTETS),
    )
    queue, ref = await _queue(services, call)
    takes = services.front_end.takes
    behind = max(1, _position(queue, call, "to")) if "to" in call.query else 0
    if behind and not takes.end:
        raise bad_request("upgrade all nodes first: one runs a release that knows no end of a take")
    told = await _told(queue, lambda answer: takes.take(ref, *take, rows, octets, answer, end=behind))
    found = {**_names(queue), "reader": call.path["reader"], "number": take.number}
    if told[0] == TAKE_SETTLED:
        return {**found, "state": "committed", "committed": told[1]}
    if told[0] == NOTHING_READY:
        return {**found, "state": "empty"}
    _, time, ranges = told
    nodes, first, end = nodes_with(services, queue), ranges[0][0], ranges[-1][1] + 1
    replicas = LogReplicas(services.inquiry, queue, nodes, take)
    planned = await replicas.plan_take(first, end, range_octets)
    return {
        **found,
        "state": "held",
        "time": time,
        "messages": count_of(ranges),
        "ranges": [_range(queue, one) for one in planned],
        "replicas": [{"node": one, "http": services.members[one].http} for one in nodes],
    }


@endpoints.on("POST", _TAKE + "/commit")
async def commit_takes(services: Services, call: Call) -> dict[str, Any]:
    """Settle the messages of the takes up to a number."""
    _check_names(call, _OF_COMMITS)
    take = _named(call)
    queue, ref = await _queue(services, call)
    takes = services.front_end.takes
    told = await _told(queue, lambda answer: takes.settle(ref, *take, answer))
    return {"state": "committed", "committed": told[1]}


@endpoints.on("GET", _TAKE + "/blocks")
async def read_take(services: Services, call: Call) -> Streamed:
    """The messages of a take between two positions, as blocks."""
    _check_names(call, _OF_BLOCKS)
    take = _named(call)
    queue, _ = await _queue(services, call)
    first, end = (_position(queue, call, name) for name in _OF_BLOCKS)
    if end < first:
        raise bad_request(f"to, {call.query['to']}, is in front of from, {call.query['from']}")
    replicas = LogReplicas(services.inquiry, queue, nodes_with(services, queue), take)
    return Streamed(BLOCKS_TYPE, log_blocks(replicas, queue, (first, end)))


@endpoints.on("GET", _PATH)
async def list_readers(services: Services, call: Call) -> list[dict[str, Any]]:
    """The readers of a queue, with their takes."""
    _check_names(call, ())
    queue, ref = await _queue(services, call)
    _, rows, *_ = await _told(queue, lambda answer: services.front_end.takes.show(ref, answer))
    return [_shown(row) for row in rows]


@endpoints.on("GET", _READER)
async def show_reader(services: Services, call: Call) -> dict[str, Any]:
    """One reader, also one that the queue does not know yet: with the number of the next take."""
    _check_names(call, ())
    reader = _reader(call)
    queue, ref = await _queue(services, call)
    _, rows, *told = await _told(queue, lambda answer: services.front_end.takes.show(ref, answer))
    # The owner may be of a release that tells no more than rows.
    released, end = told or (0, None)
    row: list[Any] = next((row for row in rows if row[0] == reader), [reader, 0, released, []])
    _, committed, ended, takes = row
    return {
        **_names(queue),
        **_shown(row),
        "next": 1 + max(committed, ended, *(number for number, *_ in takes)),
        "end": None if end is None else bookmark_of(queue.id, end),
    }


@endpoints.on("DELETE", _READER)
async def release_reader(services: Services, call: Call) -> None:
    """Give the messages of a reader's takes back, and forget the reader."""
    _check_names(call, _OF_RELEASES)
    reader, last = _reader(call), 0
    if "number" in call.query:
        last = _number(call.query["number"])
    queue, ref = await _queue(services, call)
    takes = services.front_end.takes
    await _told(queue, lambda answer: takes.release(ref, reader, last, answer), released=True)


# -- queues and answers ---------------------------------------------------------------------------


async def _queue(services: Services, call: Call) -> tuple[QueueDefinition, QueueRef]:
    """The queue of the path, which the user may read. Raises ApiError and Refusal."""
    name = call.path["queue"]
    if not services.front_end.takes.known:
        raise bad_request("upgrade all nodes first: one runs a release without takes")
    queue = services.state.queues.get((call.vhost, name))
    if queue is None:
        raise no_such_object()
    if call.query.get("identity", _identity(queue)) != _identity(queue):
        reason = f"queue '{name}' was deleted and declared again: its identity is {_identity(queue)}"
        raise ApiError(POSITION_GONE, "another_queue", reason, identity=_identity(queue))
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        ref, condition = channel.taking(name)
    if condition:
        raise not_authorised("the user may read some messages of the queue only")
    partition = services.state.partitions.get(queue.partition)
    if partition is None or partition.kind is not PartitionKind.REPLICATED:
        raise bad_request(
            f"queue '{name}' in vhost '{call.vhost}' has no takes: it is in the memory of a node"
        )
    return queue, ref


async def _told(
    queue: QueueDefinition, ask: Callable[[TellTake], None], *, released: bool = False
) -> list[Any]:
    """The answer of the owner. `released`: the reader may be unknown. Raises ApiError."""
    told = await told_in_time(ask)
    match told[0]:
        case str() if told[0] == NOT_KNOWN and not released:
            raise ApiError(404, "not_found", f"queue '{queue.name}' has no such reader")
        case str() if told[0] == ENDED:
            reason = "the take has ended by its time, and its messages went back to the queue"
            raise ApiError(POSITION_GONE, "gone", reason)
        case str() if told[0] == NOT_NEXT:
            reason = f"the last take of the reader is {told[1]}: numbers ascend by one"
            raise ApiError(400, "not_next", reason, last=told[1])
        case str() if told[0] == UNFIT:
            raise bad_request(f"queue '{queue.name}' in vhost '{queue.vhost}' has no takes: it {told[1]}")
        case str() if told[0] == TOO_MANY_READERS:
            raise ApiError(400, "too_many_readers", "the queue has no room for a reader: delete one")
        case str():
            return told
    if told == UNREACHABLE:
        raise ApiError(NO_REPLICA, "service_unavailable", "the queue's node is down; try again")
    raise no_such_object()


def _identity(queue: QueueDefinition) -> str:
    """The digits at the begin of the bookmarks of the queue's messages."""
    return bookmark_of(queue.id, 0)[:_IDENTITY_DIGITS]


def _names(queue: QueueDefinition) -> dict[str, Any]:
    return {
        "vhost": queue.vhost,
        "queue": queue.name,
        "partition": queue.partition,
        "identity": _identity(queue),
    }


def _shown(row: list[Any]) -> dict[str, Any]:
    name, committed, ended, takes = row
    held = [{"number": number, "time": time, "messages": messages} for number, time, messages in takes]
    return {"reader": name.decode(errors="replace"), "committed": committed, "ended": ended, "takes": held}


def _range(queue: QueueDefinition, row: tuple[int, int, int, int]) -> dict[str, Any]:
    first, end, rows, octets = row
    positions = {"from": bookmark_of(queue.id, first), "to": bookmark_of(queue.id, end)}
    return {**positions, "rows": rows, "octets": octets}


# -- parameters -----------------------------------------------------------------------------------


def _check_names(call: Call, known: tuple[str, ...]) -> None:
    """Raises ApiError."""
    for name in call.query:
        if name not in known:
            these = f"these are: {', '.join(known)}" if known else "there are none"
            raise bad_request(f"there is no parameter {name}; {these}")


def _named(call: Call) -> NamedTake:
    """The take of the path. Raises ApiError."""
    return NamedTake(_reader(call), _number(call.path["number"]))


def _number(text: str) -> int:
    """Raises ApiError."""
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and 1 <= int(text) <= LAST_TAKE):
        raise bad_request(f"number, {text!r}, is no number from 1 to {LAST_TAKE}")
    return int(text)


def _reader(call: Call) -> bytes:
    """The reader of the path. Raises ApiError."""
    reader = call.path["reader"].encode(errors="surrogateescape")
    if not 1 <= len(reader) <= READER_OCTETS:
        raise bad_request(f"the name of the reader has {len(reader)} octets, not 1 to {READER_OCTETS}")
    return reader


def _position(queue: QueueDefinition, call: Call, name: str) -> int:
    """Raises ApiError."""
    text = call.query.get(name, "")
    if not is_bookmark(text):
        raise bad_request(f"{name} is missing, or no bookmark: messages are taken and read by bookmarks")
    try:
        return number_of_bookmark(queue.id, text)
    except BookmarkError as error:
        raise bad_request(f"{name}: {error}") from None
