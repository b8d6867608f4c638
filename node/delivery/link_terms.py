"""A link for which a queue keeps messages: as sessions and the terms of consumers name it, and as the log
leases messages to it.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

_KEPT_S: Final = Struct(">I")
_CONSUMER: Final = Struct(">QQ")
KEPT_S_OCTETS: Final = _KEPT_S.size
"""The octets in front of a link's identity."""

SOURCE: Final = b"\xff"
"""The first octet of the identity by which a log has which consumer a link has. No text of UTF-8 has it, so
no link on which a client sends has such an identity.
"""

OWN: Final = b"\xfe"
"""The first octet of the identity of a link that a consumer has for itself, as `SOURCE`: no client attaches
it.
"""

REMEMBERED_LEASES: Final = 4096
"""The most leases that are not read from their octets again: a link has one for all of its messages."""


class LinkTerms(NamedTuple):
    """A link, by its container and its name, and the seconds that its messages are kept while it is not
    attached; 0: without end.
    """

    identity: bytes
    kept_s: int

    def encode(self) -> bytes:
        """The octets in the terms of a consumer."""
        return _KEPT_S.pack(self.kept_s) + self.identity

    @property
    def source(self) -> LinkTerms:
        """The link as the log has it whose consumer is told there. It ends with the consumer."""
        return LinkTerms(SOURCE + self.identity, 0)

    def lease(self, front_end: int, consumer: int) -> bytes:
        """The octets by which the log leases messages to the link, as attached by a consumer of a front
        end.
        """
        return _CONSUMER.pack(front_end, consumer) + self.encode()


def link_terms(octets: bytes) -> LinkTerms:
    """Inverse of `LinkTerms.encode`. Raises struct.error when the octets are too short."""
    return LinkTerms(octets[_KEPT_S.size :], *_KEPT_S.unpack_from(octets))


class LinkLease(NamedTuple):
    """A lease of messages to a link, and the consumer by which the link was attached last."""

    link: LinkTerms
    front_end: int
    consumer: int


@lru_cache(REMEMBERED_LEASES)
def link_lease(octets: bytes) -> LinkLease:
    """Inverse of `LinkTerms.lease`. Raises struct.error when the octets are too short."""
    return LinkLease(link_terms(octets[_CONSUMER.size :]), *_CONSUMER.unpack_from(octets))
