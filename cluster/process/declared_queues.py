"""Declares the queues of the configuration when a node starts (requirement D21)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from cluster.catalog.awaiting import answered
from cluster.catalog.definitions import NodeDefinition
from cluster.catalog.members import Members
from cluster.catalog.observer import Observer
from cluster.config.models import ClusterConfig
from cluster.config.tables import ConfigError
from cluster.gateway.broker_port import FrontEnd
from cluster.log.event_log import EventLog
from node.message.streams import X_UNDERLYING_TOPIC
from node.refusal import HomeNodeDownError, OutsideDomainError, Refusal
from node.session.command_limits import CommandLimitError, check_command
from node.session.commands import DeclareQueue
from node.session.filter_arguments import unknown_argument
from node.session.ports import QueueDeclaration

DECLARED_AT_ONCE: Final = 128
"""Declarations on their way to the catalog at once."""


class FirstStarts(Observer):
    """Waits for the members of a new cluster: before a member has started, its release is not known."""

    def __init__(self, members: Members, known: Callable[[str], bool]) -> None:
        """`known`: whether all members carry out the argument of queues with this name."""
        self._members, self._known = members, known
        self._changed = asyncio.Event()

    def node_started(self, node: NodeDefinition, previous: int) -> None:
        self._changed.set()

    def members_changed(self) -> None:
        self._changed.set()

    def replaced(self) -> None:
        self._changed.set()

    async def awaited(self, declarations: Iterable[QueueDeclaration], log: EventLog) -> None:
        """Wait as long as one of the queues would be refused because a member has not started yet."""
        asked = [one.arguments for one in declarations]
        told = False
        while (absent := self._members.never_started) and any(
            unknown_argument(one, self._known) is not None for one in asked
        ):
            if not told:
                log.info("waits_for_first_starts", nodes=absent)
                told = True
            self._changed.clear()
            await self._changed.wait()


async def declare_queues(
    config: ClusterConfig, front_end: FrontEnd, starts: FirstStarts, log: EventLog
) -> None:
    """Declare all queues; returns once every node sees them. Raises ConfigError with a line for each queue
    that is refused, or that is there and is another one.
    """
    declarations, wrong = dict(_declarations(config)), list[str]()
    await starts.awaited((one for _, one in declarations.values()), log)
    places = asyncio.Semaphore(DECLARED_AT_ONCE)

    async def declare(vhost: str, declaration: QueueDeclaration) -> str:
        async with places:
            try:
                await answered(partial(front_end.declare_queue, vhost, declaration, 0))
            except HomeNodeDownError:
                # The queue is there, on a node that is down.
                return ""
            except OutsideDomainError:
                # The nodes of its domain declare the queue.
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
