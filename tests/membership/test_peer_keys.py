"""With whom a node speaks, and by which key, where the catalog knows of none: it ran without keys before."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cluster.process.peers import FILE_NAME, Peers


class Transport:
    """Keeps who was met, where, and by which key."""

    def __init__(self) -> None:
        self.met: dict[str, tuple[str, bytes]] = {}

    def add_peer(self, name: str, address: str, key: bytes) -> None:
        self.met[name] = (address, key)

    def remove_peer(self, name: str) -> None:
        del self.met[name]


def peers_of(directory: Path, catalog: dict[str, Any]) -> tuple[Peers, Transport]:
    """Of node n1, whose configuration has n2 with a key; `catalog` are the nodes that it knows from there."""
    nodes = {name: SimpleNamespace(peers=f"h:{place}", public_key=f"key {name}") for place, name in
             enumerate(("n1", "n2"))}  # fmt: skip
    transport = Transport()
    config: Any = SimpleNamespace(name="n1", data_dir=directory, cluster=SimpleNamespace(nodes=nodes))
    used: Any = transport
    return Peers(config, used, lambda *_: None, lambda: catalog, lambda _: None), transport


def test_a_peer_that_had_no_key_is_met_by_the_configured_one(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(json.dumps({"n2": ["h:7", None], "n3": ["h:8", None]}))
    keyless = {name: SimpleNamespace(peers=f"h:{name}", public_key=None) for name in ("n1", "n2", "n3")}
    peers, transport = peers_of(tmp_path, keyless)
    peers.start()
    assert transport.met == {"n2": ("h:7", b"key n2")}
    peers.follow()
    assert transport.met == {"n2": ("h:n2", b"key n2")}


def test_a_key_of_the_catalog_counts_more_than_the_configured_one(tmp_path: Path) -> None:
    known = {name: SimpleNamespace(peers="h:1", public_key=f"new {name}") for name in ("n1", "n2", "n3")}
    peers, transport = peers_of(tmp_path, known)
    peers.start()
    peers.follow()
    assert transport.met == {"n2": ("h:1", b"new n2"), "n3": ("h:1", b"new n3")}
