"""The types of the columns of tables, by the annotations of the class of their rows."""

from __future__ import annotations

from typing import Any, Final, get_type_hints

LONG, TEXT, BINARY, FLAG, TEXTS, PAIRS = "long", "string", "binary", "boolean", "array<string>", "map"

_TYPES: Final[dict[Any, str]] = {
    int: LONG,
    int | None: LONG,
    str: TEXT,
    str | None: TEXT,
    bytes: BINARY,
    bytes | None: BINARY,
    bool: FLAG,
    list[str]: TEXTS,
    dict[str, Any] | None: PAIRS,
}


def types_of(row: type[tuple[Any, ...]]) -> dict[str, str]:
    """The columns of a class of rows with their types."""
    return {name: _TYPES[kind] for name, kind in get_type_hints(row).items()}
