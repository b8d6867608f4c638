"""Server-named exclusive queues, which their own node alone has, as clients of other nodes meet them."""

from __future__ import annotations

from pika import spec

from tests.conformance.raw import RawClient
from tests.processes.nodes import Cluster, until


def told(client: RawClient, queue: str) -> tuple[int, str]:
    """The refusal of a passive declaration on a channel of its own."""
    client.ask(1, spec.Channel.Open(), spec.Channel.OpenOk)
    client.send((1, spec.Queue.Declare(queue=queue, passive=True)))
    close = client.channel_closed(1)
    return close.reply_code, close.reply_text.partition("'")[0]


def test_every_node_knows_whether_a_server_named_queue_is_there(cluster: Cluster) -> None:
    owning, other = RawClient(cluster[0].amqp).open(1), RawClient(cluster[1].amqp).open()
    queue = owning.declare(1, "", exclusive=True).queue
    assert told(other, queue) == (
        405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue ",
    )  # fmt: skip
    owning.close()
    until(lambda: told(other, queue) == (404, "NOT_FOUND - no queue "), "the queue is gone")
    other.close()
