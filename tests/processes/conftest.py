"""Clusters of real processes for the tests of this folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.processes import releases
from tests.processes.nodes import Cluster

collect_ignore = [] if releases.has_history() else ["test_rolling_upgrade.py"]

Connect = Callable[..., BlockingChannel]


@pytest.fixture(scope="package")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("shared"))
    with cluster.running():
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three nodes, used by many tests: none of them hurts a node, none may make one log an error."""
    request.node.stash[CLUSTER] = shared_cluster
    yield shared_cluster
    errors = shared_cluster.new_errors()
    assert not errors, "\n".join(errors)


@pytest.fixture
def own_cluster(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    """Three nodes for one test, which may do with them what it likes. Their disks are kept if it failed.

    `@pytest.mark.settings({…})` gives keys of the table `[cluster]`.
    """
    mark = request.node.get_closest_marker("settings")
    settings = mark.args[0] if mark is not None else {}
    directory = tmp_path_factory.mktemp("own")
    cluster = request.node.stash[CLUSTER] = Cluster(directory, settings)
    with cluster.running():
        yield cluster
    if not request.node.stash.get(FAILED, False):
        # 200 MB and more: all of them together would need more room than many machines have.
        del request.node.stash[CLUSTER]
        shutil.rmtree(directory)


def channels(cluster: Cluster) -> Iterator[Connect]:
    opened: list[pika.BlockingConnection] = []

    def connect(node: int, **options: Any) -> BlockingChannel:
        opened.append(cluster[node].connect(**options))
        return opened[-1].channel()

    yield connect
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def channel(cluster: Cluster) -> Iterator[Connect]:
    """`channel(0)`: a channel of a new connection to the first node. Closed after the test."""
    yield from channels(cluster)


@pytest.fixture
def own_channel(own_cluster: Cluster) -> Iterator[Connect]:
    """The same, on the test's own cluster."""
    yield from channels(own_cluster)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for a queue or exchange that no other test uses."""
    return str(request.node.name)


CLUSTER = pytest.StashKey[Cluster]()
FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome: Any = yield
    cluster = item.stash.get(CLUSTER, None)
    report = outcome.get_result()
    if report.failed and cluster is not None:
        item.stash[FAILED] = True
        report.sections.append(("logs of the nodes", cluster.logs()))
