"""Nodes of a test with TLS ports."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from cluster.cli.local.layout import is_free
from cluster.config.addresses import Address
from cluster.config.models import parse
from tests.processes.certificates import Authority, KeyPair
from tests.processes.nodes import Node

TLS_PORTS: Final = range(24_000, 27_000)


def free_port() -> int:
    """A port of loopback on which no program listens."""
    chance = random.Random()
    while not is_free(Address("127.0.0.1", port := chance.choice(TLS_PORTS))):
        pass
    return port


def secure(node: Node, authority: Authority, server: KeyPair, **ports: int) -> None:
    """Have a node that is not started yet listen with this certificate on ports, by their names in
    `[node.listen]`, and ask clients for certificates of the authority.
    """
    listening = "".join(f'{name} = "127.0.0.1:{port}"\n' for name, port in ports.items())
    text = node.local.text.replace("[node.listen]\n", "[node.listen]\n" + listening)
    text += (
        f'\n[node.tls]\ncertificate = "{server.certificate}"\nkey = "{server.key}"\n'
        f'ca = "{authority.certificate}"\nverify = "optional"\n'
    )
    node.local.file.write_text(text, encoding="utf-8")
    node.local = replace(node.local, config=parse(text, "node.toml"), text=text)
