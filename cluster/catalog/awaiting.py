"""Awaiting an answer that comes by a callback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from cluster.catalog.access.control import Answer
from node.refusal import Refusal


async def answered(begin: Callable[[Answer], None]) -> Any:
    """The value that `begin` hands to the callback, at once or in a later turn. Raises the Refusal instead
    where `begin` hands one over.
    """
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answer(value: Any, refusal: Refusal | None) -> None:
        if done.done():
            return
        if refusal is None:
            done.set_result(value)
        else:
            done.set_exception(refusal)

    begin(answer)
    return await done
