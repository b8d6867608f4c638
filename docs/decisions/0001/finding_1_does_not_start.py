"""raftos cannot start a node on Python 3.10 or newer: `asyncio.Queue` takes no `loop` any more."""

from __future__ import annotations

import asyncio

from evidence import raftos_directory, verdict


async def start() -> str:
    import raftos

    try:
        await raftos.register("127.0.0.1:0", cluster=[], loop=asyncio.get_running_loop())
    except TypeError as error:
        return str(error)
    return ""


with raftos_directory():
    error = asyncio.run(start())

verdict("raftos fails to start on Python 3.10 and newer", "loop" in error, f"TypeError: {error}")
