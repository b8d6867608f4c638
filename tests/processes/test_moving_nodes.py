"""Nodes that move, nodes that prove who they are: names are identity, not addresses."""

from __future__ import annotations

import random
import shlex

import pytest

from cluster.cli.local.layout import PEER_OFFSET, is_free
from cluster.config.addresses import Address
from replication.transport import CurveKeys
from tests.processes.nodes import AMQP_PORTS, HTTP_PORTS, Cluster, own_part, until
from tests.processes.shell import Shell
from tests.processes.test_membership import at_rest, check_messages, declare, members

pytestmark = pytest.mark.requirement("F2.2")


def elsewhere() -> dict[str, str]:
    """Free addresses for a node."""
    while True:
        amqp, http = random.choice(own_part(AMQP_PORTS)), random.choice(own_part(HTTP_PORTS))
        ports = {"amqp": amqp, "http": http, "peers": amqp + PEER_OFFSET}
        found = {key: Address("127.0.0.1", port) for key, port in ports.items()}
        if all(map(is_free, found.values())):
            return {key: str(address) for key, address in found.items()}


def test_a_node_moves_and_stays_who_it_is(own_cluster: Cluster) -> None:
    declare(own_cluster, 6)
    first, second, third = own_cluster.nodes
    third.terminate()
    there = elsewhere()
    table = third.configured()
    table["node"] |= {"listen": there, "advertised": there}
    third.replace_configuration(table)
    third.start()
    third.wait_ready()
    assert {row["name"]: row["peers"] for row in members(own_cluster)["members"]}["n3"] == there["peers"]
    # One whose own file still has the old address goes by what it has learnt.
    for node in (first, second):
        node.kill()
    first.start()
    first.wait_ready()
    check_messages(own_cluster, 6, place=2)


def test_a_node_joins_with_its_key_once_the_others_have_it(own_cluster: Cluster) -> None:
    cluster = own_cluster
    declare(cluster, 6)
    node = cluster.newcomer("n4")
    key = node.local.keys.public.decode()
    node.start()
    said = f"--public-key {shlex.quote(key)}"
    until(lambda: said in node.local.log_file.read_text(encoding="utf-8"), "it says with which key to add it")
    shell = Shell(cluster)
    words = ("cluster", "add", "n4", "--address", str(node.local.config.own.peers), "--no-wait")
    result = shell.run(*words)
    assert result.exit_code == 1
    assert "give the new one's public key" in result.stderr
    shell.do(*words, "--public-key", CurveKeys.generate().public.decode())
    (row,) = (row for row in members(cluster)["members"] if row["name"] == "n4")
    assert (row["state"], row["up"], node.ready()) == ("joining", False, False)
    # A key that was mistyped is put right by saying it again.
    shell.do(*words, "--public-key", key)
    node.wait_ready()
    rows = at_rest(cluster)
    assert rows["n4"]["state"] == "member" and rows["n4"]["replicas"] > 0
    check_messages(cluster, 6, place=3)
