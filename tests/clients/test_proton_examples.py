"""Qpid Proton's example programs for Python, with their tests, from a checkout of qpid-proton: on each node.

The programs name their broker, `localhost:5672`, which a copy of them replaces by the node. They log in
anonymously.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.checkouts import required
from tests.processes.management_client import Management
from tests.processes.nodes import Cluster, Node

pytestmark = pytest.mark.clients

QUEUE = "examples"
SUITE_S = 60.0

TESTS = (
    "helloworld", "helloworld_blocking", "helloworld_tornado", "simple_send_recv", "client_server",
    "sync_client_server", "client_server_tx", "sync_client_server_tx", "db_send_recv", "tx_send_tx_recv",
    "selected_recv",
)  # fmt: skip
"""The tests with a broker. In the others of the suite two programs speak to each other."""


@pytest.fixture(scope="module")
def open_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes whose anonymous clients are the user guest."""
    cluster = Cluster(tmp_path_factory.mktemp("examples"), {"anonymous_user": "guest"})
    with cluster.running():
        yield cluster


@pytest.fixture(params=[0, 1, 2], ids=["n1", "n2", "n3"])
def programs(open_cluster: Cluster, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A copy of the programs for a node, which has their queue."""
    node: Node = open_cluster[request.param]
    directory = tmp_path / "examples"
    shutil.copytree(required("qpid-proton") / "python" / "examples", directory)
    for file in directory.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("localhost:5672", str(node.amqp)), encoding="utf-8")
    api = Management(node)
    assert api.call("PUT", f"/queues/%2F/{QUEUE}", {"durable": True}).status in (201, 204)
    yield directory
    api.call("DELETE", f"/queues/%2F/{QUEUE}")


@pytest.mark.requirement("F2.1")
@pytest.mark.parametrize("name", TESTS)
def test_an_example(programs: Path, name: str) -> None:
    """The test's own assertions look at the output of the programs."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "unittest", f"test_examples.ExamplesTest.test_{name}"],
        cwd=programs, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=SUITE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
