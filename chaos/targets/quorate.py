"""Nodes of quorate, as `quorate node --config FILE`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from chaos.targets.brokers import Login, Spot, fetch, fetch_json
from chaos.targets.target import shell

ROOT: Final = Path(__file__).resolve().parents[2]
QUORATE: Final = (sys.executable, "-m", "cluster")
_ENVIRONMENT: Final = {
    name: value
    for name, value in (os.environ | {"PYTHONPATH": str(ROOT)}).items()
    if name != "PYTHONDONTWRITEBYTECODE"
}
SMALL_DISK_LIMIT_BYTES: Final = 32 << 20
"""The limit of free octets for nodes with a small disk (chaos.targets.disks)."""


class Quorate:
    """See chaos.targets.brokers.Broker."""

    name = "quorate"
    at_most_once: dict[str, Any] | None = {"x-semantics": "at-most-once"}  # noqa: RUF012

    def prepare(self, spots: Sequence[Spot]) -> None:
        for spot in spots:
            password = spot.directory / "password"
            password.write_text("guest\n", encoding="utf-8")
            password.chmod(0o600)
        keys = {spot.name: _key(spot) for spot in spots}
        for spot in spots:
            text = _configuration(spot, spots, keys)
            (spot.directory / "node.toml").write_text(text, encoding="utf-8")

    def command(self, spot: Spot) -> list[str]:
        file = str(spot.directory / "node.toml")
        return [*QUORATE, "node", "--config", file]

    def environment(self, spot: Spot) -> dict[str, str]:
        """Keep Python's bytecode beside the sources, as an installation does, so that a node does not compile
        them at each start.
        """
        return _ENVIRONMENT

    def found(self, spots: Sequence[Spot]) -> None:
        """Nothing to do: the nodes find each other by their configuration."""

    def ready(self, spot: Spot) -> bool:
        return fetch(f"http://{spot.host}:{spot.http}/health/ready") is not None

    def owners(self, spots: Sequence[Spot]) -> dict[str, str]:
        return owners_told(f"http://{spot.host}:{spot.http}" for spot in spots)


def owners_told(urls: Iterable[str], login: Login = ("guest", "guest")) -> dict[str, str]:
    """The owner of each queue, by the first node that answers."""
    for url in urls:
        report = fetch_json(url + "/api/status", login)
        if report is not None:
            return {row["name"]: row["owner"] for row in report["queues"]}
    return {}


def _key(spot: Spot) -> str:
    """The node's public key; its secret key is in a file. Nodes on loopback need no keys."""
    file = spot.directory / "key"
    return shell(*QUORATE, "keygen", file, environment=_ENVIRONMENT).strip()


def _configuration(spot: Spot, spots: Sequence[Spot], keys: Mapping[str, str]) -> str:
    def addresses(one: Spot) -> str:
        return "".join(
            f'{key} = "{one.host}:{port}"\n'
            for key, port in (("amqp", one.amqp), ("http", one.http), ("peers", one.peers))
        )

    alarms = f"[cluster.alarms]\ndisk_free_limit_bytes = {SMALL_DISK_LIMIT_BYTES}\n\n"
    limit = alarms if spot.small_disk else ""
    members = "".join(
        f"[cluster.nodes.{one.name}]\npublic_key = '{keys[one.name]}'\n{addresses(one)}\n" for one in spots
    )
    return (
        f'[node]\nname = "{spot.name}"\ndata_dir = "{spot.directory / "data"}"\n'
        f'secret_key_file = "{spot.directory / "key"}"\n\n'
        f"[node.listen]\n{addresses(spot)}\n"
        f'[cluster]\nname = "chaos"\nloopback_users = []\n\n{limit}'
        f'[cluster.users.guest]\npassword_file = "{spot.directory / "password"}"\n\n{members}'
    )
