"""Nodes that are added, drained, replaced and removed while clients go on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pika
import pytest

from chaos.recovery import pauses
from tests.processes.nodes import Cluster, Node, until
from tests.processes.shell import Shell
from tests.processes.storm import REPLICATED, Storm

PAUSE_S = 2.0
"""No queue may go longer without a confirm while its replicas move and its owner changes."""

MOVING_S = 60.0
PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def storm(request: pytest.FixtureRequest, own_cluster: Cluster, tmp_path: Path) -> Iterator[Storm]:
    proof = request.node.get_closest_marker("proof") is not None
    storm = Storm(own_cluster, tmp_path, proof=proof)
    yield storm
    storm.clients.abandon()


def declare(cluster: Cluster, quantity: int, **arguments: Any) -> None:
    """Queues on the first three nodes in turn, with a message each."""
    for number in range(quantity):
        with closing(cluster[number % 3].connect()) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare(f"still-{number}", durable=True, arguments=arguments)
            channel.basic_publish("", f"still-{number}", b"%d" % number, PERSISTENT)


def check_messages(cluster: Cluster, quantity: int, place: int = 0) -> None:
    with closing(cluster[place].connect()) as connection:
        channel = connection.channel()
        for number in range(quantity):
            found = channel.basic_get(f"still-{number}", auto_ack=True)[2]
            assert found == b"%d" % number, f"still-{number} has {found!r}"


def add(cluster: Cluster, name: str) -> Node:
    """Start a node and add it; returns when it is ready, and may still get its share."""
    node = cluster.newcomer(name)
    node.start()
    Shell(cluster).do("cluster", "add", name, *node.whereabouts, "--no-wait")
    node.wait_ready()
    return node


def members(cluster: Cluster, place: int = 0) -> dict[str, Any]:
    return dict(json.loads(Shell(cluster, place).do("cluster", "list", "--json")))


def at_rest(cluster: Cluster, place: int = 0) -> dict[str, dict[str, Any]]:
    """The members by name, once nothing is left to move."""

    def done() -> dict[str, Any] | None:
        told = members(cluster, place)
        return None if told["steps_left"] or told["spreading"] else told

    told = until(done, lambda: f"nothing moves: {members(cluster, place)}", MOVING_S)
    return {row["name"]: row for row in told["members"]}


@pytest.mark.requirement("D2.1", "D2.3", "F2.2")
def test_three_nodes_become_five_under_load(storm: Storm) -> None:
    cluster = storm.cluster
    declare(cluster, 30)
    for name in ("n4", "n5"):
        add(cluster, name)
    rows = at_rest(cluster)
    assert {row["state"] for row in rows.values()} == {"member"}
    replicas = [row["replicas"] for row in rows.values()]
    assert max(replicas) - min(replicas) <= 1, rows
    owned = Counter(row["owner"] for row in cluster.status()["queues"])
    assert owned["n4"] and owned["n5"], owned
    storm.settle()
    check_messages(cluster, 30, place=4)
    print(storm.verdict())
    found = [pause for pause in pauses(storm.recorder.events) if pause.queue in REPLICATED]
    assert max((pause.seconds for pause in found), default=0.0) < PAUSE_S, found


def test_a_node_that_is_not_added_waits_and_says_so(own_cluster: Cluster) -> None:
    node = own_cluster.newcomer("n4")
    node.start()
    said = "quorate cluster add n4 --address"
    until(lambda: said in node.local.log_file.read_text(encoding="utf-8"), "it says what it waits for")
    assert not node.ready()
    Shell(own_cluster).do("cluster", "add", "n4", *node.whereabouts, "--no-wait")
    node.wait_ready()
    with closing(node.connect()) as connection:
        connection.channel().queue_declare("of-the-fourth", durable=True)


@pytest.mark.requirement("F2.2")
def test_the_node_that_moves_replicas_dies_on_the_way(own_cluster: Cluster) -> None:
    declare(own_cluster, 24)
    add(own_cluster, "n4")
    status = own_cluster.status()
    leader = own_cluster.node(next(one["owner"] for one in status["partitions"] if one["id"] == 0))
    leader.kill()
    other = next(place for place, node in enumerate(own_cluster.nodes) if node is not leader)
    leader.start()
    leader.wait_ready()
    rows = at_rest(own_cluster, other)
    replicas = [row["replicas"] for row in rows.values()]
    assert max(replicas) - min(replicas) <= 1, rows
    check_messages(own_cluster, 24)


@pytest.mark.requirement("F2.2")
def test_a_dead_node_is_replaced_and_what_it_alone_had_is_named(own_cluster: Cluster) -> None:
    declare(own_cluster, 9)
    dead = own_cluster[2]
    with closing(dead.connect()) as connection:
        connection.channel().queue_declare("alone", durable=True, arguments={"x-queue-type": "classic"})
    dead.kill()
    own_cluster.nodes.remove(dead)
    node = own_cluster.newcomer("n4")
    node.start()
    shell = Shell(own_cluster)
    command = ("cluster", "replace", "n3", "n4", *node.whereabouts, "--no-wait")

    until(lambda: not all(row["up"] for row in members(own_cluster)["members"]), "n3 is missed")
    result = shell.run(*command)
    assert result.exit_code == 1
    assert "these queues are on it alone: alone" in result.stderr
    result = shell.run(*command, "--force")
    assert (result.exit_code, result.stderr) == (0, "lost with n3: alone\n")
    node.wait_ready()
    rows = at_rest(own_cluster)
    assert rows.keys() == {"n1", "n2", "n4"}
    assert {row["replicas"] for row in rows.values()} == {rows["n1"]["replicas"]}
    check_messages(own_cluster, 9, place=2)
    assert own_cluster.queue("alone") is None


@pytest.mark.proof
@pytest.mark.requirement("F2.2")
def test_a_node_is_drained_kept_and_removed_under_load(storm: Storm) -> None:
    cluster = storm.cluster
    with closing(cluster[2].connect()) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("classic", durable=True, arguments={"x-queue-type": "classic"})
        channel.basic_publish("", "classic", b"moves too", PERSISTENT)
    add(cluster, "n4")
    at_rest(cluster)
    shell = Shell(cluster)
    shell.do("cluster", "drain", "n3", "--no-wait")
    rows = at_rest(cluster)
    assert (rows["n3"]["state"], rows["n3"]["owns"], rows["n3"]["replicas"]) == ("draining", 0, 0)
    with closing(cluster[0].connect()) as connection:
        assert connection.channel().basic_get("classic")[2] == b"moves too"
    shell.do("cluster", "drain", "n3", "--undo", "--no-wait")
    assert at_rest(cluster)["n3"]["replicas"] > 0
    storm.settle()
    shell.do("cluster", "remove", "n3", "--no-wait")
    leaving = cluster[2]
    assert leaving.reap() == 0, "it ends by itself"
    until(lambda: "n3" not in at_rest(cluster), "n3 is forgotten", MOVING_S)
    cluster.nodes.remove(leaving)
