"""Nodes with CURVE keys form a cluster; a node with a wrong secret key does not start."""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.cli.commands.errors import CommandError
from cluster.cli.commands.http import request
from cluster.config.models import Member, NodeConfig, validate
from cluster.config.toml_text import TomlTable, toml_text
from cluster.system.data_directory import write_private
from replication.transport import CurveKeys
from tests.operations.test_commands import quorate
from tests.operations.test_local_cluster import free_plan

PATIENCE_S = 30.0


def write_nodes(data: Path, secrets: dict[str, CurveKeys]) -> dict[str, NodeConfig]:
    """Configuration files DATA/NAME.toml of nodes with keys; each has its secret in DATA/NAME.key."""
    planned = free_plan(len(secrets), data)
    members: dict[str, TomlTable] = {
        node.name: {
            **{key: str(value) for key, value in node.config.listen if key in Member.model_fields},
            "public_key": secrets[node.name].public.decode(),
        }
        for node in planned
    }
    configs = {}
    for node in planned:
        key_file = data / f"{node.name}.key"
        write_private(key_file, secrets[node.name].secret.decode())
        own: dict[str, str | TomlTable] = {
            "name": node.name,
            "data_dir": str(data / node.name),
            "secret_key_file": str(key_file),
            "listen": {key: str(value) for key, value in node.config.listen if value is not None},
        }
        write_private(data / f"{node.name}.toml", toml_text({"node": own, "cluster": {"nodes": members}}))
        configs[node.name] = validate({**own, "cluster": {"nodes": members}}, node.name)
    return configs


@contextmanager
def running(file: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "cluster", "node", "--config", str(file)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "not within the patience of this test"
        time.sleep(0.05)


def ready(config: NodeConfig) -> bool:
    try:
        return bool(request(f"http://{config.listen.http}/health/ready")["ready"])
    except CommandError:
        return False


def test_nodes_that_know_each_others_keys_replicate(tmp_path: Path) -> None:
    configs = write_nodes(tmp_path, {name: CurveKeys.generate() for name in ("n1", "n2", "n3")})
    with running(tmp_path / "n1.toml"), running(tmp_path / "n2.toml"), running(tmp_path / "n3.toml"):
        eventually(lambda: all(map(ready, configs.values())))
        url = f"amqp://{configs['n1'].listen.amqp}"
        assert quorate("publish", "-q", "x", "--url", url, "sealed").exit_code == 0
        other = f"amqp://{configs['n3'].listen.amqp}"
        assert quorate("get", "-q", "x", "--url", other).stdout == "sealed\n"


def test_a_secret_key_that_is_not_the_nodes_own_is_refused(tmp_path: Path) -> None:
    write_nodes(tmp_path, {"n1": CurveKeys.generate()})
    write_private(tmp_path / "n1.key", CurveKeys.generate().secret.decode())
    result = quorate("node", "--config", str(tmp_path / "n1.toml"))
    assert result.exit_code == 2
    assert "belongs to another public key than cluster.nodes.n1.public_key" in result.stderr


@pytest.mark.requirement("F5.3")
def test_a_node_without_a_key_does_not_start_and_says_what_to_do(tmp_path: Path) -> None:
    (planned,) = free_plan(1, tmp_path)
    tables = tomllib.loads(planned.text)
    del tables["node"]["secret_key_file"], tables["cluster"]["nodes"]["n1"]["public_key"]
    file = tmp_path / "keyless.toml"
    file.write_text(toml_text(tables))
    result = quorate("node", "--config", str(file))
    assert result.exit_code == 2
    assert "Run `quorate keygen FILE` for each node" in result.stderr
    assert not (tmp_path / "n1").exists()
