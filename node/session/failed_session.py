"""The end of a connection whose session has met a defect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

SparesNode = Callable[[BaseException], bool]
"""Whether an exception of a session ends that session alone. False: the exception ends the node."""


class FailureLog(Protocol):
    def info(self, event: str, **fields: object) -> None: ...
    def warning(self, event: str, **fields: object) -> None: ...
    def error(self, event: str, error: BaseException | None = None, **fields: object) -> None: ...


def spares_always(_: BaseException) -> bool:
    """For listeners without a node to end, as in tests."""
    return True


def tell_failed(transport: asyncio.Transport | None, last_words: bytes) -> None:
    """Write `last_words` and close the socket; without words, abort it.

    The socket has whole frames of the session so far. Output that the session has not written is lost.
    """
    if transport is None or transport.is_closing():
        return
    if last_words:
        transport.write(last_words)
        transport.close()
    else:
        transport.abort()
