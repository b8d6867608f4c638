"""The end of a client whose session has failed, and whom the listener asks whether that is all that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from node.wire.amqp091.codec import encode_method
from node.wire.amqp091.methods import ConnectionClose

INTERNAL_ERROR: Final = ConnectionClose(541, "INTERNAL_ERROR", 0, 0)
"""0-9-1: the server could not complete the method because of an internal error."""

SparesNode = Callable[[BaseException], bool]
"""Whether an exception of a session ends that session alone; otherwise the node's end has begun."""


class Log(Protocol):
    def info(self, event: str, **fields: object) -> None: ...
    def warning(self, event: str, **fields: object) -> None: ...
    def error(self, event: str, error: BaseException | None = None, **fields: object) -> None: ...


def spares_always(_: BaseException) -> bool:
    """Where no node could end."""
    return True


def tell_failed(transport: asyncio.Transport | None, *, is_open: bool) -> None:
    """Close the socket, with a word where the connection is open.

    What was written before are whole frames; what the session had not written is lost.
    """
    if transport is None or transport.is_closing():
        return
    if is_open:
        transport.write(encode_method(0, INTERNAL_ERROR))
        transport.close()
    else:
        transport.abort()
