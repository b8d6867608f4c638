"""How a node becomes one of the cluster: it tells the catalog that it runs, and gets back a lost disk."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from cluster.catalog.awaiting import answered
from cluster.catalog.membership.directory import addresses
from cluster.process.founding import found_users, restore_users

if TYPE_CHECKING:
    from cluster.process.node import NodeProcess

Submitted = Callable[[str, dict[str, Any]], Awaitable[None]]


class Joining:
    """The beginning of a process's part in the cluster."""

    def __init__(self, process: NodeProcess, restores_users: bool) -> None:
        self._process = process
        self._restores_users = restores_users

    async def join(self) -> None:
        """Tell the catalog of this incarnation, and wait until every node knows.

        A node that is to be added waits for that here, as long as it takes.
        """
        process = self._process
        config, state = process.config, process.broker.catalog.state
        own = addresses(config.own)
        if config.joins:
            if config.name not in state.nodes:
                process.log.info("waits_to_be_added", command=add_command(process))
        elif not state.members.founded:
            founders = {name: addresses(node) for name, node in config.cluster.nodes.items()}
            await self._submitted("found_members", {"nodes": founders})
        formats = process.broker.formats.own
        incarnation = {"name": config.name, "front_end": process.front_end_id, "formats": formats}
        await self._submitted("start_node", {**incarnation, **own})
        await found_users(config.cluster, state.access, self._submitted, process.log)
        if self._restores_users:
            await restore_users(config.cluster, self._submitted, process.log)

    async def _submitted(self, name: str, arguments: dict[str, Any]) -> None:
        await answered(partial(self._process.submit, name, arguments))

    def end_rebuilding(self) -> None:
        """Once everything lost is back this node votes again, also after a restart."""
        process = self._process
        host = process.broker.host
        if host.rebuilding and process.status.listening and process.broker.partitions.whole:
            host.rebuilt()
            process.directory.end_rebuilding()


def add_command(process: NodeProcess) -> str:
    """The shell command with which an administrator adds the node."""
    said = f"quorate cluster add {process.config.name} --address {process.config.own.peers}"
    return f"{said} --public-key {shlex.quote(process.transport.config.keys.public.decode())}"
