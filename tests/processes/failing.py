"""Nodes with defects, which messages with certain contents show."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Final
from unittest import mock

from cluster.cli.local.forked_process import run_forked_node
from node.queue.partition import PartitionMachine, SequenceOrderError
from node.wire.amqp091.connection import Connection as Amqp091Connection
from node.wire.amqp10.connection import Connection as Amqp10Connection

IN_APPLY: Final = b"an entry that this node cannot apply"
IN_SESSION: Final = b"octets that this session cannot read"


def run_defective(arguments: list[str]) -> None:
    """The program of a node that fails in `PartitionMachine.apply` and in a client's session."""
    apply = PartitionMachine.apply

    def applied(machine: PartitionMachine, index: int, data: bytes) -> Any:
        if IN_APPLY in bytes(data):
            raise SequenceOrderError(f"planted in entry {index}")
        return apply(machine, index, data)

    with ExitStack() as planted:
        planted.enter_context(mock.patch.object(PartitionMachine, "apply", applied))
        for protocol in (Amqp091Connection, Amqp10Connection):
            planted.enter_context(mock.patch.object(protocol, "receive", failing(protocol.receive)))
        run_forked_node(arguments)


def failing(receive: Any) -> Any:
    """The method of a connection that takes octets, with a defect."""

    def received(connection: Any, data: bytes, now: float) -> Any:
        if IN_SESSION in data:
            raise ZeroDivisionError("planted")
        return receive(connection, data, now)

    return received
