"""A transport that records what its callbacks were told, and waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import uvloop

from replication.transport import CurveKeys, PeerTransport, TransportConfig

PATIENCE_S = 10.0
_incarnations = itertools.count(1000)

SMALL = {"queue_bytes": 1 << 20, "window_bytes": 256 << 10, "batch_bytes": 64 << 10}


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Makes a test of a coroutine function; it runs on the event loop that nodes use."""

    def wrapper() -> None:
        uvloop.run(asyncio.wait_for(test(), 30))

    wrapper.__name__ = test.__name__
    wrapper.__doc__ = test.__doc__
    return wrapper


class Endpoint:
    """One transport with everything it reported, in order."""

    def __init__(
        self, name: str, keys: CurveKeys | None = None, listen: str = "127.0.0.1:0", **sizes: int
    ) -> None:
        self.name = name
        self.keys = keys = keys or CurveKeys.generate()
        self.events: list[tuple[str, str]] = []
        self.received: list[tuple[str, list[bytes]]] = []
        self.on_message: Callable[[str, list[bytes]], None] | None = None
        self._changed = asyncio.Event()
        config = TransportConfig(name, "test", listen, keys)
        self.transport = PeerTransport(
            replace(config, **sizes),
            next(_incarnations),
            on_message=self._message,
            on_up=lambda peer: self._event("up", peer),
            on_down=lambda peer: self._event("down", peer),
            on_gap=lambda peer: self._event("gap", peer),
        )
        self.transport.start(asyncio.get_running_loop())

    def _message(self, peer: str, parts: list[bytes]) -> None:
        self.received.append((peer, parts))
        self._changed.set()
        if self.on_message is not None:
            self.on_message(peer, parts)

    def _event(self, what: str, peer: str) -> None:
        self.events.append((what, peer))
        self._changed.set()

    def meet(self, other: Endpoint, address: str | None = None) -> None:
        """Connect to another endpoint, whose public key is known."""
        self.transport.add_peer(other.name, address or other.transport.address, other.keys.public)

    def say(self, peer: str, *parts: bytes) -> bool:
        """Send one message and flush."""
        taken = self.transport.send(peer, parts)
        self.transport.flush()
        return taken

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` is true; looked at after each report, and now and then for counters."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 0.01)

    async def until_event(self, what: str, peer: str, count: int = 1) -> None:
        await self.until(lambda: self.events.count((what, peer)) >= count)


@asynccontextmanager
async def pair(**sizes: int):  # type: ignore[no-untyped-def]
    """Two endpoints, a and b, connected in both directions."""
    async with AsyncExitStack() as stack:
        a, b = Endpoint("a", **sizes), Endpoint("b", **sizes)
        stack.callback(a.transport.close)
        stack.callback(b.transport.close)
        await connect(a, b)
        yield a, b


async def connect(a: Endpoint, b: Endpoint) -> None:
    a.meet(b)
    b.meet(a)
    await a.until_event("up", b.name)
    await b.until_event("up", a.name)
