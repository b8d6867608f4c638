"""Nodes that are told to stop hand over first: clients of the others hardly notice."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker

from chaos.recovery import pauses
from tests.processes.nodes import Cluster, until
from tests.processes.storm import REPLICATED, Storm

PAUSE_S = 0.8
"""Less than an election time-out, which is what a frozen node costs; a hand-over takes milliseconds."""

STOP_S = 8.0
"""All bounds of `cluster.process.departure` together."""


@pytest.fixture
def storm(request: pytest.FixtureRequest, own_cluster: Cluster, tmp_path: Path) -> Iterator[Storm]:
    proof = request.node.get_closest_marker("proof") is not None
    storm = Storm(own_cluster, tmp_path, proof=proof)
    yield storm
    storm.clients.abandon()


@pytest.mark.requirement("A23.1", "D2.1", "D2.2", "D2.3", "D2.4")
def test_a_rolling_restart_under_load_loses_nothing_and_hardly_pauses(storm: Storm) -> None:
    for node in storm.cluster.nodes:
        storm.restart(node, "restarted")
    print(storm.verdict())
    # The others have one publisher each, which waits for its own node.
    found = [pause for pause in pauses(storm.recorder.events) if pause.queue in REPLICATED]
    assert {pause.queue for pause in found} == set(REPLICATED), "every queue had its owner restarted"
    assert max(pause.seconds for pause in found) < PAUSE_S, found


def test_a_node_that_stops_leads_nothing_any_more(own_cluster: Cluster) -> None:
    with closing(own_cluster[0].connect()) as connection:
        channel = connection.channel()
        for number in range(6):
            channel.queue_declare(f"owned-{number}", durable=True)
    leaving = own_cluster.owner("owned-0")
    assert leaving.terminate() == 0
    text = leaving.local.log_file.read_text(encoding="utf-8")
    assert '"handed_over"' in text and '"complete": true' in text
    owners = {row["owner"] for row in own_cluster.status()["queues"]}
    assert owners <= {node.name for node in own_cluster.others(leaving)}


def test_a_node_that_stops_lets_no_client_in(own_cluster: Cluster) -> None:
    """A client that came back to it would only lose its connection again, with what it had been given."""
    leaving = own_cluster[0]
    # The client reads nothing, so that the node waits for its answer to connection.close.
    silent = leaving.connect()
    leaving.send(signal.SIGTERM)
    until(lambda: '"handed_over"' in leaving.local.log_file.read_text(encoding="utf-8"), "the hand-over")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((leaving.amqp.host, leaving.amqp.port), timeout=STOP_S)
    with pytest.raises(ConnectionClosedByBroker):
        silent.process_data_events(time_limit=5.0)
    assert leaving.reap() == 0


@pytest.mark.requirement("A5.12")
def test_clients_are_told_why(own_cluster: Cluster) -> None:
    connection = own_cluster[1].connect()
    assert own_cluster[1].terminate() == 0
    with pytest.raises(ConnectionClosedByBroker) as closed:
        connection.process_data_events(time_limit=5.0)
    assert closed.value.reply_code == 320


def test_what_a_client_of_the_leaving_node_had_is_there_at_once(own_cluster: Cluster) -> None:
    held, taker = own_cluster[0].connect(), own_cluster[1].connect()
    channel = held.channel()
    channel.queue_declare("held", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "held", b"mine", pika.BasicProperties(delivery_mode=2))
    assert channel.basic_get("held")[2] == b"mine"
    began = time.monotonic()
    assert own_cluster[0].terminate() == 0
    method, _, body = taker.channel().basic_get("held", auto_ack=True)
    assert body == b"mine"
    assert method is not None and method.redelivered
    assert time.monotonic() - began < STOP_S
    taker.close()


def test_all_nodes_told_at_once_stop_within_the_bounds(own_cluster: Cluster) -> None:
    with closing(own_cluster[0].connect()) as connection:
        for number in range(6):
            connection.channel().queue_declare(f"owned-{number}", durable=True)
    began = time.monotonic()
    own_cluster.stop()
    assert time.monotonic() - began < STOP_S
