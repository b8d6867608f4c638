"""The end of a client whose session has failed, and whom the listener asks whether that is all that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

SparesNode = Callable[[BaseException], bool]
"""Whether an exception of a session ends that session alone; otherwise the node's end has begun."""


class FailureLog(Protocol):
    def info(self, event: str, **fields: object) -> None: ...
    def warning(self, event: str, **fields: object) -> None: ...
    def error(self, event: str, error: BaseException | None = None, **fields: object) -> None: ...


def spares_always(_: BaseException) -> bool:
    """Where no node could end."""
    return True


def tell_failed(transport: asyncio.Transport | None, last_words: bytes) -> None:
    """Close the socket, with these words, or none where the connection is not open.

    What was written before are whole frames; what the session had not written is lost.
    """
    if transport is None or transport.is_closing():
        return
    if last_words:
        transport.write(last_words)
        transport.close()
    else:
        transport.abort()
