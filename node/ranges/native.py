"""The functions of `_range_columns.c`, where the module was built; None elsewhere.

Each has a twin in Python of the same name, in `range_columns`. The twin runs without the module, and where a
function returns None: a number does not fit into 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Final

Native = Callable[..., Any]
"""Takes what its twin takes; its result is that of its twin, or None."""


def _built() -> ModuleType | None:
    try:
        return import_module("node.ranges._range_columns")
    except ModuleNotFoundError:
        return None


_MODULE: Final = _built()

NATIVE_MERGED: Final[Native | None] = getattr(_MODULE, "merged", None)
NATIVE_JOINED: Final[Native | None] = getattr(_MODULE, "joined_columns", None)
NATIVE_CUT_OUT: Final[Native | None] = getattr(_MODULE, "cut_out", None)
NATIVE_OVERLAID: Final[Native | None] = getattr(_MODULE, "overlaid", None)
NATIVE_TOTAL: Final[Native | None] = getattr(_MODULE, "total", None)
NATIVE_ASCENDING: Final[Native | None] = getattr(_MODULE, "ascending", None)
NATIVE_PAIRED: Final[Native | None] = getattr(_MODULE, "paired", None)
NATIVE_PARTS: Final[Native | None] = getattr(_MODULE, "parts", None)
NATIVE_WITHIN: Final[Native | None] = getattr(_MODULE, "within", None)
NATIVE_FRONTS: Final[Native | None] = getattr(_MODULE, "fronts", None)
NATIVE_TRANSPOSED: Final[Native | None] = getattr(_MODULE, "transposed", None)
NATIVE_MERGED_PAIRS: Final[Native | None] = getattr(_MODULE, "merged_pairs", None)
NATIVE_BY_SLOT: Final[Native | None] = getattr(_MODULE, "by_slot", None)
NATIVE_WITHIN_UP_TO: Final[Native | None] = getattr(_MODULE, "within_up_to", None)
