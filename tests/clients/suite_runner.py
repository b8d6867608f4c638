"""Runs pytest on another project's tests, which look for a broker where we have none.

python suite_runner.py AMQP_PORT HTTP_PORT pytest's arguments; in the project's directory.
"""

from __future__ import annotations

import socket
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest


def lead_to(ports: dict[int, int]) -> None:
    """Connections to a port of the table's left side go to the one on its right."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def led(address: Any) -> Any:
        return (address[0], ports.get(address[1], address[1])) if isinstance(address, tuple) else address

    # Never undone: it holds for the whole run of the suite.
    patch = pytest.MonkeyPatch()
    patch.setattr(socket.socket, "connect", lambda self, address: connect(self, led(address)))
    patch.setattr(socket.socket, "connect_ex", lambda self, address: connect_ex(self, led(address)))


def lead_to_node(amqp: str, http: str, *_: str) -> None:
    lead_to({5672: int(amqp), 15672: int(http)})


class RunningBroker:
    """For suites that start a broker in a container (`tests/docker_client.py`): it runs already."""

    def __init__(self, *_: object) -> None:
        """There is nothing to choose."""

    def run(self, image: str, ports: list[str], **_: object) -> Any:
        made = import_module("tests.docker_client").ContainerInfo
        return made(id=image, host="localhost", ports={port: int(port.split("/")[0]) for port in ports})

    def kill(self, container: str) -> None:
        """It goes on."""

    remove = kill


def replace_containers() -> None:
    containers: Any = import_module("tests.docker_client")
    containers.check_docker_available = lambda: None
    containers.DockerClient = RunningBroker


def main(amqp: str, http: str, *arguments: str) -> int:
    lead_to_node(amqp, http)
    sys.path.insert(0, str(Path.cwd()))
    if Path("tests/docker_client.py").exists():
        replace_containers()
    return int(pytest.main(list(arguments)))


if __name__ == "__mp_main__":
    # A process that a suite spawned: multiprocessing gives it these arguments, but nothing that was patched.
    lead_to_node(*sys.argv[1:])

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
