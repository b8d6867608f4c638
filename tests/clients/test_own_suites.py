"""Clients' own test suites, against each node: all passes but what is listed with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.suites import SUITES, Suite
from tests.processes.nodes import Node

pytestmark = pytest.mark.clients


@pytest.mark.parametrize(
    "suite", [suite for suite in SUITES if suite.present()], ids=lambda suite: suite.name
)
def test_a_clients_own_suite(suite: Suite, node: Node, tmp_path: Path) -> None:
    passed, failed = suite.run(node, tmp_path)
    assert failed == suite.fails.keys()
    assert passed
