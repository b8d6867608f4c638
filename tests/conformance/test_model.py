"""The specification's sentences about exchanges, queues and messages (§1.4.1, 3.1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pika import spec

from node.wire.amqp091 import methods as generated
from tests.conformance.conftest import Connect
from tests.conformance.raw import RawClient, publish
from tests.processes.management_client import Management
from tests.processes.nodes import Node, until

SPECIFICATION = Path(__file__).resolve().parents[2] / "spec" / "amqp-rabbitmq-0.9.1.json"


def bound(client: RawClient, exchange: str, key: str = "", arguments: Any = None) -> str:
    """A new exclusive queue that is bound to the exchange."""
    queue = str(client.declare(1, "", exclusive=True).queue)
    bind = spec.Queue.Bind(queue=queue, exchange=exchange, routing_key=key, arguments=arguments)
    client.ask(1, bind, spec.Queue.BindOk)
    return queue


def refusal(client: RawClient, request: Any) -> int:
    """The reply code of a channel exception; the channel is opened again."""
    client.send((1, request))
    code = int(client.channel_closed(1).reply_code)
    client.ask(1, spec.Channel.Open(), spec.Channel.OpenOk)
    return code


# -- names --------------------------------------------------------------------------------------


@pytest.mark.sentence("1.4.1-1", "1.4.1-2")
def test_constants_and_arguments_have_their_names() -> None:
    tables = json.loads(SPECIFICATION.read_text(encoding="utf-8"))
    for constant in tables["constants"]:
        upper = constant["name"].replace("-", "_")
        codes = generated if hasattr(generated, upper) else generated.ReplyCode
        assert upper.isupper() and getattr(codes, upper) == constant["value"]
    for each in tables["classes"]:
        for one in each["methods"]:
            words = f"{each['name']}-{one['name']}".split("-")
            fields = getattr(generated, "".join(word.capitalize() for word in words)).__slots__
            for argument in one["arguments"]:
                wanted = argument["name"].replace("-", "_")
                assert wanted.islower()
                reserved = wanted == "ticket" or wanted.startswith("reserved")
                assert reserved or {wanted, wanted + "_"} & set(fields), (words, argument)


@pytest.mark.requirement("A15.9")
@pytest.mark.sentence("1.4.1-3")
def test_names_are_case_sensitive(connect: Connect, name: str) -> None:
    client = connect(1)
    client.declare(1, name, exclusive=True)
    assert refusal(client, spec.Queue.Declare(queue=name.upper(), passive=True)) == 404
    assert refusal(client, spec.Exchange.Declare(exchange="amq.Direct", passive=True)) == 404
    queue = bound(client, "amq.direct", "Key")
    client.send(publish(1, "key", b"no", exchange="amq.direct"))
    client.send(publish(1, "Key", b"yes", exchange="amq.direct"))
    assert client.get(1, queue)[1] == b"yes"
    assert client.depth(1, queue) == 0


@pytest.mark.requirement("A13.6", "A15.6", "A15.8")
@pytest.mark.sentence("3.1.3.6-1", "3.1.10-1", "3.1.10-2", "3.1.10-3")
def test_what_begins_with_amq_is_the_servers_own(connect: Connect, name: str) -> None:
    client = connect(1)
    assert client.declare(1, "", exclusive=True).queue.startswith("amq.")
    assert refusal(client, spec.Queue.Declare(queue="amq." + name)) == 403
    assert refusal(client, spec.Exchange.Declare(exchange="amq." + name)) == 403
    delayed = {"x-delayed-type": "direct"}
    declare = spec.Exchange.Declare(exchange=name, type="x-delayed-message", arguments=delayed)
    client.ask(1, declare, spec.Exchange.DeclareOk)
    client.ask(1, spec.Exchange.Delete(exchange=name), spec.Exchange.DeleteOk)
    for unknown in ("delayed-message", "system", "Direct", ""):
        assert refusal(client, spec.Exchange.Declare(exchange=name, type=unknown)) == 406


# -- exchanges ----------------------------------------------------------------------------------


STANDARD = {
    "amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic", "amq.match": "headers",
    "amq.headers": "headers",
}  # fmt: skip


@pytest.mark.requirement("A12.3", "A12.4", "A12.5", "A12.6", "A12.7")
@pytest.mark.sentence("3.1.3.1-1", "3.1.3.2-1", "3.1.3.3-3", "3.1.3.4-2")
@pytest.mark.parametrize(("exchange", "type_"), STANDARD.items())
def test_exchanges_of_the_standard_are_there(connect: Connect, exchange: str, type_: str, name: str) -> None:
    client = connect(1)
    same = spec.Exchange.Declare(exchange=exchange, type=type_, durable=True)
    client.ask(1, same, spec.Exchange.DeclareOk)
    own = spec.Exchange.Declare(exchange=name, type=type_)
    client.ask(1, own, spec.Exchange.DeclareOk)
    for each in (exchange, name):
        queue = bound(client, each, "k")
        client.send(publish(1, "k", b"x", exchange=each))
        assert client.get(1, queue)[1] == b"x"
    client.ask(1, spec.Exchange.Delete(exchange=name), spec.Exchange.DeleteOk)


@pytest.mark.requirement("A12.8")
def test_each_virtual_host_has_the_standard_exchanges(node: Node, connect: Connect, name: str) -> None:
    api = Management(node)
    for vhost in (f"{name}-1", f"{name}-2"):
        api.call("PUT", f"/vhosts/{vhost}")
        client = connect(1, vhost=vhost)
        queue = client.declare(1, "same").queue
        client.send(publish(1, queue, b"default"))
        assert client.get(1, queue)[1] == b"default"
        for exchange, type_ in STANDARD.items():
            there = spec.Exchange.Declare(exchange=exchange, passive=True)
            client.ask(1, there, spec.Exchange.DeclareOk)
            same = spec.Exchange.Declare(exchange=exchange, type=type_, durable=True)
            client.ask(1, same, spec.Exchange.DeclareOk)
            bind = spec.Queue.Bind(queue=queue, exchange=exchange, routing_key="k")
            client.ask(1, bind, spec.Queue.BindOk)
            client.send(publish(1, "k", exchange.encode(), exchange=exchange))
            assert client.get(1, queue)[1] == exchange.encode()
    for vhost in (f"{name}-1", f"{name}-2"):
        api.call("DELETE", f"/vhosts/{vhost}")


@pytest.mark.requirement("A12.1", "A12.2", "A5.10")
@pytest.mark.sentence("3.1.3.1-1", "3.1.3.1-2")
def test_every_queue_is_bound_to_the_nameless_exchange(connect: Connect, name: str) -> None:
    client = connect(1)
    queues = [
        client.declare(1, name).queue,
        client.declare(1, name + " durable", durable=True).queue,
        client.declare(1, name + " exclusive", exclusive=True).queue,
        client.declare(1, "", exclusive=True).queue,
        client.declare(1, "").queue,
    ]
    for queue in queues:
        client.send(publish(1, queue, queue.encode()))
    assert [client.get(1, queue)[1].decode() for queue in queues] == queues
    for queue in queues:
        client.ask(1, spec.Queue.Delete(queue=queue), spec.Queue.DeleteOk)
        client.send(publish(1, queue, b"", mandatory=True))
        assert client.method(spec.Basic.Return, 1).reply_code == 312
        client.content(1)


@pytest.mark.requirement("A13.2")
@pytest.mark.sentence("3.1.3-2")
def test_a_message_goes_to_many_queues_which_are_consumed_independently(connect: Connect) -> None:
    client = connect(1)
    first, second, third = (bound(client, "amq.fanout", key) for key in ("", "x", "y"))
    client.send(publish(1, "k", b"one", exchange="amq.fanout"))
    client.ask(1, spec.Queue.Purge(queue=first), spec.Queue.PurgeOk)
    assert client.get(1, second)[1] == client.get(1, third)[1] == b"one"
    assert client.depth(1, first) == 0


@pytest.mark.requirement("A13.3")
@pytest.mark.sentence("3.1.3.3-2")
def test_topic_patterns(connect: Connect) -> None:
    client = connect(1)
    cases = {
        "*.stock.#": (["usd.stock", "eur.stock.db", "a.stock.b.c"], ["stock.nasdaq", "stock", "a.b.stock"]),
        "#": (["", "a", "a.b.c"], []),
        "*": (["a"], ["", "a.b"]),
        "a.#.b": (["a.b", "a.x.b", "a.x.y.b"], ["a", "b", "a.b.c"]),
        "a.b": (["a.b"], ["a.B", "a.b.", "ab"]),
    }
    for pattern, (good, bad) in cases.items():
        queue = bound(client, "amq.topic", pattern)
        for key in good + bad:
            client.send(publish(1, key, key.encode(), exchange="amq.topic"))
        assert [client.get(1, queue)[1].decode() for _ in good] == good
        assert client.depth(1, queue) == 0


@pytest.mark.requirement("A13.4")
@pytest.mark.sentence("3.1.3.4-1")
def test_headers_match(connect: Connect) -> None:
    client = connect(1)
    every = bound(client, "amq.match", "", {"x-match": "all", "a": 1, "b": "x", "there": None})
    some = bound(client, "amq.match", "", {"x-match": "any", "a": 1, "there": None})
    headers: list[dict[str, Any]] = [
        {"a": 1, "b": "x", "there": 9}, {"a": 1, "b": "x"}, {"a": 1, "b": "y", "there": 0},
        {"a": 1}, {"there": "now"}, {"a": 2}, {}, {"x-match": "all"},
    ]  # fmt: skip
    for number, one in enumerate(headers):
        properties = spec.BasicProperties(headers=one)
        client.send(publish(1, "", b"%d" % number, exchange="amq.match", properties=properties))
    assert client.depth(1, every) == 1 and client.get(1, every)[1] == b"0"
    assert [client.get(1, some)[1] for _ in range(client.depth(1, some))] == [b"0", b"1", b"2", b"3", b"4"]


# -- queues -------------------------------------------------------------------------------------


@pytest.mark.requirement("A17.6")
@pytest.mark.sentence("3.1.4-3")
def test_a_message_goes_to_one_consumer(connect: Connect) -> None:
    client = connect(*range(1, 6))
    queue = client.declare(1, "", exclusive=True).queue
    for channel in range(2, 6):
        client.ask(channel, spec.Basic.Consume(queue=queue), spec.Basic.ConsumeOk)
    count = 200
    client.send(*(publish(1, queue, b"%d" % number) for number in range(count)))
    got = []
    for _ in range(count):
        deliver = client.frame()
        got.append(client.content(deliver.channel_number)[1])
    assert sorted(map(int, got)) == list(range(count))
    assert client.depth(1, queue) == 0, "nothing came between"


@pytest.mark.requirement("A15.7")
@pytest.mark.sentence("3.1.5-1")
def test_bindings_die_with_their_queue(connect: Connect, name: str) -> None:
    client = connect(1)
    for _ in range(2):
        client.declare(1, name)
        client.send(publish(1, name, b"astray", exchange="amq.direct", mandatory=True))
        assert client.method(spec.Basic.Return, 1).reply_code == 312
        client.content(1)
        bind = spec.Queue.Bind(queue=name, exchange="amq.direct", routing_key=name)
        client.ask(1, bind, spec.Queue.BindOk)
        client.ask(1, spec.Queue.Delete(queue=name), spec.Queue.DeleteOk)


@pytest.mark.requirement("A18.1", "A18.3")
@pytest.mark.sentence("3.1.7-1")
@pytest.mark.parametrize(("qos", "bound_"), [(spec.Basic.Qos(0, 3), 3), (spec.Basic.Qos(2000, 0), 2)])
def test_so_much_is_sent_before_an_acknowledgement(
    connect: Connect, qos: spec.Basic.Qos, bound_: int
) -> None:
    client = connect(1)
    queue = client.declare(1, "", exclusive=True).queue
    client.send(*(publish(1, queue, bytes(1000)) for _ in range(10)))
    client.ask(1, qos, spec.Basic.QosOk)
    client.ask(1, spec.Basic.Consume(queue=queue), spec.Basic.ConsumeOk)
    tags = [client.delivery(1)[0].delivery_tag for _ in range(bound_)]
    assert client.depth(1, queue) == 10 - bound_, "no more came before this answer"
    client.send((1, spec.Basic.Ack(delivery_tag=tags[0])))
    assert client.delivery(1)[0].delivery_tag == tags[-1] + 1
    assert client.depth(1, queue) == 10 - bound_ - 1


@pytest.mark.requirement("A17.9", "A17.10")
@pytest.mark.sentence("3.1.8-1", "3.1.8-2")
def test_messages_stay_until_they_are_acknowledged(connect: Connect, name: str) -> None:
    client = connect(1, 2)
    for no_ack, left in ((True, 0), (False, 4)):
        client.declare(1, name)
        client.send(*(publish(1, name, b"%d" % number) for number in range(4)))
        client.get(2, name, no_ack)
        client.get(2, name, no_ack)
        client.ask(2, spec.Basic.Consume(queue=name, no_ack=no_ack), spec.Basic.ConsumeOk)
        client.delivery(2)
        client.delivery(2)
        client.ask(2, spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)
        assert client.depth(1, name) == left
        client.ask(2, spec.Channel.Open(), spec.Channel.OpenOk)
        client.ask(1, spec.Queue.Delete(queue=name), spec.Queue.DeleteOk)
    client.declare(1, name)
    client.send(*(publish(1, name, b"%d" % number) for number in range(5)))
    tags = [client.get(2, name, no_ack=False)[0].delivery_tag for _ in range(5)]
    client.send((2, spec.Basic.Ack(tags[4])), (2, spec.Basic.Ack(tags[2], multiple=True)))
    client.ask(2, spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)
    assert [client.get(1, name)[1] for _ in range(client.depth(1, name))] == [b"3"]
    client.ask(1, spec.Queue.Delete(queue=name), spec.Queue.DeleteOk)


@pytest.mark.requirement("A9.4")
@pytest.mark.sentence("3.1.9-1")
def test_a_client_stops_the_flow_of_messages(connect: Connect) -> None:
    client = connect(1, 2)
    queue = client.declare(1, "", exclusive=True).queue
    client.ask(2, spec.Basic.Consume(queue=queue), spec.Basic.ConsumeOk)
    assert client.ask(2, spec.Channel.Flow(active=False), spec.Channel.FlowOk).active is False
    client.send(publish(1, queue, b"x"))
    assert client.depth(1, queue) == 1
    assert client.depth(1, queue) == 1
    client.send((2, spec.Channel.Flow(active=True)))
    assert client.method(spec.Channel.FlowOk, 2).active is True
    assert client.delivery(2)[1] == b"x"


@pytest.mark.sentence("3.2.1-1")
def test_minima_are_exceeded_by_far(connect: Connect, name: str) -> None:
    client = connect(1)
    client.declare(1, name)
    for number in range(500):
        client.ask(1, spec.Basic.Consume(queue=name, consumer_tag=str(number)), spec.Basic.ConsumeOk)
    assert client.declare(1, name, passive=True).consumer_count == 500
    client.ask(1, spec.Queue.Delete(queue=name), spec.Queue.DeleteOk)
    cancelled = {client.method(spec.Basic.Cancel, 1).consumer_tag for _ in range(500)}
    assert cancelled == {str(number) for number in range(500)}


# -- messages -----------------------------------------------------------------------------------

EVERY_PROPERTY = spec.BasicProperties(
    content_type="a/b", content_encoding="c", headers={"d": [1, None, {"e": b"\xff"}], "x-f": "g"},
    delivery_mode=2, priority=9, correlation_id="h", reply_to="i", expiration="86400000", message_id="j",
    timestamp=1 << 40, type="k", user_id="guest", app_id="l", cluster_id="m",
)  # fmt: skip


def unchanged(properties: spec.BasicProperties) -> bool:
    """Whether all is there that was sent; headers may have been added."""
    same = properties.headers.items() >= EVERY_PROPERTY.headers.items()
    properties.headers = EVERY_PROPERTY.headers
    return bool(same and properties == EVERY_PROPERTY)


@pytest.mark.requirement("A21.2", "A21.3")
@pytest.mark.sentence("3.1.1-3", "3.1.1-4")
def test_bodies_and_properties_stay_as_they_were(connect: Connect, name: str) -> None:
    """In every kind of queue, also after they came back, and as a dead letter: that one is added to."""
    client = connect(1)
    body = bytes(range(256)) * 2000
    grave = client.declare(1, "", exclusive=True).queue
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    kinds: tuple[dict[str, Any], ...] = ({"durable": True}, {}, {"exclusive": True})
    for how in kinds:
        client.declare(1, name, **how, arguments=letters)
        client.send(publish(1, name, body, properties=EVERY_PROPERTY))
        for redelivered in (False, True):
            got = client.ask(1, spec.Basic.Get(queue=name), spec.Basic.GetOk)
            assert got.redelivered is redelivered
            properties, came = client.content(1)
            assert came == body and unchanged(properties)
            client.send((1, spec.Basic.Reject(got.delivery_tag, requeue=not redelivered)))
        until(lambda: client.depth(1, grave) == 1, "the dead letter is there")
        client.ask(1, spec.Queue.Delete(queue=name), spec.Queue.DeleteOk)
        client.ask(1, spec.Basic.Get(queue=grave, no_ack=True), spec.Basic.GetOk)
        properties, dead = client.content(1)
        assert properties.headers["x-death"][0]["queue"] == name
        # A dead letter must not expire again: its time to live has moved into x-death, as by RabbitMQ.
        properties.expiration = EVERY_PROPERTY.expiration
        assert dead == body and unchanged(properties)


@pytest.mark.requirement("A20.1", "A20.2")
@pytest.mark.sentence("3.1.1-1", "3.1.1-2")
def test_high_priorities_come_first_and_low_ones_are_discarded_first(connect: Connect) -> None:
    client = connect(1)
    arguments = {"x-max-priority": 9, "x-max-length": 4}
    queue = client.declare(1, "", exclusive=True, arguments=arguments).queue
    for priority in (1, 9, 0, 5, 5, 3, 2):
        properties = spec.BasicProperties(priority=priority)
        client.send(publish(1, queue, b"%d" % priority, properties=properties))
    assert [client.get(1, queue)[1] for _ in range(client.depth(1, queue))] == [b"9", b"5", b"5", b"3"]
