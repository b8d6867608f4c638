"""Streams that views feed, on real nodes (D15)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.processes.conftest import Connect as Channel
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster
from tests.processes.shell import Shell
from tests.processes.test_arguments_over_a_kill import Trial, connect, killed_cluster, trial

__all__ = ["connect", "killed_cluster", "trial"]

pytestmark = pytest.mark.requirement("D15.2")

BY_CUSTOMER = {"group_by": ["/customer"], "fields": {"customer": "/customer", "orders": "COUNT(*)"}}
OVER = {"x-recovery-point": "epoch"}


def order(customer: str) -> bytes:
    return json.dumps({"customer": customer}).encode()


def test_each_change_is_told_once_over_a_kill(trial: Trial) -> None:
    """The killed node owns the queue under the view, and the stream, which share a partition."""
    trial.declare()
    view, stream, over = (f"{trial.queue}.{name}" for name in ("view", "stream", "over"))
    definition = {"queue": trial.queue, **BY_CUSTOMER}
    assert Management(trial.other).call("PUT", path_of("views", "/", view), definition).status == 201
    channel = trial.clients[1]
    channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream", "x-view": view})
    channel.queue_declare(over, durable=True, arguments=OVER | {"x-underlying-topic": stream})
    told: list[tuple[str, Any]] = []

    def take_until(customer: str, orders: int) -> None:
        """Take changes until one has a row; of the rows before some may be merged."""
        while not told or told[-1] != (json.dumps([customer]), {"customer": customer, "orders": orders}):
            ((body, properties),) = trial.take(1, over)
            assert properties.headers is not None
            told.append((properties.headers["view_key"], json.loads(body)))

    for customer in "aab":
        trial.publish(order(customer))
    take_until("b", 1)
    with trial.owner_killed():
        trial.publish(order("a"))
        take_until("a", 3)
    last: dict[str, int] = {}
    for key, row in told:
        assert row["orders"] > last.get(key, 0), "a row was told again, or has shrunk"
        last[key] = row["orders"]
    assert last == {'["a"]': 3, '["b"]': 1}
    assert trial.is_empty(over)


def test_a_stream_of_a_view_is_in_definitions(cluster: Cluster, channel: Channel, name: str) -> None:
    one, shell = channel(0), Shell(cluster, 1)
    under, stream, above, second = (f"{name}.{part}" for part in ("under", "stream", "above", "second"))
    one.queue_declare(under, durable=True)
    api = Management(cluster[0])
    for view, queue, fed in ((name, under, stream), (f"{name}.2", above, second)):
        if queue == above:
            one.queue_declare(above, durable=True, arguments={"x-underlying-topic": stream})
        reply = api.call("PUT", path_of("views", "/", view), {"queue": queue, **BY_CUSTOMER})
        assert reply.status == 201
        one.queue_declare(fed, durable=True, arguments={"x-queue-type": "stream", "x-view": view})
    saved = json.loads(shell.do("definitions", "export"))
    mine = {
        "vhosts": saved["vhosts"],
        "queues": [queue for queue in saved["queues"] if queue["name"].startswith(name)],
        "views": [view for view in saved["views"] if view["name"].startswith(name)],
    }
    assert (len(mine["queues"]), len(mine["views"])) == (4, 2)
    for queue in (under, stream, above, second):
        one.queue_delete(queue)
    shell.do("definitions", "import", input=json.dumps(mine))
    again = json.loads(shell.do("definitions", "export"))
    assert sorted(queue["name"] for queue in again["queues"] if queue["name"].startswith(name)) == sorted(
        (under, stream, above, second)
    )
    assert [view for view in again["views"] if view["name"].startswith(name)] == mine["views"]
    for queue in (under, stream, above, second):
        one.queue_delete(queue)
