"""Connections are opened up to the limits of node, virtual host and user, and closed when those are
deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from cluster.catalog.access.control import Access
from cluster.catalog.access.token_rights import rights_and_tags
from cluster.catalog.access.usage import Usage
from cluster.catalog.observer import Observer
from cluster.catalog.state import CatalogState, encode_command
from cluster.gateway.client_connections import ClientConnections
from node.refusal import EntryRefusedError
from node.session.ports import Identity, VhostConnection
from tests.simulation.front_ends import TrustingHasher


@dataclass(eq=False)
class Client:
    """A session, as `ClientConnections` sees it."""

    channel_count: int = 0
    closed: list[str] = field(default_factory=list)

    def force_close(self, reason: str) -> None:
        self.closed.append(reason)


class Node(Observer):
    """One of two nodes, with the users alice and bob and the virtual hosts / and v."""

    def __init__(self, name: str, network: dict[str, Node], largest: int = 100) -> None:
        self.name = name
        self.up = True
        network[name] = self
        self._network = network
        self._requests = 0
        self.state = CatalogState(self)
        access = Access(self.state.access, self._submit, TrustingHasher())
        self.usage = Usage(self.state.access, self._send, self._reachable)
        self.connections = ClientConnections(self.state, access, self.usage, largest)
        users = {name: {"password_hash": "", "tags": []} for name in ("alice", "bob")}
        self.do("found_access", vhost="/", users=users)
        self.do("declare_vhost", vhost="v", creator="alice")

    def vhost_removed(self, vhost: str) -> None:
        self.connections.vhost_removed(vhost)

    def user_removed(self, user: str) -> None:
        self.connections.user_removed(user)

    def _reachable(self) -> list[str]:
        return [one.name for one in self._network.values() if one is not self and one.up]

    def _send(self, peer: str, parts: Sequence[bytes]) -> None:
        self._network[peer].usage.receive(self.name, parts, 0.0)

    def _submit(self, name: str, arguments: dict[str, Any], answer: Any) -> None:
        raise AssertionError("nothing is changed here")

    def do(self, command: str, **arguments: Any) -> None:
        self._requests += 1
        [outcome] = self.state.apply(encode_command(1, self._requests, command, arguments))
        assert outcome.error is None

    def enter(self, user: str, vhost: str) -> tuple[VhostConnection, Client]:
        client = Client()
        subscriber: Any = client
        return self.connections.enter(subscriber, Identity(user), vhost), client

    def refusal(self, user: str, vhost: str) -> str:
        with pytest.raises(EntryRefusedError) as refusal:
            self.enter(user, vhost)
        return str(refusal.value)


def pair() -> tuple[Node, Node]:
    network: dict[str, Node] = {}
    return Node("n1", network), Node("n2", network)


@pytest.mark.requirement("A11.3", "F5.5")
def test_only_who_has_permissions_in_a_virtual_host_enters_it() -> None:
    node, _ = pair()
    node.enter("alice", "v")
    assert node.refusal("bob", "v") == "access to vhost 'v' refused for user 'bob'"
    assert node.refusal("bob", "w") == "vhost w not found"
    assert node.refusal("nobody", "/") == "access to vhost '/' refused for user 'nobody'"


def test_one_pair_of_user_and_virtual_host_is_one_scope() -> None:
    node, _ = pair()
    one, two, other = (node.enter(*who)[0] for who in (("alice", "v"), ("alice", "v"), ("alice", "/")))
    assert one.scope is two.scope is not other.scope
    assert len({one.holder, two.holder, other.holder}) == 3


@pytest.mark.requirement("F6.3")
def test_a_node_takes_so_many_connections() -> None:
    node = Node("n1", {}, largest=2)
    first, _ = node.enter("alice", "/")
    node.enter("bob", "/")
    assert node.refusal("bob", "/") == "connection refused: node connection limit (2) is reached"
    node.connections.leave(first.holder)
    node.enter("bob", "/")


@pytest.mark.requirement("F6.3")
def test_a_virtual_host_takes_so_many_connections_in_the_whole_cluster() -> None:
    one, two = pair()
    for node in (one, two):
        node.do("set_vhost_limit", vhost="/", limit="max-connections", value=3)
    first, _ = one.enter("alice", "/")
    one.enter("alice", "/")
    one.connections.tick(0.0)
    two.enter("bob", "/")
    two.connections.tick(0.0)
    refused = "access to vhost '/' refused for user 'bob': connection limit (3) is reached"
    assert one.refusal("bob", "/") == two.refusal("bob", "/") == refused
    one.enter("alice", "v")
    one.connections.leave(first.holder)
    one.connections.tick(0.1)
    two.enter("bob", "/")
    for node in (one, two):
        node.do("set_vhost_limit", vhost="/", limit="max-connections", value=0)
        assert "(0)" in node.refusal("bob", "/")
        node.do("set_vhost_limit", vhost="/", limit="max-connections", value=-1)
        node.enter("bob", "/")


@pytest.mark.requirement("F6.3", "F6.4")
def test_a_user_has_so_many_connections_and_channels_in_the_whole_cluster() -> None:
    one, two = pair()
    for node in (one, two):
        node.do("set_user_limit", user="alice", limit="max-connections", value=2)
        node.do("set_user_limit", user="alice", limit="max-channels", value=5)
    _, first = one.enter("alice", "/")
    one.connections.tick(0.0)
    _, second = two.enter("alice", "v")
    two.connections.tick(0.0)
    refused = "connection refused for user 'alice': user connection limit (2) is reached"
    assert one.refusal("alice", "/") == two.refusal("alice", "/") == refused
    one.enter("bob", "/")
    first.channel_count = 3
    one.connections.check_channels("alice")
    one.connections.tick(0.1)
    second.channel_count = 3
    with pytest.raises(EntryRefusedError) as refusal:
        two.connections.check_channels("alice")
    assert str(refusal.value) == (
        "number of channels opened for user 'alice' has reached the maximum allowed user limit of 5"
    )
    two.connections.check_channels("bob")


def test_connections_of_a_node_that_is_gone_do_not_count() -> None:
    one, two = pair()
    for node in (one, two):
        node.do("set_vhost_limit", vhost="/", limit="max-connections", value=1)
    one.enter("alice", "/")
    one.connections.tick(0.0)
    assert "limit" in two.refusal("alice", "/")
    one.up = False
    two.enter("alice", "/")


def test_what_a_node_missed_it_hears_within_a_second() -> None:
    network: dict[str, Node] = {}
    one = Node("n1", network)
    one.do("set_vhost_limit", vhost="/", limit="max-connections", value=1)
    one.enter("alice", "/")
    one.connections.tick(0.0)
    late = Node("n2", network)
    late.do("set_vhost_limit", vhost="/", limit="max-connections", value=1)
    one.connections.tick(0.5)
    one.connections.tick(1.1)
    assert "limit" in late.refusal("alice", "/")


def test_a_deleted_virtual_host_or_user_takes_its_connections_along() -> None:
    node, _ = pair()
    _, in_v = node.enter("alice", "v")
    entry, of_bob = node.enter("bob", "/")
    _, of_alice = node.enter("alice", "/")
    node.do("delete_vhost", vhost="v")
    assert in_v.closed == [], "not while the catalog is being changed"
    node.connections.tick(0.0)
    assert in_v.closed == ["vhost 'v' is deleted"]
    node.do("delete_user", user="bob")
    node.connections.tick(0.1)
    assert of_bob.closed == ["user 'bob' is deleted"]
    node.connections.leave(entry.holder)
    node.connections.tick(0.2)
    assert of_alice.closed == []


@pytest.mark.requirement("F5.7")
def test_clients_with_equal_tokens_share_a_scope_and_need_no_user_in_the_catalog() -> None:
    node, _ = pair()
    found = [
        Identity("carol", rights=rights_and_tags([f"quorate.read:{one}/*"], "quorate")[0]) for one in "vv/"
    ]
    client: Any = Client()
    one, two = (node.connections.enter(client, identity, "v") for identity in found[:2])
    assert one.scope is two.scope and one.scope.rights == found[0].rights
    with pytest.raises(EntryRefusedError, match="access to vhost 'v' refused for user 'carol'"):
        node.connections.enter(client, found[2], "v")
    node.do("delete_user", user="bob")
    node.connections.tick(0.0)
    assert client.closed == []
    node.do("delete_vhost", vhost="v")
    node.connections.tick(0.1)
    assert client.closed == ["vhost 'v' is deleted"] * 2


@pytest.mark.requirement("F5.7")
def test_a_new_token_is_another_scope_for_its_connection_alone() -> None:
    node, _ = pair()
    before, after = (
        Identity("carol", rights=rights_and_tags([f"quorate.{right}:v/*"], "quorate")[0])
        for right in ("read", "write")
    )
    client: Any = Client()
    one, two = (node.connections.enter(client, before, "v") for _ in range(2))
    scope = node.connections.change_rights(one.holder, after)
    assert scope is not two.scope and (scope.user, scope.vhost, scope.rights) == ("carol", "v", after.rights)
    nothing = Identity("carol", rights=rights_and_tags([], "quorate")[0])
    with pytest.raises(EntryRefusedError):
        node.connections.change_rights(one.holder, nothing)
    node.connections.leave(one.holder)
    assert node.usage.in_vhost("v") == 1
