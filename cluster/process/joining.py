"""How a node becomes one of the cluster: it tells the catalog that it runs, and gets back a lost disk."""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cluster.access.founding import found_users, restore_users
from cluster.membership.directory import addresses
from cluster.process.awaiting import answered

if TYPE_CHECKING:
    from cluster.process.node import NodeProcess

REBUILDING_NAME: Final = "rebuilding"
"""A file that says that this node's disk is not whole yet: until then it gives no votes."""

Submitted = Callable[[str, dict[str, Any]], Awaitable[None]]


class Joining:
    """The beginning of a process's part in the cluster."""

    def __init__(self, process: NodeProcess, restores_users: bool) -> None:
        self._process = process
        self._restores_users = restores_users
        self._rebuilding = process.config.data_dir / REBUILDING_NAME

    @property
    def rebuilding(self) -> bool:
        """Whether this node's disk was not whole when the last process ended."""
        return self._rebuilding.exists()

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

    def begin_rebuilding(self) -> None:
        """Before anything is written: a restart must not take the new journal for the lost one."""
        if not self._process.config.joins:
            reason = "this node's disk is empty, but the cluster is not new"
            self._process.log.warning("rebuilding", reason=reason)
        self._rebuilding.touch()
        directory = os.open(self._rebuilding.parent, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)

    def end_rebuilding(self) -> None:
        """Once everything lost is back this node votes again, also after a restart."""
        broker = self._process.broker
        if broker.host.rebuilding and self._process.status.listening and broker.partitions.whole:
            broker.host.rebuilt()
            self._rebuilding.unlink()
            self._process.log.info("rebuilt")


def add_command(process: NodeProcess) -> str:
    """What an administrator says to add the node, as a shell takes it."""
    said = f"quorate cluster add {process.config.name} --address {process.config.own.peers}"
    return f"{said} --public-key {shlex.quote(process.transport.config.keys.public.decode())}"
