"""A handler's value as an HTTP answer. Long lists are made and written a piece at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from aiohttp import web

from cluster.admin.api import listing
from cluster.admin.api.call import Call
from cluster.admin.api.responses import Row, Rows, Status
from node.message.json_text import to_json

ROWS_A_PIECE: Final = 100
"""Rows of a list that are made or written before the event loop gets its turn."""


async def written(call: Call, value: Any) -> web.Response:
    if isinstance(value, Status):
        body = None if value.body is None else to_json(value.body)
        return json_response(value.status, body, value.headers)
    if isinstance(value, Rows):
        return await _list(call, value)
    return json_response(200, to_json(listing.picked(value, listing.columns_of(call.query))))


def json_response(status: int, text: str | None, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer with a body of JSON, or without a body."""
    if text is None:
        return web.Response(status=status, headers=headers)
    return web.Response(status=status, text=text, content_type="application/json", headers=headers)


async def _list(call: Call, value: Rows) -> web.Response:
    """A list, or a page of it, made and written a piece at a time."""
    page = listing.page_of(call.query) if value.paged else None
    made = [row async for rows in _pieces(value.rows) for row in rows]
    rows: Sequence[Row] = made
    if page is not None:
        loop = asyncio.get_running_loop()
        rows = await loop.run_in_executor(None, listing.filtered, made, page)
    rows = listing.ordered(rows, call.query, value.sort)
    before, after = "[", "]"
    if page is not None:
        said, rows = listing.paged(rows, len(made), page)
        before, after = json.dumps(said)[:-1] + ',"items":[', "]}"
    columns = listing.columns_of(call.query)
    written = [to_json(listing.picked(row, columns)) async for piece in _pieces(rows) for row in piece]
    return json_response(200, before + ",".join(written) + after)


async def _pieces(rows: Iterable[Row]) -> AsyncIterator[list[Row]]:
    left = iter(rows)
    while piece := list(islice(left, ROWS_A_PIECE)):
        yield piece
        if len(piece) == ROWS_A_PIECE:
            await asyncio.sleep(0)
