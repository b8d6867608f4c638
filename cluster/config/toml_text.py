"""A writer of TOML: the standard library only has a reader."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

_BARE = re.compile(r"[A-Za-z0-9_-]+")

Scalar = str | int | float | bool
TomlTable = Mapping[str, "Scalar | Sequence[str] | TomlTable"]


def toml_text(table: TomlTable) -> str:
    """The TOML text of nested tables of strings, numbers, booleans and lists of strings."""
    return "".join(_lines(table, ())).lstrip("\n")


def _lines(table: TomlTable, path: tuple[str, ...]) -> list[str]:
    scalars = [
        f"{_key(key)} = {_value(value)}\n" for key, value in table.items() if not isinstance(value, Mapping)
    ]
    lines = [f"\n[{'.'.join(map(_key, path))}]\n", *scalars] if path and scalars else scalars
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += _lines(value, (*path, key))
    return lines


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _value(value: Scalar | Sequence[str]) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value)
        case int() | float():
            return repr(value)
    return f"[{', '.join(map(_string, value))}]"


def _string(text: str) -> str:
    # A JSON string is a TOML basic string, except that TOML wants DEL escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
