"""Keeps the transport's connections in line with the members of the cluster.

The catalog has the nodes' addresses. A node without a catalog knows some nodes from its configuration, and
learns of further ones from these nodes; a file keeps the known addresses for the next start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cluster.catalog.definitions import NodeDefinition
from cluster.config.models import NodeConfig
from cluster.peers.membership_messages import PeerGreeting
from cluster.system.data_directory import write_private
from replication.transport import PeerTransport

FILE_NAME: Final = "members.json"


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """host:port and public key of a node. The key is None where the catalog has none for the node."""

    address: str
    key: str | None = None


class Peers:
    """The other nodes to which the transport connects."""

    def __init__(
        self,
        config: NodeConfig,
        transport: PeerTransport,
        send: Callable[[str, Sequence[bytes]], object],
        members: Callable[[], Mapping[str, NodeDefinition]],
        left: Callable[[str], None],
    ) -> None:
        """`members` gives the catalog's nodes. `left` is called with a peer that is no member any more."""
        self._config = config
        self._transport = transport
        self._send = send
        self._members = members
        self._left = left
        self._name = config.name
        self._file = config.data_dir / FILE_NAME
        self._used: dict[str, PeerAddress] = {}
        self._announced: dict[str, PeerAddress] = {}
        self._saved: dict[str, PeerAddress] = {}

    def start(self) -> None:
        """Connect to the configured nodes, and to the nodes that were members before."""
        known = {
            name: PeerAddress(str(member.peers), member.public_key)
            for name, member in self._config.cluster.nodes.items()
        }
        if self._file.exists():
            saved = json.loads(self._file.read_text(encoding="utf-8"))
            known |= {name: self._keyed(name, PeerAddress(*each)) for name, each in saved.items()}
        for name, peer in known.items():
            self._connect(name, peer)

    def follow(self) -> None:
        """The members in the catalog changed, or their addresses: connect and disconnect peers."""
        nodes = self._members()
        wanted = {
            name: self._keyed(name, PeerAddress(node.peers, node.public_key))
            for name, node in nodes.items()
            if node.peers and name != self._name
        }
        if self._name not in nodes:
            # A node that is not a member yet gets the catalog only from the nodes that it began with: keep
            # these.
            for name, peer in wanted.items():
                self._connect(name, peer)
            return
        for name, announced in list(self._announced.items()):
            if wanted.get(name) == announced:
                del self._announced[name]
        for name in self._used.keys() - nodes.keys():
            self._disconnect(name)
        for name, peer in wanted.items():
            self._connect(name, self._announced.get(name, peer))
        self._save(wanted)

    def _keyed(self, name: str, peer: PeerAddress) -> PeerAddress:
        """The address with the configuration's key, where the catalog has none: an older cluster had no keys.

        Each node tells the catalog its own key when it starts.
        """
        founder = self._config.cluster.nodes.get(name)
        return PeerAddress(peer.address, peer.key or (None if founder is None else founder.public_key))

    def greet(self, peer: str) -> None:
        """A connection to a peer has come up: send this node's address, and those of the members."""
        members = self._members().values()
        known = [(one.name, one.peers, one.public_key) for one in members if one.peers]
        own = self._config.own
        self._send(peer, PeerGreeting(str(own.peers), own.public_key, known).encode())

    def receive(self, peer: str, parts: Sequence[bytes], _now: float) -> None:
        """Take a peer's address, and the members that it knows. Raises MessageError."""
        greeting = PeerGreeting.decode(parts)
        used = self._used.get(peer)
        if used is not None and used.address != greeting.address:
            # The transport has checked that the peer has the key of this name.
            moved = PeerAddress(greeting.address, greeting.key or used.key)
            self._announced[peer] = moved
            self._connect(peer, moved)
        if self._name not in self._members():
            for name, address, key in greeting.known:
                if name not in self._used:
                    self._connect(name, PeerAddress(address, key))

    def _connect(self, name: str, peer: PeerAddress) -> None:
        if name == self._name or self._used.get(name) == peer or peer.key is None:
            return
        self._disconnect(name)
        self._used[name] = peer
        self._transport.add_peer(name, peer.address, peer.key.encode())

    def _disconnect(self, name: str) -> None:
        if self._used.pop(name, None) is not None:
            self._transport.remove_peer(name)
            self._left(name)

    def _save(self, wanted: dict[str, PeerAddress]) -> None:
        if wanted != self._saved:
            plain: dict[str, Any] = {name: [peer.address, peer.key] for name, peer in sorted(wanted.items())}
            write_private(self._file, json.dumps(plain))
            self._saved = wanted
