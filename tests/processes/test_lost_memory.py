"""A node is killed, and with it the queues in its memory: what others publish to, and declare again."""

from __future__ import annotations

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, NackError

from tests.processes.conftest import Connect
from tests.processes.nodes import Cluster, until
from tests.processes.test_pika import PERSISTENT, get


@pytest.mark.requirement("A13.2")
def test_a_fanout_goes_on_to_the_queues_that_are_left(own_cluster: Cluster, own_channel: Connect) -> None:
    first, third = own_cluster[0].connect().channel(), own_channel(2)
    third.exchange_declare("news", "fanout", durable=True)
    third.queue_declare("kept", durable=True)
    first.queue_declare("transient", auto_delete=True)
    first.queue_declare("exclusive", exclusive=True)
    server_named = first.queue_declare("", exclusive=True).method.queue
    for queue in ("kept", "transient", "exclusive", server_named):
        first.queue_bind(queue, "news")
    third.confirm_delivery()
    third.basic_publish("news", "", b"before", PERSISTENT)
    own_cluster[0].kill()
    for number in range(20):
        third.basic_publish("news", "", b"%d" % number, PERSISTENT)
    bodies = [get(third, "kept")[2] for _ in range(21)]
    assert bodies == [b"before", *(b"%d" % number for number in range(20))]
    # A queue that lost all its messages with its owner confirms publishes like any queue without consumers.
    third.basic_publish("", server_named, b"confirmed all the same", PERSISTENT)


@pytest.mark.requirement("A23.1")
def test_a_durable_queue_out_of_reach_is_owned_up_to(own_cluster: Cluster, own_channel: Connect) -> None:
    first, third = own_cluster[0].connect().channel(), own_channel(2)
    third.exchange_declare("news", "fanout", durable=True)
    first.queue_declare("classic", durable=True, arguments={"x-queue-type": "classic"})
    third.queue_declare("kept", durable=True)
    for queue in ("kept", "classic"):
        third.queue_bind(queue, "news")
    third.confirm_delivery()
    own_cluster[0].kill()
    with pytest.raises(NackError):
        until(lambda: third.basic_publish("news", "", b"in one queue", PERSISTENT), "never", 5.0)
    assert get(third, "kept")[2] == b"in one queue"


@pytest.mark.parametrize("exclusive", [False, True], ids=["transient", "exclusive"])
def test_a_client_declares_its_queue_again_on_another_node(
    own_cluster: Cluster, own_channel: Connect, exclusive: bool
) -> None:
    first = own_cluster[0].connect().channel()
    first.queue_declare("mine", exclusive=exclusive, auto_delete=True)
    own_cluster[0].kill()
    second, third = own_channel(1), own_channel(2)
    assert second.queue_declare("mine", exclusive=exclusive, auto_delete=True).method.message_count == 0
    third.basic_publish("", "mine", b"there")
    assert get(second, "mine")[2] == b"there"
    own_cluster[0].start()
    own_cluster[0].wait_ready()
    third.basic_publish("", "mine", b"and stays there")
    assert get(second, "mine")[2] == b"and stays there"


@pytest.mark.requirement("A15.2")
def test_a_lost_queue_is_forgotten(own_cluster: Cluster) -> None:
    own_cluster[0].connect().channel().queue_declare("mine", auto_delete=True)
    own_cluster[0].kill()
    with own_cluster[1].connect() as connection:

        def refusal() -> str:
            with pytest.raises(ChannelClosedByBroker) as closed:
                connection.channel().queue_declare("mine", passive=True)
            assert closed.value.reply_code == 404
            return str(closed.value.reply_text)

        until(lambda: refusal() == "NOT_FOUND - no queue 'mine' in vhost '/'", "the queue is forgotten", 10.0)
        channel = connection.channel()
        channel.confirm_delivery()
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("", "mine", b"", mandatory=True)
