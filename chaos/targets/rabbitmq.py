"""Nodes of RabbitMQ, from Debian's package `rabbitmq-server`, for comparison.

The nodes have the package's settings, except for ports, paths, and schedulers that do not spin while they
wait, because all nodes share one machine. Each node needs a network of its own, as each has its own epmd at
the same port.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from chaos.targets.brokers import Spot
from chaos.targets.target import TargetError, shell, until

PROGRAMS: Final = Path("/usr/lib/rabbitmq/lib")
DISTRIBUTION: Final = 25672
HEADER: Final = b"AMQP\x00\x00\x09\x01"
"""Asks for AMQP 0-9-1 (§4.2.2); a node that takes clients answers with a method frame, whose type is 1."""

COOKIE: Final = "chaos"
_CONFIGURATION: Final = """\
listeners.tcp.1 = 0.0.0.0:{amqp}
loopback_users = none
disk_free_limit.absolute = 100MB
"""
_JOIN: Final = "rabbit:stop(), ok = rabbit_mnesia:join_cluster('{node}', disc), rabbit:start()."
_RUNNING: Final = "length(rabbit_nodes:all_running())."
_OWNERS: Final = (
    "[{binary_to_list(element(4, amqqueue:get_name(Q))), element(2, amqqueue:get_pid(Q))} "
    "|| Q <- rabbit_amqqueue:list(), amqqueue:is_quorum(Q)]."
)
_OWNER: Final = re.compile(r"""\{"([^"]+)",\s*'(\w+)@""")


class RabbitMQ:
    """See chaos.targets.brokers.Broker."""

    name = "rabbitmq"
    at_most_once: dict[str, Any] | None = None

    def __init__(self) -> None:
        found = sorted(PROGRAMS.glob("rabbitmq_server-*/sbin"))
        if not found:
            raise TargetError(f"no RabbitMQ in {PROGRAMS}: install Debian's package rabbitmq-server")
        self._programs = found[-1]

    def prepare(self, spots: Sequence[Spot]) -> None:
        for spot in spots:
            cookie = spot.directory / ".erlang.cookie"
            cookie.write_text(COOKIE, encoding="ascii")
            cookie.chmod(0o400)
            (spot.directory / "plugins").write_text("[].", encoding="ascii")
            text = _CONFIGURATION.format(amqp=spot.amqp)
            (spot.directory / "rabbitmq.conf").write_text(text, encoding="ascii")

    def command(self, spot: Spot) -> list[str]:
        return [str(self._programs / "rabbitmq-server")]

    def environment(self, spot: Spot) -> dict[str, str]:
        return os.environ | {
            "HOME": str(spot.directory),
            "RABBITMQ_NODENAME": _node(spot),
            "RABBITMQ_USE_LONGNAME": "true",
            "RABBITMQ_DIST_PORT": str(DISTRIBUTION),
            "RABBITMQ_CONFIG_FILE": str(spot.directory / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(spot.directory / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none",
            "RABBITMQ_LOG_BASE": str(spot.directory),
            "RABBITMQ_MNESIA_BASE": str(spot.directory / "mnesia"),
        }

    def found(self, spots: Sequence[Spot]) -> None:
        """Join the nodes as `rabbitmqctl stop_app`, `join_cluster` and `start_app` do."""
        until(lambda: all(map(self.ready, spots)), "all nodes are up")
        for spot in spots[1:]:
            _ask(spot, _JOIN.format(node=_node(spots[0])))
        everybody = f"{{ok, {len(spots)}}}"
        until(lambda: _ask(spots[0], _RUNNING).strip() == everybody, "the nodes are a cluster")

    def ready(self, spot: Spot) -> bool:
        try:
            with socket.create_connection((spot.host, spot.amqp), timeout=1.0) as connection:
                connection.sendall(HEADER)
                return connection.recv(1) == b"\x01"
        except OSError:
            return False

    def owners(self, spots: Sequence[Spot]) -> dict[str, str]:
        for spot in spots:
            if self.ready(spot):
                return dict(_OWNER.findall(_ask(spot, _OWNERS)))
        return {}


def _ask(spot: Spot, expression: str) -> str:
    """The value of the expression on the node, as Erlang prints it."""
    return shell("erl_call", "-c", COOKIE, "-name", _node(spot), "-e", given=expression + "\n")


def _node(spot: Spot) -> str:
    return f"{spot.name}@{spot.host}"
