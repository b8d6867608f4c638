"""The results of handlers: a JSON value, rows to be listed, octets, or a status with no body."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """A list, sorted by `sort` unless the client asks otherwise; `paged`: the client may ask for a page.

    The rows may be made while they are taken: a long list is taken in pieces.
    """

    rows: Iterable[Row]
    sort: Sequence[str] = ("vhost", "name")
    paged: bool = False


@dataclass(frozen=True, slots=True)
class Status:
    """A status without a body, or with a `body` that is JSON."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None


@dataclass(frozen=True, slots=True)
class Streamed:
    """Octets that are made while the client reads them. Only the first piece may raise ApiError or
    Refusal; any may raise CutShortError.
    """

    content_type: str
    pieces: AsyncGenerator[bytes, None]


class CutShortError(Exception):
    """The rest of a streamed answer cannot be told: the connection is closed, and the client asks again."""


CREATED = Status(201)
DONE = Status(204)
