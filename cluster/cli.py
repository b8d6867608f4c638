"""The `quorate` command.

Exit codes: 0 done; 1 it did not work (the message says what to do); 2 wrong usage or configuration;
3 nothing to get; 130 interrupted.
"""

from __future__ import annotations

from typing import Any

import click

from cluster.commands.bindings import bindings
from cluster.commands.cluster import cluster
from cluster.commands.connections import connections
from cluster.commands.definitions import definitions
from cluster.commands.errors import CommandError, WrongUsageError
from cluster.commands.exchanges import exchanges
from cluster.commands.logs import logs
from cluster.commands.messages import consume, get, publish
from cluster.commands.permissions import permissions, topic_permissions
from cluster.commands.policies import policies
from cluster.commands.queues import queues
from cluster.commands.run import node, up
from cluster.commands.secrets import hash_password, keygen
from cluster.commands.status import status
from cluster.commands.users import users
from cluster.commands.vhosts import vhosts
from cluster.config.tables import ConfigError
from cluster.local.layout import PortInUseError
from cluster.process.data_directory import DataDirectoryError
from replication.transport import ListenError


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            raise WrongUsageError(str(error)) from error
        except (DataDirectoryError, PortInUseError, ListenError) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            ctx.exit(130)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="quorate", message="quorate %(version)s")
def main() -> None:
    """A message broker cluster: any AMQP client, queues replicated by Raft."""


for _command in (
    up, node, status, publish, consume, get, keygen, hash_password,
    vhosts, users, permissions, topic_permissions,
    queues, exchanges, bindings, policies, connections, definitions, cluster, logs,
):  # fmt: skip
    main.add_command(_command)


if __name__ == "__main__":
    main(prog_name="quorate")
