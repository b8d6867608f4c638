"""Direct reply-to over nodes: requests and replies without a declared queue."""

from __future__ import annotations

import pika
import pytest
from pika import spec

from tests.conformance.raw import RawClient, publish
from tests.processes.conftest import Connect
from tests.processes.nodes import Cluster, until

REPLY_TO = "amq.rabbitmq.reply-to"


@pytest.mark.requirement("A23.6")
@pytest.mark.parametrize("server_node", [0, 1, 2])
def test_replies_come_from_any_node(channel: Connect, name: str, server_node: int) -> None:
    asking, answering = channel(0), channel(server_node)
    answering.queue_declare(name)
    replies: list[tuple[str, bytes]] = []
    asking.basic_consume(
        REPLY_TO,
        lambda channel, method, properties, body: replies.append((properties.correlation_id, body)),
        auto_ack=True,
    )
    for number in range(20):
        asking.basic_publish(
            "", name, b"%d" % number, pika.BasicProperties(reply_to=REPLY_TO, correlation_id=str(number))
        )
    for _ in range(20):
        got = until(lambda: (found := answering.basic_get(name, auto_ack=True))[0] and found, "a question")
        assert got[1].reply_to.startswith(REPLY_TO + ".")
        answering.basic_publish(
            "", got[1].reply_to, got[2] * 2, pika.BasicProperties(correlation_id=got[1].correlation_id)
        )
    until(lambda: asking.connection.process_data_events(0) or len(replies) == 20, "all answers")
    assert replies == [(str(number), b"%d" % number * 2) for number in range(20)]


def name_for_replies(client: RawClient, channel: int, queue: str) -> str:
    """The reply-to address that a consumer gets in a request for a direct reply."""
    asking = spec.BasicProperties(reply_to=REPLY_TO)
    client.send(publish(channel, queue, b"question", properties=asking))
    client.ask(channel, spec.Basic.Get(queue=queue, no_ack=True), spec.Basic.GetOk)
    return str(client.content(channel)[0].reply_to)


@pytest.mark.requirement("A23.6")
def test_whether_the_one_who_asked_is_still_there_can_be_told(cluster: Cluster, name: str) -> None:
    asking, answering = RawClient(cluster[0].amqp).open(1), RawClient(cluster[1].amqp).open(1)
    answering.declare(1, name)
    consume = spec.Basic.Consume(queue=REPLY_TO, consumer_tag="t", no_ack=True)
    asking.ask(1, consume, spec.Basic.ConsumeOk)
    replies = name_for_replies(asking, 1, name)
    for passive in (True, False):
        ok = answering.declare(1, replies, passive=passive)
        assert (ok.queue, ok.message_count, ok.consumer_count) == (replies, 0, 1)
    asking.ask(1, spec.Basic.Cancel(consumer_tag="t"), spec.Basic.CancelOk)

    def gone() -> bool:
        answering.send((1, spec.Queue.Declare(queue=replies, passive=True)))
        answer = answering.frame().method
        if isinstance(answer, spec.Queue.DeclareOk):
            return False
        assert (answer.reply_code, answer.reply_text) == (
            404, f"NOT_FOUND - no queue '{replies}' in vhost '/'",
        )  # fmt: skip
        return True

    until(gone, "the name leads nowhere")
    asking.close()
    answering.vanish()


@pytest.mark.requirement("A23.6")
def test_made_up_names_lead_nowhere(cluster: Cluster, name: str) -> None:
    client = RawClient(cluster[0].amqp).open(1)
    client.declare(1, name)
    own = client.declare(1, "", exclusive=True).queue
    consume = spec.Basic.Consume(queue=REPLY_TO, consumer_tag="t", no_ack=True)
    client.ask(1, consume, spec.Basic.ConsumeOk)
    replies = name_for_replies(client, 1, name)
    front_end, partition, queue, vhost = replies.removeprefix(REPLY_TO + ".").split(".")
    catalog = cluster.queue(name)
    assert catalog is not None
    made_up = [
        f"{REPLY_TO}.{front_end}.{partition}.{int(queue, 16) + 1:x}.{vhost}",
        f"{REPLY_TO}.{front_end}.{partition}.{queue}.0",
        f"{REPLY_TO}.0.{partition}.{queue}.{vhost}",
        f"{REPLY_TO}.{front_end}.{partition}.1.{vhost}",
        f"amq.gen-0.1.1.{vhost}",
        REPLY_TO,
        own[:-1] + ("0" if own[-1] != "0" else "1"),
    ]
    for key in made_up:
        client.send(publish(1, key, b"astray", mandatory=True))
        returned = client.method(spec.Basic.Return, 1)
        assert (returned.reply_code, returned.routing_key) == (312, key)
        client.content(1)
    assert client.depth(1, name) == client.depth(1, own) == 0
    client.close()


@pytest.mark.requirement("A23.6")
def test_what_is_refused_is_refused_as_by_rabbitmq(cluster: Cluster, name: str) -> None:
    client = RawClient(cluster[0].amqp).open()
    asking = spec.BasicProperties(reply_to=REPLY_TO)
    consume = spec.Basic.Consume(queue=REPLY_TO, consumer_tag="t", no_ack=True)
    for frames, code, text in (
        ([(1, spec.Basic.Consume(queue=REPLY_TO))], 406, "reply consumer cannot acknowledge"),
        ([publish(1, name, b"", properties=asking)], 406, "fast reply consumer does not exist"),
        ([(1, spec.Basic.Get(queue=REPLY_TO))], 404, f"no queue '{REPLY_TO}' in vhost '/'"),
        (
            [(1, spec.Queue.Bind(queue=REPLY_TO, exchange="amq.direct"))],
            404, f"no queue '{REPLY_TO}' in vhost '/'",
        ),
    ):  # fmt: skip
        client.ask(1, spec.Channel.Open(), spec.Channel.OpenOk)
        client.send(*frames)
        close = client.channel_closed(1)
        assert (close.reply_code, close.reply_text.partition(" - ")[2]) == (code, text)
    client.ask(1, spec.Channel.Open(), spec.Channel.OpenOk)
    client.ask(1, consume, spec.Basic.ConsumeOk)
    again = spec.Basic.Consume(queue=REPLY_TO, consumer_tag="u", no_ack=True)
    client.send((1, again))
    assert client.channel_closed(1).reply_text == "PRECONDITION_FAILED - reply consumer already set"
    ok = RawClient(cluster[1].amqp).open(1).declare(1, REPLY_TO)
    assert (ok.queue, ok.message_count, ok.consumer_count) == (REPLY_TO, 0, 1)
    client.close()
