"""rhea on Node.js, a client of AMQP 1.0. Here where npm is there, as amqplib."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.programs import javascript, javascript_with_a_pause
from tests.processes.nodes import Cluster, Node


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


@pytest.mark.requirement("F2.1")
def test_rhea_outlives_its_node(packages: Path, own_cluster: Cluster, name: str) -> None:
    """Its node, which owns the queue, is killed in the middle: each message is accepted, and each comes."""
    with own_cluster[0].connect() as connection:
        connection.channel().queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    owner = own_cluster.owner(name)
    places = [f"amqp://{node.amqp}" for node in (owner, *own_cluster.others(owner))]
    found = javascript_with_a_pause(
        packages, "rhea_outlives.js", name, "2000", *places, word="half", pause=owner.kill
    )
    assert found == {"accepted": 2000, "got": 2000, "losses": True}
    owner.start()
    owner.wait_ready()
