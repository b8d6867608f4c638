"""Which protocol a client asks for: the 8 octets that it sends first tell (AMQP 0-9-1 §4.2.2).

Nothing is decided before what has come can be the beginning of one protocol only, or of none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HEADER_OCTETS: Final = 8


class Handshake:
    """The beginning of one connection. Pure: octets in, a decision out.

    `headers` are those that the node takes, each with the name of its protocol; `otherwise` names the
    protocol that answers any other beginning, with its own header.
    """

    __slots__ = ("_begun", "_headers", "_otherwise")

    def __init__(self, headers: Mapping[bytes, str], otherwise: str) -> None:
        self._headers = headers
        self._otherwise = otherwise
        self._begun = b""

    def receive(self, data: bytes) -> str | None:
        """Further octets; the protocol, or None while it cannot be told."""
        self._begun = begun = (self._begun + data[:HEADER_OCTETS])[:HEADER_OCTETS]
        asked = {name for header, name in self._headers.items() if header.startswith(begun)}
        if not asked:
            return self._otherwise
        return asked.pop() if len(asked) == 1 else None
