"""The members of a message's body, for expressions: of a JSON text (RFC 8259), or of maps and lists that the
message's format has decoded.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

MAX_DOCUMENT: Final = 64 * 1024
"""A body of more octets has no members. So one message takes about a millisecond at most."""

OTHER: Final[tuple[object, ...]] = ()
"""Stands for a value that expressions do not know, but for its being there: objects and arrays are such."""

_LONGEST_INDEX: Final = 9
_LONGS: Final = 1 << 63
_JSON_TYPES: Final = frozenset(("", "application/json", "text/json"))


def states_json(content_type: object) -> bool:
    """Whether a body with this content type is read as JSON: where the type says so, or says nothing."""
    if content_type is None:
        return True
    if not isinstance(content_type, str):
        return False
    kind = content_type.partition(";")[0].strip().lower()
    return kind in _JSON_TYPES or kind.endswith("+json")


def json_document(octets: bytes) -> object:
    """The value of a JSON text in UTF-8; None where the octets are none, are too many, or are nested too deep
    (about a thousand levels).
    """
    if len(octets) > MAX_DOCUMENT:
        return None
    try:
        return _DECODER.decode(octets.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> NoReturn:
    """Python reads NaN and Infinity, which JSON does not have."""
    raise ValueError(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


def member_at(document: Any, path: tuple[str, ...]) -> Any:
    """The value at the end of a path; None where the document has none. A name of decimal digits is the index
    of an array's element, too.
    """
    found: Any = document
    for name in path:
        if isinstance(found, dict):
            found = found.get(name)
        elif isinstance(found, list):
            found = _element(found, name)
        else:
            return None
    return found


def _element(array: list[Any], name: str) -> Any:
    if not (name.isascii() and name.isdigit()) or len(name) > _LONGEST_INDEX:
        return None
    index = int(name)
    return array[index] if index < len(array) and str(index) == name else None


def value_of_json(value: object) -> object:
    """A value of a JSON text as expressions know it. A number beyond the longs is a double."""
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return int(value) if -_LONGS <= value < _LONGS else _double(int(value))
    return OTHER


def _double(number: int) -> object:
    try:
        return float(number)
    except OverflowError:
        return OTHER
