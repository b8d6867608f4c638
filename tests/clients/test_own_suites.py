"""Clients' own test suites, against each node: all passes but what is listed with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.suites import SUITES, Suite
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Node

pytestmark = pytest.mark.clients


@pytest.fixture
def tidy(node: Node) -> Iterator[None]:
    """The queues that a suite leaves behind would disturb it on the next node."""
    api = Management(node)
    before = {(queue["vhost"], queue["name"]) for queue in api.get("queues")}
    yield
    for queue in api.get("queues"):
        if (queue["vhost"], queue["name"]) not in before:
            api.call("DELETE", path_of("queues", queue["vhost"], queue["name"]))


@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize(
    "suite", [suite for suite in SUITES if suite.present()], ids=lambda suite: suite.name
)
def test_a_clients_own_suite(suite: Suite, node: Node, tmp_path: Path) -> None:
    passed, failed = suite.run(node, tmp_path)
    assert not suite.unexplained(failed)
    assert passed
