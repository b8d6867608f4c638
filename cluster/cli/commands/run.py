"""Running nodes: `quorate node`, and the work of `quorate up`."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from cluster.cli.commands.errors import CommandError, NodeEndedError, WrongUsageError
from cluster.cli.local.layout import LocalNode, PortInUseError, plan, prepare
from cluster.cli.local.supervisor import Supervisor
from cluster.config.models import load
from cluster.config.tables import ConfigError
from cluster.system.build import COMPILED, SOURCES, build
from cluster.system.data_directory import DataDirectoryError
from replication.journal import JournalError


@contextmanager
def _explained() -> Iterator[None]:
    """Errors of configuration, ports and directories, as errors of the command."""
    try:
        yield
    except ConfigError as error:
        raise WrongUsageError(str(error)) from error
    except (DataDirectoryError, PortInUseError) as error:
        raise CommandError(str(error)) from error


@_explained()
def run_cluster(
    nodes: int, data: Path, base_port: int, http_port: int, restart: bool, config_file: Path | None
) -> int:
    """Run nodes until Ctrl-C. Returns the exit code. `config_file`: see `quorate up --help`."""
    settings = _cluster_settings(config_file) if config_file is not None else {}
    planned = plan(nodes, data, base_port, http_port, settings)
    prepare(planned)
    supervisor = Supervisor(
        planned,
        restart=restart,
        report=lambda line: click.echo(line, err=True),
        on_all_ready=lambda pids: click.echo(_welcome(planned, pids)),
    )
    with asyncio.Runner() as runner:
        supervisor.heed_signals(runner.get_loop())
        click.echo(f"Starting {nodes} nodes, data in {data.absolute()}")
        code = runner.run(supervisor.run())
    click.echo("All nodes have stopped." if code == 0 else "Stopped after a failure.", err=code != 0)
    return code


def _cluster_settings(path: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    settings = tables.get("cluster", {})
    if set(tables) - {"cluster"} or not isinstance(settings, dict):
        raise ConfigError(f"{path}: may hold the table [cluster] only; `quorate up` sets the rest")
    if "nodes" in settings:
        raise ConfigError(f"{path}: cluster.nodes: `quorate up` sets the nodes; remove the key")
    return settings


_BUILDS: Final = {
    COMPILED: "compiled",
    SOURCES: "sources; `make up COMPILED=1` runs quorate compiled to C, as the wheel has it",
}
"""What `quorate up` says of each build."""


def _welcome(nodes: list[LocalNode], pids: dict[str, int]) -> str:
    lines = [""]
    for node in nodes:
        listen = node.config.listen
        lines.append(
            f"  {node.name}   amqp://{listen.amqp}   http://{listen.http}   pid {pids.get(node.name, '?')}"
        )
    first, last = nodes[0].config.listen, nodes[-1].config.listen
    url = "" if str(first.amqp) == "127.0.0.1:5672" else f" --url amqp://{first.amqp}"
    other = "" if str(last.amqp) == "127.0.0.1:5672" else f" --url amqp://{last.amqp}"
    status_url = "" if str(first.http) == "127.0.0.1:15672" else f" --url http://{first.http}"
    lines += [
        "",
        f"{len(nodes)} nodes are ready. Try, in another terminal:" if len(nodes) > 1 else "Ready. Try:",
        "",
        f'  quorate publish --queue hello{url} "first message"',
        f"  quorate get --queue hello{other}",
        f"  quorate status{status_url}",
        "",
        f"Console: http://{first.http}/console/",
        f"Build: {_BUILDS[build()]}",
        "",
        "Ctrl-C stops all nodes; messages in durable queues stay.",
    ]
    return "\n".join(lines)


@click.command()
@click.option(
    "--config",
    "config_file",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The node's TOML file; docs/configuration.md lists its keys.",
)
@click.option(
    "--restore-users",
    is_flag=True,
    help="Put the users of the configuration into the catalog, with every permission in the virtual host /: "
    "for a cluster in which no administrator can log in any more.",
)
@click.option("--supervised", is_flag=True, hidden=True)
@_explained()
def node(config_file: Path, restore_users: bool, supervised: bool) -> None:
    """Run one node until SIGINT or SIGTERM. Variables such as QUORATE_NODE__NAME count more than the file."""
    # The supervisor has written the files of its nodes: variables must not change them.
    config = load(config_file, {} if supervised else os.environ)
    if supervised:
        threading.Thread(target=_stop_with_supervisor, daemon=True).start()
    # Only this command needs the node's code; the others start faster without it.
    from cluster.process.fail_stop import NodeFailedError
    from cluster.process.run import run_node

    try:
        run_node(config, restores_users=restore_users)
    except NodeFailedError as error:
        raise NodeEndedError(f"node {config.name}: {error}", int(error.code)) from error
    except (JournalError, OSError) as error:
        raise CommandError(f"node {config.name}: {error}{_remedy(error)}") from error


def _remedy(error: JournalError | OSError) -> str:
    """The remedy, where the error's text does not name it."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ". Free space there and start the node again: it goes on from its journal."
    return ""


def _stop_with_supervisor() -> None:
    """Stop this node when standard input ends, which it does with the supervisor, even by SIGKILL: no node
    is left behind on its ports.
    """
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
