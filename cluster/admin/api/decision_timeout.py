"""Waiting for the cluster's decision, for a limited time: a cluster without a majority decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from cluster.admin.api.errors import ApiError
from cluster.catalog.access.control import Answer
from cluster.catalog.awaiting import answered

DECISION_TIMEOUT_S: Final = 30.0


async def decided(begin: Callable[[Answer], None]) -> Any:
    """The value that `begin(answer)` answers with. Raises its Refusal, and ApiError (503)."""
    return await in_time(answered(begin))


async def in_time(answer: Awaitable[Any]) -> Any:
    """Raises ApiError (503) when the answer takes too long; the cluster may still carry the request out."""
    try:
        return await asyncio.wait_for(answer, DECISION_TIMEOUT_S)
    except TimeoutError:
        raise ApiError(503, "timeout", "the cluster did not answer: is a majority of nodes up?") from None


async def told_in_time(ask: Callable[[Callable[[list[Any]], None]], None]) -> list[Any]:
    """The list that an owner answers with, at once or in a later turn. Raises ApiError (503)."""
    answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    def take(value: list[Any]) -> None:
        if not answer.done():
            answer.set_result(value)

    ask(take)
    found: list[Any] = await in_time(answer)
    return found
