"""amqplib on Node.js. Here where npm is there; its packages go into a directory of the test run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.programs import javascript
from tests.processes.nodes import Node


@pytest.mark.requirement("A17.1", "A17.2", "A17.4", "A17.6", "A17.9", "A23.1", "F2.1")
def test_amqplib_with_promises(packages: Path, node: Node, elsewhere: Node, name: str) -> None:
    found = javascript(packages, "amqplib_promises.js", node.url, elsewhere.url, name)
    headers = {"number": 0, "deep": {"list": [1, "two", True]}}
    assert found == {
        "work": {"count": 200, "inOrder": True, "left": 0, "headers": headers},
        "call": {"content": "HELLO", "correlationId": "one"},
        "refused": 404,
        "returned": [312, "NO_ROUTE", "lost"],
    }


def test_amqplib_with_callbacks(packages: Path, node: Node, elsewhere: Node, name: str) -> None:
    found = javascript(packages, "amqplib_callbacks.js", node.url, elsewhere.url, name)
    assert found == [[size, again] for size in (0, 1, 4096, 500_000) for again in (False, True)]
