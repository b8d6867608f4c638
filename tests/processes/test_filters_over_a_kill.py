"""Queues and consumers filter on when the node that owns the queue is killed, on three real nodes."""

from __future__ import annotations

from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.processes.nodes import until
from tests.processes.test_arguments_over_a_kill import Trial, bodies, connect, killed_cluster, trial

__all__ = ["connect", "killed_cluster", "trial"]


@pytest.mark.requirement("D9.1", "D9.2")
def test_queues_and_consumers_filter_over_owners(trial: Trial) -> None:
    trial.declare(x_filter="kind = 'order' AND /qty > 1")
    kind = {"headers": {"kind": "order"}}
    for qty in (1, 2, 3):
        trial.publish(b'{"qty": %d}' % qty, **kind)
    trial.publish(b'{"qty": 2}')
    got: list[bytes] = []
    consumer = trial.clients[1]

    def on_message(_: BlockingChannel, method: Any, __: Any, body: bytes) -> None:
        got.append(body)
        consumer.basic_ack(method.delivery_tag)

    consumer.basic_consume(trial.queue, on_message, arguments={"x-filter": "/qty % 2 = 1"})

    def came(count: int) -> bool:
        consumer.connection.process_data_events(0.05)
        return len(got) == count

    until(lambda: came(1), "the message that the filter takes")
    with trial.owner_killed():
        for qty in (1, 4, 5):
            trial.publish(b'{"qty": %d}' % qty, **kind)
        until(lambda: came(2), "the message of the next owner")
        assert got == [b'{"qty": 3}', b'{"qty": 5}']
        assert bodies(trial.take(2)) == [b'{"qty": 2}', b'{"qty": 4}']
        assert trial.is_empty()
