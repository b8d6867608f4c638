"""The nodes that `quorate up` runs on one machine: names, ports, directories and configuration files."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.config.addresses import Address
from cluster.config.models import NodeConfig, validate
from cluster.config.tables import ConfigError, read_secret
from cluster.config.toml_text import Scalar, TomlTable, toml_text
from cluster.system.data_directory import PRIVATE_DIRECTORY, DataDirectoryError, write_private
from replication.transport import CurveKeys, InvalidKeyError

HOST = "127.0.0.1"
KEY_FILE = "peer.key"
"""The file in a node's directory with its secret key, which is made once."""

PEER_OFFSET = 20_000
"""Distance of the port for peers from the AMQP port: added, or subtracted where the port would be too
high."""


class PortInUseError(Exception):
    """Another process uses a port that a node needs; the text names the port and the remedy."""


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One node to run: its configuration as models and as the file it is given."""

    config: NodeConfig
    file: Path
    text: str
    keys: CurveKeys
    """The key pair; `prepare` writes its secret key to `config.secret_key_file`."""

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def log_file(self) -> Path:
        return self.config.data_dir / "node.log"


def plan(
    nodes: int, data: Path, base_port: int, http_port: int, settings: Mapping[str, Any] | None = None
) -> list[LocalNode]:
    """Nodes n1 to n`nodes`; `settings` are keys of `[cluster]` to use instead of the defaults.

    Nodes keep the CURVE keys of earlier runs. Raises `ConfigError` for ports that are out of range or
    overlap, for mistakes in `settings`, and for a key that cannot be read.
    """
    _check_ranges(nodes, base_port, http_port)
    offset = PEER_OFFSET if base_port + PEER_OFFSET + nodes - 1 <= 65535 else -PEER_OFFSET
    listens: dict[str, TomlTable] = {
        f"n{i + 1}": {
            "peers": f"{HOST}:{base_port + offset + i}",
            "amqp": f"{HOST}:{base_port + i}",
            "http": f"{HOST}:{http_port + i}",
        }
        for i in range(nodes)
    }
    keys = {name: _keys_in(data.absolute() / name / KEY_FILE) for name in listens}
    members = {name: {**listen, "public_key": keys[name].public.decode()} for name, listen in listens.items()}
    shared: dict[str, Any] = {**(settings or {}), "nodes": members}
    planned = []
    for name, addresses in listens.items():
        directory = data.absolute() / name
        log = {"file": str(directory / "node.log")}
        own: dict[str, Scalar | TomlTable] = {
            "name": name,
            "data_dir": str(directory),
            "secret_key_file": str(directory / KEY_FILE),
            "listen": addresses,
            "log": log,
        }
        config = validate({**own, "cluster": shared}, "quorate up")
        text = toml_text({"node": own, "cluster": shared})
        planned.append(LocalNode(config, directory / "node.toml", text, keys[name]))
    return planned


def _keys_in(file: Path) -> CurveKeys:
    """The key pair of the secret key in the file, or a new one if there is no file. Raises `ConfigError`."""
    if not file.exists():
        return CurveKeys.generate()
    try:
        return CurveKeys.from_secret(read_secret(file, "secret key"))
    except InvalidKeyError as error:
        raise ConfigError(f"{file}: {error}") from None


def _check_ranges(nodes: int, base_port: int, http_port: int) -> None:
    ranges = {
        "--base-port (AMQP)": range(base_port, base_port + nodes),
        "--http-port (HTTP)": range(http_port, http_port + nodes),
    }
    for option, ports in ranges.items():
        if ports[0] < 1 or ports[-1] > 65535:
            raise ConfigError(f"{option}: ports {ports[0]} to {ports[-1]} are not all from 1 to 65535")
    offset = PEER_OFFSET if base_port + PEER_OFFSET + nodes - 1 <= 65535 else -PEER_OFFSET
    ranges["--base-port (peers)"] = range(base_port + offset, base_port + offset + nodes)
    listed = list(ranges.items())
    for place, (option, ports) in enumerate(listed):
        for other, others in listed[place + 1 :]:
            if ports.start < others.stop and others.start < ports.stop:
                raise ConfigError(
                    f"{option}: ports {ports[0]} to {ports[-1]} overlap those of {other}, "
                    f"{others[0]} to {others[-1]}: choose another --base-port or --http-port"
                )


def prepare(nodes: list[LocalNode]) -> None:
    """Make the data directories and write the configuration files.

    Raises `DataDirectoryError` if the directory holds another number of nodes, and `PortInUseError`.
    """
    top = nodes[0].config.data_dir.parent
    try:
        top.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        earlier = sum((path / "node.toml").exists() for path in top.iterdir())
        if earlier not in (0, len(nodes)):
            raise DataDirectoryError(
                f"data directory {top} belongs to a cluster of {earlier}: "
                f"use --nodes {earlier} or another --data"
            )
        _check_ports_free(nodes)
        for node in nodes:
            node.config.data_dir.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
            write_private(node.file, node.text)
            if not (key_file := node.config.data_dir / KEY_FILE).exists():
                write_private(key_file, node.keys.secret.decode() + "\n")
    except OSError as error:
        raise DataDirectoryError(f"data directory {top} cannot be used: {error}") from error


def _check_ports_free(nodes: list[LocalNode]) -> None:
    for node in nodes:
        listen = node.config.listen
        for use, address in (("AMQP", listen.amqp), ("HTTP", listen.http), ("peers", listen.peers)):
            if not is_free(address):
                raise PortInUseError(
                    f"port {address.port}, for {use} of {node.name}, is in use: stop its program, "
                    "or choose others with --base-port and --http-port"
                )


def is_free(address: Address) -> bool:
    """Whether a server could listen on an address of this machine now."""
    with socket.socket() as probe:
        # As servers do: connections of an earlier run in TIME_WAIT do not prevent binding then.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError:
            return False
        return True
