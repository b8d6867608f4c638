"""A defect ends one client's connection, or the node, whose queues other nodes own then."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPError, ConnectionClosedByBroker

from cluster.cli.local.forked_process import ForkedProcess
from cluster.cli.local.supervisor import node_arguments
from cluster.process.scopes import ExitCode
from node.wire.amqp10 import definitions as d
from tests.processes.amqp10_client import Amqp10Client
from tests.processes.failing import IN_APPLY, IN_SESSION, run_defective
from tests.processes.nodes import Cluster, Node, until
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.sections import message

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def logged(node: Node, event: str) -> list[dict[str, Any]]:
    """The lines of the node's log about an event; the last line of a node that failed is for people."""
    lines = node.local.log_file.read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [line for line in found if line["event"] == event]


@pytest.mark.requirement("A5.21")
@pytest.mark.interpreted
def test_a_defect_ends_the_session_that_meets_it_or_the_node_whose_state_it_is_in(
    own_cluster: Cluster,
) -> None:
    with closing(own_cluster[0].connect()) as connection:
        connection.channel().queue_declare("kept", durable=True)
    owner = own_cluster.owner("kept")
    owner.terminate()
    owner.process = ForkedProcess(run_defective, node_arguments(owner.local), owner.local.log_file)
    own_cluster.wait_ready()
    other = own_cluster.others(owner)[0]

    well = owner.connect()
    kept = well.channel()
    kept.confirm_delivery()
    ill = owner.connect()
    with pytest.raises(ConnectionClosedByBroker) as closed:
        ill.channel().basic_publish("", "kept", IN_SESSION)
        ill.process_data_events(10)
    assert closed.value.reply_code == 541
    kept.basic_publish("", "kept", b"before", PERSISTENT)
    (line,) = logged(owner, "session_failed")
    assert "ZeroDivisionError: planted" in line["traceback"]

    with closing(other.connect()) as elsewhere:
        channel = elsewhere.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "kept", IN_APPLY, PERSISTENT)
    assert owner.reap() == ExitCode.DEFECT
    with pytest.raises(AMQPError):
        kept.basic_publish("", "kept", b"into the void", PERSISTENT)
    (line,) = logged(owner, "node_failed")
    assert (line["exit_code"], "planted in entry" in line["what"], bool(line["remedy"])) == (70, True, True)
    assert not logged(owner, "message"), "nothing is left to the event loop"
    assert own_cluster.owner("kept") is not owner

    owner.start()
    own_cluster.wait_ready()
    with closing(owner.connect()) as connection:
        channel = connection.channel()
        until(lambda: channel.queue_declare("kept", passive=True).method.message_count == 2, "both messages")
        bodies = [channel.basic_get("kept", auto_ack=True)[2] for _ in range(2)]
    assert bodies == [b"before", IN_APPLY]
    own_cluster.new_errors()


@pytest.mark.interpreted
def test_a_defect_in_a_session_of_amqp_1_0_ends_its_connection_alone(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, nodes=1)
    node = cluster[0]
    node.process = ForkedProcess(run_defective, node_arguments(node.local), node.local.log_file)
    with cluster.running(), closing(node.connect()) as older:
        channel = older.channel()
        channel.queue_declare("kept", durable=True)
        with closing(Amqp10Client(node)) as well, closing(Amqp10Client(node)) as ill:
            well.sends_to("/queues/kept")
            ill.sends_to("/queues/kept")
            ill.send(transfer(1, message(body=IN_SESSION)))
            error = ill.expect(d.Close).error
            assert error is not None and error.condition == "amqp:internal-error"
            assert ill.socket.recv(1) == b"", "the node has closed the socket"
            well.send(transfer(1, message(body=b"after")))
            assert isinstance(well.expect(d.Disposition).state, d.Accepted)
        (line,) = logged(node, "session_failed")
        assert "ZeroDivisionError: planted" in line["traceback"]
        method, _, body = channel.basic_get("kept", auto_ack=True)
        assert (method.message_count, body) == (0, b"after")
        cluster.new_errors()
