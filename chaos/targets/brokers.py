"""The interface of a broker to a local target: its files, its commands, its owners."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from chaos.clients import Place

_direct: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Spot:
    """The place of a node. `prefix` are the words before each command that is to run in the node's
    network.
    """

    name: str
    host: str
    amqp: int
    http: int
    peers: int
    directory: Path
    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    small_disk: bool = False

    @property
    def place(self) -> Place:
        return Place(self.name, self.host, self.amqp)


class Broker(Protocol):
    """A broker, each node of which is one process or one group of processes."""

    name: str
    at_most_once: dict[str, Any] | None

    def prepare(self, spots: Sequence[Spot]) -> None:
        """Write the nodes' files into their directories."""

    def command(self, spot: Spot) -> list[str]: ...

    def environment(self, spot: Spot) -> dict[str, str]: ...

    def found(self, spots: Sequence[Spot]) -> None:
        """Join running nodes to a cluster."""

    def ready(self, spot: Spot) -> bool: ...

    def owners(self, spots: Sequence[Spot]) -> dict[str, str]:
        """The owner of each queue that has one now, by queue."""


Login = tuple[str, str]
"""A user and the password."""


def fetch(url: str, seconds: float = 2.0, login: Login | None = None) -> bytes | None:
    """The body of the answer; None unless the answer is 200 and comes in time."""
    asked = urllib.request.Request(url)
    if login is not None:
        asked.add_header("Authorization", "Basic " + base64.b64encode(":".join(login).encode()).decode())
    try:
        with _direct.open(asked, timeout=seconds) as response:
            return bytes(response.read()) if response.status == 200 else None
    except OSError:
        return None


def fetch_json(url: str, login: Login, seconds: float = 3.0) -> dict[str, Any] | None:
    answer = fetch(url, seconds, login)
    return None if answer is None else dict(json.loads(answer))
