"""The cluster of deploy/compose.yml, driven with docker-compose: images are there, a docker daemon runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.request
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pika

from chaos.targets.ports import free_ports
from tests.processes.nodes import until
from tests.structure.tree import ROOT

PROJECT: Final = "quorate-test"


NODES: Final = ("n1", "n2", "n3")
FOURTH: Final = "n4"
"""That of deploy/n4.yml."""

_ports: Final = {name: free_ports(2) for name in (*NODES, FOURTH)}
"""On loopback, AMQP and HTTP."""

_PUBLISHED: Final = {
    f"QUORATE_{name.upper()}_{protocol}_PORT": str(port)
    for name, ports in _ports.items()
    for protocol, port in zip(("AMQP", "HTTP"), ports, strict=True)
}

PROMETHEUS: Final = f"127.0.0.1:{free_ports(1)[0]}"
"""Where the Prometheus of the compose file is published."""

_PUBLISHED["PROMETHEUS_PORT"] = PROMETHEUS.rpartition(":")[2]

READY_S: Final = 60.0

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def compose(*arguments: str, project: str = PROJECT, more: Sequence[Path] = ()) -> str:
    """The output of docker-compose (or docker compose). Where the command fails the test fails with its
    errors.

    `more`: files to be merged into those of the tree.
    """
    program = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    command = [
        *program,
        "--project-name",
        project,
        "--file",
        str(ROOT / "deploy" / "compose.yml"),
        "--file",
        str(ROOT / "deploy" / "n4.yml"),
        *(word for file in more for word in ("--file", str(file))),
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | _PUBLISHED)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"docker {' '.join(arguments)}:\n{done.stderr}"
    return done.stdout


def ready(node: str) -> bool:
    try:
        with _direct.open(f"http://127.0.0.1:{_ports[node][1]}/health/ready", timeout=2.0) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def wait_ready() -> None:
    for node in NODES:
        until(partial(ready, node), f"{node} is ready", READY_S)


def password() -> str:
    words = "run", "--rm", "--no-deps", "-T", "--entrypoint", "cat", "founding", "/founding/secret/password"
    return compose(*words).strip()


def metrics(node: str) -> dict[str, float]:
    """Samples without labels, by name."""
    with _direct.open(f"http://127.0.0.1:{_ports[node][1]}/metrics", timeout=5.0) as answer:
        lines = answer.read().decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#") and "{" not in line)
    return {name: float(value) for name, _, value in samples}


def connect(node: str, secret: str) -> pika.BlockingConnection:
    credentials = pika.PlainCredentials("quorate", secret)
    return pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", _ports[node][0], credentials=credentials, socket_timeout=10)
    )
