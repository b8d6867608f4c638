"""JSON texts of values that queues and views have."""

from __future__ import annotations

import json
from decimal import Decimal
from math import isfinite
from typing import Any


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
