"""A link for which a queue keeps messages, as sessions, the terms of consumers, and the log name it."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

_KEPT_S: Final = Struct(">I")
KEPT_S_OCTETS: Final = _KEPT_S.size
"""The octets in front of a link's identity."""


class LinkTerms(NamedTuple):
    """A link, by its container and its name, and the seconds that its messages are kept while it is not
    attached; 0: without end.
    """

    identity: bytes
    kept_s: int

    def encode(self) -> bytes:
        """The octets in the terms of a consumer, and in the log."""
        return _KEPT_S.pack(self.kept_s) + self.identity


def link_terms(octets: bytes) -> LinkTerms:
    """Inverse of `LinkTerms.encode`. Raises struct.error when the octets are too short."""
    return LinkTerms(octets[_KEPT_S.size :], *_KEPT_S.unpack_from(octets))
