"""The results of handlers: a JSON value, rows to be listed, octets, or a status with no body."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite
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
    Refusal.
    """

    content_type: str
    pieces: AsyncGenerator[bytes, None]


CREATED = Status(201)
DONE = Status(204)


def to_json(value: Any) -> str:
    """ASCII JSON. Octets that are no text, and numbers that JSON has not, are written as text."""
    try:
        return json.dumps(value, default=_plain, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(value), default=_plain, separators=(",", ":"))


def _plain(value: object) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"{type(value).__name__} has no JSON")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
