"""Declares the queues of the configuration when a node starts (requirement D21)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Final

from cluster.catalog.awaiting import answered
from cluster.catalog.members import Members
from cluster.config.models import ClusterConfig
from cluster.config.tables import ConfigError
from cluster.gateway.broker_port import FrontEnd
from cluster.log.event_log import EventLog
from node.message.streams import X_UNDERLYING_TOPIC
from node.refusal import HomeNodeDownError, Refusal
from node.session.command_limits import CommandLimitError, check_command
from node.session.commands import DeclareQueue
from node.session.ports import QueueDeclaration

DECLARED_AT_ONCE: Final = 128
"""Declarations on their way to the catalog at once."""


LOOK_S: Final = 0.02
"""Seconds between two looks at the members of a new cluster."""


async def declare_queues(config: ClusterConfig, front_end: FrontEnd, members: Members, log: EventLog) -> None:
    """Declare all queues; returns once every node sees them. Raises ConfigError with a line for each queue
    that is refused, or that is there and is another one.
    """
    declarations, wrong = dict(_declarations(config)), list[str]()
    if declarations:
        await _all_started(members, log)
    places = asyncio.Semaphore(DECLARED_AT_ONCE)

    async def declare(vhost: str, declaration: QueueDeclaration) -> str:
        async with places:
            try:
                await answered(partial(front_end.declare_queue, vhost, declaration, 0))
            except HomeNodeDownError:
                # The queue is there, on a node that is down.
                return ""
            except Refusal as refusal:
                return str(refusal)
        return ""

    # A queue over a stream needs the stream.
    for over in (False, True):
        these = {
            key: one for key, one in declarations.items() if (X_UNDERLYING_TOPIC in one[1].arguments) is over
        }
        refusals = await asyncio.gather(*(declare(*one) for one in these.values()))
        wrong += [f"{key}: {refusal}" for key, refusal in zip(these, refusals, strict=True) if refusal]
    if wrong:
        raise ConfigError("\n".join(wrong))


async def _all_started(members: Members, log: EventLog) -> None:
    """Wait until every member of a new cluster has told its format level. Until then a queue with arguments
    of this release would be refused.
    """
    if members.never_started:
        log.info("waits_for_first_starts", nodes=members.never_started)
    while members.never_started:
        await asyncio.sleep(LOOK_S)


def _declarations(config: ClusterConfig) -> Iterator[tuple[str, tuple[str, QueueDeclaration]]]:
    """Virtual host and declaration by the keys of their tables. Raises ConfigError."""
    for name, queue in config.queues.items():
        key = f"cluster.queues.{name}"
        arguments = dict(queue.arguments)
        if queue.type is not None:
            arguments["x-queue-type"] = queue.type
        declaration = QueueDeclaration(queue.name or name, True, False, False, arguments)
        try:
            check_command(DeclareQueue(declaration))
        except CommandLimitError as error:
            raise ConfigError(f"{key}: {error}") from None
        yield key, (queue.vhost, declaration)
