"""Joins the cluster: tells the catalog that this process of the node runs, and the configured users."""

from __future__ import annotations

import shlex
from functools import partial
from typing import Any

from cluster.catalog.access.control import Access, Submit
from cluster.catalog.awaiting import answered
from cluster.catalog.membership.directory import addresses_of
from cluster.catalog.state import CatalogState
from cluster.config.models import NodeConfig
from cluster.log.event_log import EventLog
from cluster.process.founding import found_users, restore_users


class Joining:
    """The start of a node's process as a member of the cluster."""

    def __init__(
        self,
        config: NodeConfig,
        state: CatalogState,
        access: Access,
        submit: Submit,
        log: EventLog,
        add_command: str,
        restores_users: bool,
    ) -> None:
        """`state` is that of this node's catalog. `add_command` is the command with which an administrator
        adds the node.
        """
        self._config = config
        self._state = state
        self._access = access
        self._submit = submit
        self.log = log
        self._add_command = add_command
        self._restores_users = restores_users

    async def join(self, incarnation: dict[str, Any]) -> None:
        """Tell the catalog this incarnation (`Formats.incarnation`), and wait until every node has applied
        that.

        A node that an administrator has yet to add waits without limit. Raises Refusal, and ConfigError for
        the configured users.
        """
        config, state = self._config, self._state
        own = addresses_of(config.own)
        if config.joins:
            if config.name not in state.nodes:
                self.log.info("waits_to_be_added", command=self._add_command)
        elif not state.members.founded:
            founders = {name: addresses_of(node) for name, node in config.cluster.nodes.items()}
            await self._submitted("found_members", {"nodes": founders})
        await self._submitted("start_node", {**incarnation, **own})
        await found_users(config.cluster, self._access, self._submitted, self.log)
        if self._restores_users:
            await restore_users(config.cluster, self._access, self._submitted, self.log)

    async def _submitted(self, name: str, arguments: dict[str, Any]) -> None:
        await answered(partial(self._submit, name, arguments))


def add_command(config: NodeConfig, public_key: bytes) -> str:
    """The shell command with which an administrator adds the node."""
    said = f"quorate cluster add {config.name} --address {config.own.peers}"
    return f"{said} --public-key {shlex.quote(public_key.decode())}"
