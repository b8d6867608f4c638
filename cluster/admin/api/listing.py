"""Columns, order and pages of a list, as the query parameters of RabbitMQ's management API ask for them.

`columns` names what is wanted of each row, with dots into tables; `sort` and `sort_reverse` order;
`page`, `page_size`, `name` and `use_regex` choose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import regex

from cluster.admin.api.errors import ApiError, bad_request
from cluster.admin.api.responses import Row

DEFAULT_PAGE_SIZE: Final = 100
MAX_PAGE_SIZE: Final = 500
MAX_PATTERN: Final = 1024
PATTERN_TIMEOUT_S: Final = 0.1
"""For all names together: some expressions need exponential time."""

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a list that the client asks for."""

    number: int
    size: int
    name: str
    use_regex: bool


def page_of(query: Mapping[str, str]) -> Page | None:
    """None when the whole list is asked for. Raises ApiError."""
    if "page" not in query:
        return None
    number, size = _number(query["page"]), _number(query.get("page_size", str(DEFAULT_PAGE_SIZE)))
    if number < 1 or not 1 <= size <= MAX_PAGE_SIZE:
        text = f"Invalid pagination parameters: page number {number}, page size {size}"
        raise ApiError(400, "invalid_pagination_parameters", text)
    return Page(number, size, query.get("name", ""), query.get("use_regex", "").lower() == "true")


def _number(text: str) -> int:
    if not (text.isascii() and text.lstrip("-").isdigit() and len(text) < 10):
        raise bad_request("Pagination parameters are invalid")
    return int(text)


def filtered(rows: Sequence[Row], page: Page) -> Sequence[Row]:
    """The rows whose name holds the page's name, or matches it. Raises ApiError."""
    if not page.name:
        return rows
    if not page.use_regex:
        wanted = page.name.lower()
        return [row for row in rows if wanted in str(row.get("name", "")).lower()]
    try:
        if len(page.name) > MAX_PATTERN:
            raise regex.error("too long")
        pattern = regex.compile(page.name, regex.IGNORECASE)
        return _matching(pattern, rows)
    except (regex.error, TimeoutError, RecursionError):
        raise bad_request("Pagination parameters are invalid") from None


def _matching(pattern: Any, rows: Sequence[Row]) -> list[Row]:
    """The rows whose name matches. Raises TimeoutError after `PATTERN_TIMEOUT_S`."""
    found = []
    deadline = monotonic() + PATTERN_TIMEOUT_S
    for row in rows:
        left = deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        if pattern.search(str(row.get("name", "")), concurrent=True, timeout=left):
            found.append(row)
    return found


def ordered(rows: Sequence[Row], query: Mapping[str, str], default: Sequence[str]) -> list[Row]:
    """Rows without the value come first. Names that no row has leave the default order."""
    in_order = sorted(rows, key=lambda row: [_rank(value_at(row, (name,))) for name in default])
    wanted = query.get("sort", "")
    if wanted:
        path = tuple(wanted.split("."))
        in_order.sort(key=lambda row: _rank(value_at(row, path)))
    if query.get("sort_reverse", "").lower() == "true":
        in_order.reverse()
    return in_order


def _rank(value: Any) -> tuple[int, Any]:
    """Values of several types have an order, too: nothing, numbers, text, the rest by its text."""
    if value is None:
        return 0, 0
    if isinstance(value, int | float):
        return 1, value
    return 2, str(value)


def value_at(row: Any, path: Path) -> Any:
    """None where there is nothing at the path."""
    for name in path:
        row = row.get(name) if isinstance(row, Mapping) else None
    return row


def columns_of(query: Mapping[str, str]) -> list[Path]:
    """The columns asked for; none for all."""
    return [tuple(name.split(".")) for name in query.get("columns", "").split(",") if name]


def picked(row: Any, columns: Sequence[Path]) -> Any:
    """The row with only these columns, in their tables; lists are taken row by row."""
    if not columns:
        return row
    if isinstance(row, list):
        return [picked(one, columns) for one in row]
    result: dict[str, Any] = {}
    for path in columns:
        _put(result, row, path)
    return result


def _put(result: dict[str, Any], row: Any, path: Path) -> None:
    name, *rest = path
    if not isinstance(row, Mapping) or name not in row:
        return
    if not rest or not isinstance(row[name], Mapping):
        result[name] = row[name]
        return
    inner = result.setdefault(name, {})
    _put(inner, row[name], tuple(rest))


def paged(rows: Sequence[Row], total: int, page: Page) -> tuple[dict[str, int], Sequence[Row]]:
    """The page's fields in the answer, and its rows. Raises ApiError for a page behind the last one."""
    pages = -(-len(rows) // page.size)
    if page.number > max(1, pages):
        text = f"Page out of range, page: {page.number} page size: {page.size}, len: {len(rows)}"
        raise ApiError(400, "page_out_of_range", text)
    items = rows[(page.number - 1) * page.size : page.number * page.size]
    said = {
        "filtered_count": len(rows),
        "item_count": len(items),
        "page": page.number,
        "page_count": pages,
        "page_size": page.size,
        "total_count": total,
    }
    return said, items
