"""Pages that take the event loop's time: rendered in slices, and once for all requests at one time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from aiohttp import web

AGE_HEADER: Final = "Age-Ms"
"""Milliseconds since a page's rendering began: whether the page may be older than a change."""

SLICE_S: Final = 0.001
"""How long rendering has the event loop to itself."""

PAUSE_S: Final = 0.004
"""Pause between two slices, for other work: a page takes five times as long as the work on it."""

REST: Final = 39
"""A page is shown for so many times the time of its rendering before it is rendered again. However often
clients ask, rendering takes a fortieth of the event loop's time."""

LARGEST_DEBT_S: Final = 120.0
"""Seconds of rest owed to the event loop for other pages, above which no further page is rendered."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """`work_s`: seconds of the event loop's time that it took."""

    pieces: tuple[bytes, ...]
    work_s: float

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))


@dataclass(frozen=True, slots=True)
class ShownPage:
    """`age_s`: seconds since its rendering began. Its figures were read then, or later."""

    rendering: Rendering
    age_s: float


class Slices:
    """Work on the event loop, interrupted where a slice of its time is used up."""

    def __init__(
        self,
        pause_s: float = PAUSE_S,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.work_s = 0.0
        """Seconds in slices that are over."""
        self._pause_s = pause_s
        self._pause = pause
        self._clock = clock
        self._begun = clock()

    @property
    def used_up(self) -> bool:
        return self._clock() - self._begun >= SLICE_S

    async def rest(self) -> None:
        self.end()
        await self._pause(self._pause_s)
        self._begun = self._clock()

    def end(self) -> None:
        self.work_s += self._clock() - self._begun
        self._begun = self._clock()


async def rendered(texts: Iterable[str | None], slices: Slices | None = None) -> Rendering:
    """Put a page together of its texts, between which the work may be interrupted. None: no text is ready."""
    slices = slices or Slices()
    pieces: list[bytes] = []
    waiting: list[str] = []
    for text in texts:
        if text is not None:
            waiting.append(text)
        if slices.used_up:
            pieces.append("".join(waiting).encode())
            waiting.clear()
            await slices.rest()
    pieces.append("".join(waiting).encode())
    slices.end()
    return Rendering(tuple(pieces), slices.work_s)


class BusyError(Exception):
    """The event loop is owed too much rest for pages that were rendered lately."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"too many pages were asked for; try again in {wait_s:.0f} s")
        self.wait_s = wait_s


class Pages:
    """Pages of a node: each rendered once for all who ask at the same time, and shown for a while."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._shown: dict[Hashable, tuple[Rendering, float, float]] = {}
        """With the time when each was begun, and the time until which each is shown."""
        self._rendering: dict[Hashable, asyncio.Task[tuple[Rendering, float]]] = {}
        self._turn = asyncio.Lock()
        self._rested = -math.inf
        """When the rests of all pages, one after the other, will be over."""

    async def page(self, key: Hashable, render: Callable[[], Awaitable[Rendering]]) -> ShownPage:
        """The page shown under the key, or the page that `render` makes.

        One page is rendered at a time, to its end even if no request waits any more. Raises BusyError,
        and the exceptions of `render`.
        """
        self._forget()
        shown = self._shown.get(key)
        if shown is not None:
            return ShownPage(shown[0], self._clock() - shown[1])
        rendering = self._rendering.get(key)
        if rendering is None:
            debt = self._rested - self._clock()
            if debt > LARGEST_DEBT_S:
                raise BusyError(debt - LARGEST_DEBT_S)
            rendering = self._rendering[key] = asyncio.ensure_future(self._render(key, render))
            rendering.add_done_callback(_seen)
        page, begun = await asyncio.shield(rendering)
        return ShownPage(page, self._clock() - begun)

    async def _render(
        self, key: Hashable, render: Callable[[], Awaitable[Rendering]]
    ) -> tuple[Rendering, float]:
        try:
            async with self._turn:
                begun = self._clock()
                page = await render()
                now = self._clock()
                self._rested = max(now, self._rested) + page.work_s * REST
                self._shown[key] = page, begun, self._rested
                asyncio.get_running_loop().call_later(self._rested - now, self._forget)
                return page, begun
        finally:
            del self._rendering[key]

    def _forget(self) -> None:
        """Drop pages whose time is over: they may be large."""
        now = self._clock()
        for key in [key for key, (_, _, until) in self._shown.items() if until <= now]:
            del self._shown[key]


def _seen(rendering: asyncio.Task[tuple[Rendering, float]]) -> None:
    """Take the error of a rendering: the requests that waited for it have got it."""
    if not rendering.cancelled():
        rendering.exception()


async def shown(
    request: web.Request,
    pages: Pages,
    key: Hashable,
    render: Callable[[], Awaitable[Rendering]],
    content_type: str,
) -> web.StreamResponse:
    """Answer with a page, as fast as the client reads it."""
    try:
        page = await pages.page(key, render)
    except BusyError as error:
        headers = {"Retry-After": str(math.ceil(error.wait_s))}
        return web.json_response({"error": str(error)}, status=503, headers=headers)
    headers = {"Content-Type": content_type, AGE_HEADER: str(math.ceil(page.age_s * 1000))}
    response = web.StreamResponse(headers=headers)
    response.content_length = page.rendering.size
    await response.prepare(request)
    for piece in page.rendering.pieces if request.method != "HEAD" else ():
        await response.write(piece)
    await response.write_eof()
    return response
