"""Texts with places for what a queue knows of a message: the bodies of dead letters (queue argument
x-dead-letter-template, D19). Pure.

`{{data}}` stands for the octets of the message's body. All other values are escaped as within a text of JSON.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

MOST_CHARACTERS: Final = 8192
"""The longest template."""

MOST_OCTETS: Final = 16 * 1024 * 1024
"""A body that would have more octets is not made."""

DATA: Final = "data"
_TEXT: Final = "text"
_BASE64: Final = "base64"
BODIES: Final = frozenset((DATA, _TEXT, _BASE64))
"""The places for the body: its octets, its text, and its octets in Base64. A template has one at most."""

NAMED: Final = ("reason", "queue", "exchange", "routing-key", "bookmark", "time")
"""The other places. The time is that of the death, in milliseconds since the epoch."""

_BEGIN: Final = "{{"
_END: Final = "}}"


class TemplateError(ValueError):
    """The template is too long, or a place in it is none. The text has the column, counted from 1."""


class Template:
    """A template that was read. Raises TemplateError."""

    __slots__ = ("_pieces", "_places")

    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise TemplateError(f"the template has {len(text)} characters, and may have {MOST_CHARACTERS}")
        self._places: list[str] = []
        # One piece more than places: each place stands behind the piece with its number.
        self._pieces: list[bytes] = []
        behind = 0
        while (begin := text.find(_BEGIN, behind)) >= 0:
            self._pieces.append(text[behind:begin].encode("utf-8", "surrogateescape"))
            end = text.find(_END, begin)
            if end < 0:
                raise TemplateError(f"the place at column {begin + 1} has no end: `}}}}` is missing")
            self._places.append(self._place(text[begin + len(_BEGIN) : end].strip(), begin + 1))
            behind = end + len(_END)
        self._pieces.append(text[behind:].encode("utf-8", "surrogateescape"))

    def _place(self, name: str, column: int) -> str:
        if name not in BODIES and name not in NAMED:
            known = ", ".join((*sorted(BODIES), *NAMED))
            raise TemplateError(f"{name!r} at column {column} is no place; there are {known}")
        if name in BODIES and BODIES.intersection(self._places):
            raise TemplateError(f"the body stands in the template once, and again at column {column}")
        return name

    def filled(self, body: bytes, values: Mapping[str, str]) -> bytes | None:
        """The template with a message's body and the values of `NAMED`; None above `MOST_OCTETS`."""
        found = [self._pieces[0]]
        for name, piece in zip(self._places, self._pieces[1:], strict=True):
            found += (_octets_of(body, name) if name in BODIES else _escaped(values[name]), piece)
        return b"".join(found) if sum(map(len, found)) <= MOST_OCTETS else None


def _octets_of(body: bytes, name: str) -> bytes:
    if name == DATA:
        return body
    return b64encode(body) if name == _BASE64 else _escaped(body.decode("utf-8", "replace"))


def _escaped(text: str) -> bytes:
    """The text as it stands between quotation marks in JSON."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "replace")
