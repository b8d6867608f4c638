"""The log of a stream over HTTP: plans, and ranges of the log as blocks (docs/log-api.md, requirement F8)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from cluster.admin.api.call import Call
from cluster.admin.api.errors import ApiError, bad_request
from cluster.admin.api.log_replicas import LogReplicas
from cluster.admin.api.responses import Streamed
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.admin.api.stream_positions import check_names, read_bookmark, read_position, readable_stream
from cluster.catalog.definitions import QueueDefinition
from cluster.config.formats import BARRIERS_AND_FILTERS
from cluster.owner.log_plan import UNLIMITED, PlanLimits, Wish
from node.expressions.condition import encoded_condition
from node.expressions.errors import ExpressionError
from node.message.bookmarks import bookmark_of, is_bookmark
from node.message.json_text import to_json
from node.message.streams import StreamOffset
from node.queue.block_format import END_BLOCK, REFUSAL_BLOCK, encode_block
from node.ranges.range_set import Range

endpoints = Endpoints()

BLOCKS_TYPE: Final = "application/vnd.quorate.blocks"

RANGE_OCTETS: Final = 64 * 1024 * 1024
"""The octets of entries that a range has, unless the client asks for more or fewer."""

_OF_PLANS: Final = ("from", "to", "rows", "octets", "range_octets", "from_count")
_BETWEEN: Final = ("from", "to")


@endpoints.on("GET", "/log/{vhost}/{name}/plan")
async def plan_log(services: Services, call: Call) -> dict[str, Any]:
    """Ranges of the stream's log between two positions, cut at entries, with their messages and octets."""
    check_names(call, _OF_PLANS)
    queue = await readable_stream(services, call, call.path["name"])
    wish = Wish(
        _position(services, queue, call.query, "from", "earliest"),
        _position(services, queue, call.query, "to", "latest"),
        PlanLimits(
            limit_of(call.query, "rows", UNLIMITED),
            limit_of(call.query, "octets", UNLIMITED),
            limit_of(call.query, "range_octets", RANGE_OCTETS),
        ),
        _count(call.query),
    )
    owner, plan = await _replicas(services, queue).plan(wish)
    nodes = [one for one in nodes_with(services, queue) if one != owner]
    first_count, end_count = plan.get("counts") or (None, None)
    return {
        "vhost": queue.vhost,
        "stream": queue.name,
        "partition": queue.partition,
        **{name: _bookmark(queue, plan[key]) for name, key in _POSITIONS.items()},
        "from_count": first_count,
        "end_count": end_count,
        "ranges": [_range(queue, one) for one in plan["ranges"]],
        "replicas": [{"node": one, "http": services.members[one].http} for one in (*nodes, owner)],
    }


@endpoints.on("GET", "/log/{vhost}/{name}/blocks")
async def read_log(services: Services, call: Call) -> Streamed:
    """The messages of the stream between two positions, as blocks."""
    check_names(call, (*_BETWEEN, "filter"))
    for name in _BETWEEN:
        if not is_bookmark(call.query.get(name, "")):
            raise bad_request(f"{name} is missing, or no bookmark: blocks are read between two bookmarks")
    queue = await readable_stream(services, call, call.path["name"])
    first, end = (read_bookmark(queue, name, call.query[name]) for name in _BETWEEN)
    if end < first:
        raise bad_request(f"to, {call.query['to']}, is in front of from, {call.query['from']}")
    filter = _filter(services, call.query.get("filter", ""))
    return Streamed(BLOCKS_TYPE, log_blocks(_replicas(services, queue), queue, (first, end), filter))


def _filter(services: Services, text: str) -> bytes:
    """The octets of the selector that a text stands for. Raises ApiError."""
    if not text:
        return b""
    if services.formats < BARRIERS_AND_FILTERS:
        raise bad_request("upgrade all nodes first: one runs a release that filters no log")
    try:
        return encoded_condition(text)
    except ExpressionError as error:
        raise bad_request(f"invalid filter: {error}") from None


async def log_blocks(
    replicas: LogReplicas, queue: QueueDefinition, between: Range, filter: bytes = b""
) -> AsyncGenerator[bytes, None]:
    """The blocks of a range, and the one that ends it. Raises ApiError before the first of them; a later
    refusal is a block.
    """
    begun = False
    first, end = between
    try:
        async for following, blocks in replicas.blocks(first, end, filter):
            first, begun = following, True
            if blocks:
                yield blocks
    except ApiError as error:
        if not begun:
            raise
        told = to_json({"status": error.status, **error.body}).encode()
        yield encode_block(queue.id, first, first, [told], kind=REFUSAL_BLOCK)
        return
    yield encode_block(queue.id, end, end, [], kind=END_BLOCK)


def nodes_with(services: Services, queue: QueueDefinition) -> list[str]:
    """The running nodes with a replica, this one first."""
    running = services.running
    replicas = services.state.partitions[queue.partition].replicas
    return [one for one in running if one in replicas]


def _replicas(services: Services, queue: QueueDefinition) -> LogReplicas:
    return LogReplicas(services.inquiry, queue, nodes_with(services, queue))


# -- parameters -----------------------------------------------------------------------------------

_POSITIONS: Final = {
    "from": "first",
    "to": "wanted",
    "end": "end",
    "stable_end": "stable",
    "oldest": "oldest",
}
"""The positions of a plan, as answers and as nodes name them."""


def _bookmark(queue: QueueDefinition, number: int | None) -> str | None:
    return None if number is None else bookmark_of(queue.id, number)


def _range(queue: QueueDefinition, row: tuple[int, int, int, int]) -> dict[str, Any]:
    first, end, rows, octets = row
    positions = {"from": bookmark_of(queue.id, first), "to": bookmark_of(queue.id, end)}
    return {**positions, "rows": rows, "octets": octets}


def _position(
    services: Services, queue: QueueDefinition, query: Mapping[str, str], name: str, default: str
) -> StreamOffset:
    """Raises ApiError."""
    return read_position(services, queue, name, query.get(name, default))


def limit_of(query: Mapping[str, str], name: str, default: int) -> int:
    """A parameter that is a number above 0. Raises ApiError."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text)):
        raise bad_request(f"{name}, {text!r}, is no number above 0")
    return int(text)


def _count(query: Mapping[str, str]) -> int | None:
    """Raises ApiError."""
    text = query.get("from_count")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise bad_request(f"from_count, {text!r}, is no number")
    return int(text)
