"""Nodes are killed and frozen under steady load; the checkers of `chaos` judge what the clients saw."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from tests.processes.nodes import Cluster, until
from tests.processes.storm import REPLICATED, Storm

LONG = pytest.mark.proof


@pytest.fixture
def storm(request: pytest.FixtureRequest, own_cluster: Cluster, tmp_path: Path) -> Iterator[Storm]:
    proof = request.node.get_closest_marker("proof") is not None
    storm = Storm(own_cluster, tmp_path, proof=proof)
    yield storm
    storm.clients.abandon()


@pytest.mark.requirement("A21.1", "A22.1", "A23.1", "D2.1", "D2.2", "D2.3", "D2.4")
@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=LONG)])
def test_killing_the_owner(storm: Storm, rounds: int) -> None:
    for turn in range(rounds):
        owner = storm.cluster.owner(REPLICATED[turn % len(REPLICATED)])
        storm.kill([owner], "owner killed")
    print(storm.verdict())


@pytest.mark.requirement("A21.1", "A22.1", "A23.1", "D2.1", "D2.3")
@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=LONG)])
def test_killing_all_nodes_at_once(storm: Storm, rounds: int) -> None:
    for _ in range(rounds):
        storm.kill(storm.cluster.nodes, "all nodes killed")
    print(storm.verdict())


@pytest.mark.requirement("A21.1", "A22.1", "A23.1", "D2.1", "D2.2", "D2.3", "D2.4")
@pytest.mark.parametrize(("rounds", "seconds"), [(1, 4.0), pytest.param(3, 10.0, marks=LONG)])
def test_freezing_the_owner(storm: Storm, rounds: int, seconds: float) -> None:
    for turn in range(rounds):
        owner = storm.cluster.owner(REPLICATED[turn % len(REPLICATED)])
        storm.freeze([owner], "owner frozen", seconds)
    print(storm.verdict())


@pytest.mark.requirement("A21.1", "A22.1", "A23.1", "D2.1", "D2.2", "D2.3", "D2.4")
@pytest.mark.parametrize("rounds", [1, pytest.param(6, marks=LONG)])
def test_nodes_that_lose_their_disks_one_after_the_other(storm: Storm, rounds: int) -> None:
    for turn in range(rounds):
        storm.lose_disk(storm.cluster[turn % 3], "disk lost")
    print(storm.verdict())


@pytest.mark.requirement("A21.1")
def test_a_classic_queue_waits_for_its_node(own_cluster: Cluster) -> None:
    home, other = own_cluster[0], own_cluster[1]
    with closing(home.connect()) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("classic", durable=True, arguments={"x-queue-type": "classic"})
        channel.basic_publish("", "classic", b"kept", pika.BasicProperties(delivery_mode=2))
    home.kill()
    with closing(other.connect()) as connection:

        def refused() -> bool:
            channel = connection.channel()
            with pytest.raises(ChannelClosedByBroker) as closed:
                channel.queue_declare("classic", passive=True)
            return bool(closed.value.reply_code == 404)

        until(refused, "the node's death is known", 5.0)
        home.start()
        own_cluster.wait_ready()
        channel = connection.channel()
        # Settled by the client: an automatic settlement may go with the link that a new start breaks.
        until(lambda: channel.basic_get("classic")[2] == b"kept", "the message", 10.0)


@pytest.mark.requirement("A15.1", "A15.2", "A21.1")
def test_a_clean_restart_of_all_nodes_keeps_what_is_durable(own_cluster: Cluster) -> None:
    with closing(own_cluster[0].connect()) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("kept", "fanout", durable=True)
        channel.queue_declare("kept", durable=True)
        channel.queue_bind("kept", "kept")
        channel.queue_declare("gone", durable=False)
        for number in range(100):
            channel.basic_publish("kept", "", b"%d" % number, pika.BasicProperties(delivery_mode=2))
    own_cluster.stop()
    own_cluster.start()
    with closing(own_cluster[2].connect()) as connection:
        channel = connection.channel()
        bodies = [channel.basic_get("kept", auto_ack=True)[2] for _ in range(100)]
        assert bodies == [b"%d" % number for number in range(100)]
        channel.basic_publish("kept", "", b"still bound", mandatory=True)
        assert channel.queue_declare("kept", passive=True).method.message_count == 1
        with pytest.raises(ChannelClosedByBroker) as closed:
            channel.queue_declare("gone", passive=True)
        assert closed.value.reply_code == 404
