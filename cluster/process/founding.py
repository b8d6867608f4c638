"""The users of the configuration: the first users of a new cluster, or a way back in for administrators."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from cluster.catalog.access.control import Access
from cluster.catalog.access.state import EVERYTHING
from cluster.config.models import ClusterConfig
from cluster.log.event_log import EventLog

FIRST_VHOST: Final = "/"

Submitted = Callable[[str, dict[str, Any]], Awaitable[None]]
"""Submits a command to the catalog, and waits until every node sees its effect. Raises Refusal."""


async def found_users(config: ClusterConfig, access: Access, submitted: Submitted, log: EventLog) -> None:
    """Submit the users of the configuration to the catalog, which takes them once. Raises ConfigError."""
    if not access.state.founded:
        users = await _hashed(config, access)
        await submitted("found_access", {"vhost": FIRST_VHOST, "users": users})
    unknown = sorted(config.users.keys() - access.state.users.keys())
    if unknown:
        log.warning(
            "configured_users_unknown",
            users=unknown,
            reason="users are read when a cluster is founded, or with --restore-users",
        )


async def restore_users(config: ClusterConfig, access: Access, submitted: Submitted, log: EventLog) -> None:
    """Put the users into the catalog as into a new one: for a cluster whose administrators cannot log in.

    Raises ConfigError.
    """
    everything = dict.fromkeys(("configure", "write", "read"), EVERYTHING)
    users = await _hashed(config, access)
    await submitted("declare_vhost", {"vhost": FIRST_VHOST})
    for name, user in users.items():
        await submitted("put_user", {"user": name, **user})
        await submitted("set_permissions", {"user": name, "vhost": FIRST_VHOST, **everything})
    log.warning("users_restored", users=sorted(users))


async def _hashed(config: ClusterConfig, access: Access) -> dict[str, dict[str, Any]]:
    """The users in the form of the catalog's command `put_user`; hashing is slow on purpose."""
    founders = await asyncio.get_running_loop().run_in_executor(None, config.founders)
    return {
        name: {**access.kept(str(founder.password_hash)), "tags": list(founder.tags)}
        for name, founder in founders.items()
    }
