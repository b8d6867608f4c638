"""The specification's sentences about what lasts: over a restart of the server, and without (§1.4.3, 3.1)."""

from __future__ import annotations

from typing import Any

import pytest
from pika import spec

from tests.conformance.raw import PERSISTENT, RawClient, publish
from tests.processes.nodes import Node

LASTING = spec.BasicProperties(delivery_mode=2, headers={"a": 1})


def exists(client: RawClient, request: Any) -> bool:
    """Whether a passive declaration finds what it names."""
    client.send((1, request))
    answer = client.frame().method
    if not isinstance(answer, spec.Channel.Close):
        return True
    assert answer.reply_code == 404
    client.send((1, spec.Channel.CloseOk()))
    client.ask(1, spec.Channel.Open(), spec.Channel.OpenOk)
    return False


def queue_exists(client: RawClient, queue: str) -> bool:
    return exists(client, spec.Queue.Declare(queue=queue, passive=True))


def exchange_exists(client: RawClient, exchange: str) -> bool:
    return exists(client, spec.Exchange.Declare(exchange=exchange, passive=True))


def bind(client: RawClient, queue: str, exchange: str) -> None:
    client.ask(1, spec.Queue.Bind(queue=queue, exchange=exchange, routing_key="k"), spec.Queue.BindOk)


@pytest.mark.requirement("A14.1", "A14.2", "A15.1", "A15.2", "A21.1")
@pytest.mark.sentence("1.4.3-1", "1.4.3-2", "1.4.3-3", "3.1.3-1", "3.1.4-2")
@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_what_lasts_over_a_restart(restarting: Node, end: str) -> None:
    client = RawClient(restarting.amqp).open(1)
    client.ask(1, spec.Confirm.Select(), spec.Confirm.SelectOk)
    for exchange, durable, auto_delete in (
        ("durable", True, False), ("temporary", False, False), ("left", True, True), ("used", True, True),
        ("gone", False, True),
    ):  # fmt: skip
        how = {"durable": durable, "auto_delete": auto_delete}
        client.ask(1, spec.Exchange.Declare(exchange=exchange, **how), spec.Exchange.DeclareOk)
    client.declare(1, "kept", durable=True)
    client.declare(1, "lost")
    for queue, exchange in (
        ("kept", "durable"), ("kept", "temporary"), ("kept", "used"), ("lost", "left"), ("lost", "gone"),
        ("lost", "durable"),
    ):  # fmt: skip
        bind(client, queue, exchange)
    client.send(
        publish(1, "kept", b"persistent", properties=PERSISTENT),
        publish(1, "kept", b"transient"),
        publish(1, "k", b"over the exchange", exchange="durable", properties=LASTING),
    )
    client.until(spec.Basic.Ack, 1)
    acknowledged = client.ask(1, spec.Queue.Declare(queue="kept", passive=True), spec.Queue.DeclareOk)
    assert acknowledged.message_count == 3
    getattr(restarting, end)()
    restarting.start()
    restarting.wait_ready()
    client = RawClient(restarting.amqp).open(1)
    found = [
        name for name in ("durable", "temporary", "left", "used", "gone") if exchange_exists(client, name)
    ]
    assert found == ["durable", "used"]
    assert queue_exists(client, "kept") and not queue_exists(client, "lost")
    client.send(publish(1, "k", b"still bound", exchange="durable"))
    got = [client.get(1, "kept")[1] for _ in range(client.depth(1, "kept"))]
    assert got == [b"persistent", b"over the exchange", b"still bound"]
    client.close()


@pytest.mark.requirement("A14.3")
@pytest.mark.sentence("3.1.3-1")
def test_an_auto_delete_exchange_lasts_until_it_is_used_no_longer(node: Node, name: str) -> None:
    client = RawClient(node.amqp).open(1)
    client.ask(1, spec.Exchange.Declare(exchange=name, auto_delete=True), spec.Exchange.DeclareOk)
    queues = [client.declare(1, "", exclusive=True).queue for _ in range(2)]
    for queue in queues:
        bind(client, queue, name)
    unbind = spec.Queue.Unbind(queue=queues[0], exchange=name, routing_key="k")
    client.ask(1, unbind, spec.Queue.UnbindOk)
    assert exchange_exists(client, name)
    client.ask(1, spec.Queue.Delete(queue=queues[1]), spec.Queue.DeleteOk)
    assert not exchange_exists(client, name)
    client.close()


@pytest.mark.requirement("A14.4")
def test_only_exchanges_publish_to_an_internal_one(node: Node, name: str) -> None:
    client = RawClient(node.amqp).open(1)
    inner, outer = f"{name}-inner", f"{name}-outer"
    for exchange, internal in ((inner, True), (outer, False)):
        declare = spec.Exchange.Declare(exchange=exchange, type="fanout", internal=internal)
        client.ask(1, declare, spec.Exchange.DeclareOk)
    queue = client.declare(1, "", exclusive=True).queue
    bind(client, queue, inner)
    client.ask(1, spec.Exchange.Bind(destination=inner, source=outer), spec.Exchange.BindOk)
    client.send(publish(1, "k", b"by way of another", exchange=outer))
    client.send(publish(1, "k", b"by a client", exchange=inner))
    assert client.channel_closed(1).reply_code == 403
    client.ask(1, spec.Channel.Open(), spec.Channel.OpenOk)
    assert client.get(1, queue)[1] == b"by way of another"
    assert client.depth(1, queue) == 0
    for exchange in (outer, inner):
        client.ask(1, spec.Exchange.Delete(exchange=exchange), spec.Exchange.DeleteOk)
    client.close()


@pytest.mark.requirement("A15.3")
@pytest.mark.sentence("2.2.7-1", "3.1.4-2")
@pytest.mark.parametrize("durable", [False, True])
def test_an_auto_delete_queue_goes_when_its_last_consumer_ends(node: Node, name: str, durable: bool) -> None:
    client = RawClient(node.amqp).open(1)
    client.declare(1, name, auto_delete=True, durable=durable)
    consume, cancel = spec.Basic.Consume(queue=name, consumer_tag="t"), spec.Basic.Cancel(consumer_tag="t")
    client.send((1, consume), publish(1, name, b"x"))
    client.method(spec.Basic.ConsumeOk, 1)
    assert client.delivery(1)[1] == b"x"
    assert queue_exists(client, name)
    client.ask(1, cancel, spec.Basic.CancelOk)
    assert not queue_exists(client, name)
    client.close()
