"""How a node leaves when it is told to stop: ports, ownership, its clients, then what they gave back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cluster.process.handover import Handover

if TYPE_CHECKING:
    from cluster.process.node import NodeProcess

HANDOVER_S: Final = 5.0
"""How long the hand-over of what this node leads may take: several tries for each partition."""

CLOSING_S: Final = 1.0
"""How long clients have to agree to the closing of their connections."""

RETURNING_S: Final = 2.0
"""How long what the clients had may take to be in the logs of its queues."""

STEP_S: Final = 0.005


async def depart(process: NodeProcess) -> None:
    """Leave in order, within the sum of the bounds above; what is not done in time is left to the others.

    Clients stay connected while their queues get other owners, so that they are told what is confirmed. No
    client is let in any more: it would be given messages only to lose them a moment later.
    """
    broker = process.broker
    process.listener.close_ports()
    handover = Handover(broker.host, lambda: broker.connected)

    def handed_over() -> bool:
        if handover.done():
            return True
        handover.step(process.clock())
        process.wanted()
        return False

    in_time = await _until(handed_over, HANDOVER_S)
    process.log.info("handed_over", complete=in_time)
    for client in list(process.listener.clients.values()):
        # 0-9-1 §4.2.2 has the peer answer connection.close. A socket closed with octets unread would be
        # reset, and the client might never see why.
        client.force_close("the node is shutting down")
    await _until(lambda: not process.listener.clients, CLOSING_S)
    process.listener.stop()
    await asyncio.sleep(0)

    def returned() -> bool:
        broker.link_turns.flush_waiting()
        process.wanted()
        return not any(link.unacknowledged for link in broker.links.values() if link.owner is not None)

    await _until(returned, RETURNING_S)


async def _until(condition: Callable[[], bool], seconds: float) -> bool:
    """Let the node go on until the condition holds; False when it does not in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(STEP_S)
    return True
