"""A node as a real process for the tests of this folder, each of which leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypedDict, Unpack

import pytest

from tests.conformance.raw import RawClient
from tests.processes.nodes import Cluster, Node

PAUSE_S = 0.2
"""How long a failed negotiation is paused for; nodes are told so, that the tests need not wait for long."""

SETTINGS = {
    "strangers": {"pause_s": PAUSE_S, "failures": 0},
    "limits": {"heartbeat_s": 7, "channels": 65_535},
}

Connect = Callable[..., RawClient]


class Limits(TypedDict, total=False):
    """The limits that a client agrees to; without them those that the node proposes."""

    channel_max: int
    frame_max: int
    heartbeat: int


@pytest.fixture(scope="package")
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("conformance"), SETTINGS, nodes=1)
    with cluster.running():
        yield cluster


@pytest.fixture
def node(shared_node: Cluster) -> Iterator[Node]:
    """The node that the tests share; none may make it log an error."""
    yield shared_node[0]
    errors = shared_node.new_errors()
    assert not errors, "\n".join(errors)


@pytest.fixture
def restarting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that a test may stop and start again."""
    cluster = Cluster(tmp_path_factory.mktemp("restarting"), SETTINGS, nodes=1)
    with cluster.running():
        yield cluster[0]


@pytest.fixture
def connect(node: Node) -> Iterator[Connect]:
    """`connect(1, 2)`: a client with two open channels; its connection ends with the test.

    Limits are those of `RawClient.open`.
    """
    clients: list[RawClient] = []

    def opened(*channels: int, **limits: Unpack[Limits]) -> RawClient:
        clients.append(RawClient(node.amqp))
        return clients[-1].open(*channels, **limits)

    yield opened
    for client in clients:
        client.vanish()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for a queue or exchange that no other test uses."""
    return str(request.node.name)
