"""Nodes with defects, which messages with certain contents show."""

from __future__ import annotations

from typing import Any
from unittest import mock

from cluster.cli.local.forked_process import run_forked_node
from node.queue.partition import PartitionMachine, SequenceOrderError
from node.wire.amqp091.connection import Connection

IN_APPLY = b"an entry that this node cannot apply"
IN_SESSION = b"octets that this session cannot read"


def run_defective(arguments: list[str]) -> None:
    """The program of a node that fails in `PartitionMachine.apply` and in a client's session."""
    apply, receive = PartitionMachine.apply, Connection.receive

    def applied(machine: PartitionMachine, index: int, data: bytes) -> Any:
        if IN_APPLY in bytes(data):
            raise SequenceOrderError(f"planted in entry {index}")
        return apply(machine, index, data)

    def received(connection: Connection, data: bytes, now: float) -> Any:
        if IN_SESSION in data:
            raise ZeroDivisionError("planted")
        return receive(connection, data, now)

    with (
        mock.patch.object(PartitionMachine, "apply", applied),
        mock.patch.object(Connection, "receive", received),
    ):
        run_forked_node(arguments)
