"""rhea on Node.js, a client of AMQP 1.0. Here where npm is there, as amqplib."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.programs import javascript
from tests.processes.nodes import Node


@pytest.mark.requirement(
    "B1.7",
    "B4.5",
    "B4.6",
    "B5.14",
    "B5.15",
    "B6.1",
    "B6.2",
    "B6.3",
    "B6.5",
    "B6.7",
    "B8.1",
    "B8.3",
    "B11.3",
    "F2.1",
)
@pytest.mark.parametrize("transport", ["socket", "websocket"])
def test_rhea(packages: Path, node: Node, elsewhere: Node, name: str, transport: str) -> None:
    with node.connect() as connection:
        connection.channel().queue_declare(name, durable=True)
        places = [f"amqp://{one.amqp}" for one in (node, elsewhere)]
        if transport == "websocket":
            places = [one.http.replace("http", "ws") + "/amqp" for one in (node, elsewhere)]
        found = javascript(packages, "rhea_links.js", *places, name)
        connection.channel().queue_delete(name)
    assert found == {
        "stream": {"count": 1000, "inOrder": True, "subject": "stream"},
        "outcomes": {"counts": [0, 0, 1, 1], "left": []},
        "credit": {
            "held": [0, 1],
            "rest": {"got": [2, 3, 4], "credit": 0},
            "empty": {"got": [], "credit": 0},
            "back": {"got": [0, 1], "credit": 0},
        },
        "large": [True, True],
        "browse": {"seen": ["a", "b"], "got": ["a", "b"]},
        "refused": {"conditions": [["amqp:not-found", None]] * 3, "got": ["goes on"]},
    }
