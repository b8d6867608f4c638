"""The errors of the node as the peer is told them. A frame with an error fits into the 512 octets that every
peer takes (part 2, section 2.3.1).
"""

from __future__ import annotations

from typing import Final

from node.wire.amqp10.definitions import Error
from node.wire.amqp10.errors import WireError

ERROR_OCTETS: Final = 400
"""An error of more octets is cut. The performative around the error has room in the others."""

DESCRIPTION_OCTETS: Final = 300


def error_of(error: WireError) -> Error:
    """The error as the peer is told it."""
    return fitted(Error(error.condition, str(error)))


def fitted(error: Error) -> Error:
    """The error, or its condition with the beginning of its description."""
    if len(error.encode()) <= ERROR_OCTETS:
        return error
    text = (error.description or "").encode()[:DESCRIPTION_OCTETS]
    return Error(error.condition, text.decode(errors="ignore"))
