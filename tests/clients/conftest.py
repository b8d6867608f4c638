"""Three nodes, and each of them in turn for every client."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.clients import rabbitmqadmin
from tests.clients.checkouts import checkout
from tests.clients.programs import install
from tests.processes import conftest as processes
from tests.processes.nodes import Cluster, Node

HERE = Path(__file__).parent

# Those of `make clients`, and what is not installed where only `make test` was run.
_NEEDS = {
    **{file.name: "proton" for file in HERE.glob("test_proton_*.py")},
    "test_amqpstorm_management.py": "requests",
    "test_celery.py": "celery",
    "test_dramatiq.py": "dramatiq",
    "test_faststream.py": "faststream",
    "test_flower.py": "flower",
    "test_rabbitmq_amqp.py": "rabbitmq_amqp_python_client",
    "test_uamqp.py": "uamqp",
}

collect_ignore = [file for file, package in _NEEDS.items() if find_spec(package) is None]
if rabbitmqadmin.source() is None:
    collect_ignore.append("test_rabbitmqadmin.py")
if shutil.which("npm") is None:
    collect_ignore += ["test_amqplib.py", "test_rascal.py", "test_rhea.py"]
if shutil.which("g++") is None or not Path("/usr/include/proton/container.hpp").exists():
    collect_ignore.append("test_proton_cpp.py")
if checkout("qpid-proton") is None:
    collect_ignore.append("test_proton_examples.py")
if checkout("rabbitmq-tutorials") is None:
    collect_ignore.append("test_tutorials.py")

shared_cluster = processes.shared_cluster
cluster = processes.cluster
own_cluster = processes.own_cluster
pytest_runtest_makereport = processes.pytest_runtest_makereport


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for a queue or exchange that no other test uses, of characters that every client takes."""
    return re.sub(r"\W+", "-", str(request.node.name)).strip("-")


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the packages of Node.js clients."""
    directory = tmp_path_factory.mktemp("packages")
    install(directory)
    return directory


@pytest.fixture(params=[0, 1, 2], ids=["n1", "n2", "n3"])
def node(cluster: Cluster, request: pytest.FixtureRequest) -> Node:
    """Each node in turn."""
    return cluster[request.param]


@pytest.fixture
def elsewhere(cluster: Cluster, node: Node) -> Node:
    """The node after it: what is done on one is seen on the other."""
    return cluster[(cluster.nodes.index(node) + 1) % len(cluster.nodes)]


@pytest.fixture
def queue(node: Node, name: str) -> Iterator[str]:
    """The address in AMQP 1.0 of a durable queue with the test's name."""
    from tests.clients.proton_links import durable_queue

    with durable_queue(node, name) as address:
        yield address


@pytest.fixture
def client(node: Node) -> Iterator[Any]:
    """Qpid Proton's `BlockingConnection` to the node."""
    from tests.clients.proton_links import opened

    with opened(node) as connection:
        yield connection


@pytest.fixture
def other(elsewhere: Node) -> Iterator[Any]:
    """Qpid Proton's `BlockingConnection` to the next node."""
    from tests.clients.proton_links import opened

    with opened(elsewhere) as connection:
        yield connection
