"""Finds the protocol that a client asks for with its first 8 octets (AMQP 0-9-1 §4.2.2).

The decision falls as soon as the octets so far can begin the header of one protocol only, or of none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HEADER_OCTETS: Final = 8


class Handshake:
    """The first octets of one connection.

    `headers` maps each header of 8 octets that the node accepts to the name of its protocol. `otherwise` is
    the name of the protocol whose session answers any other octets, with its own header.
    """

    __slots__ = ("_begun", "_headers", "_otherwise")

    def __init__(self, headers: Mapping[bytes, str], otherwise: str) -> None:
        self._headers = headers
        self._otherwise = otherwise
        self._begun = b""

    def receive(self, data: bytes) -> str | None:
        """Take further octets; return the name of the protocol, or None while there is no decision."""
        self._begun = begun = (self._begun + data[:HEADER_OCTETS])[:HEADER_OCTETS]
        asked = {name for header, name in self._headers.items() if header.startswith(begun)}
        if not asked:
            return self._otherwise
        return asked.pop() if len(asked) == 1 else None
