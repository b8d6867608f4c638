"""The specification's sentences about what happens on channels, and in which order (§2.2.9, 4.3 to 4.7)."""

from __future__ import annotations

import pytest
from pika import frame, spec

from tests.conformance.conftest import Connect
from tests.conformance.raw import RawClient, method, publish


def bodies(client: RawClient, queue: str) -> list[bytes]:
    """Take the ready messages out of a queue."""
    return [client.get(1, queue)[1] for _ in range(client.depth(1, queue))]


@pytest.mark.requirement("A9.1")
@pytest.mark.sentence("4.3-1")
def test_many_channels(connect: Connect) -> None:
    numbers = (*range(1, 200), 40_000, 65_535)
    client = connect(*numbers)
    queue = client.declare(1, "", exclusive=True).queue
    client.send(*(publish(number, queue, b"%d" % number) for number in numbers))
    for number in numbers:
        client.ask(number, spec.Basic.Qos(0, 1), spec.Basic.QosOk)
    assert sorted(map(int, bodies(client, queue))) == list(numbers)


@pytest.mark.requirement("A9.3")
@pytest.mark.sentence("4.3-2", "4.3-3")
def test_a_flooded_channel_starves_no_other(connect: Connect) -> None:
    """A request on another channel is answered long before the flood of a channel is over."""
    feeder, client = connect(1), connect(1, 2)
    flood = feeder.declare(1, "").queue
    count, size = 3000, 10_000
    feeder.send(*(publish(1, flood, bytes(size)) for _ in range(count)))
    assert feeder.depth(1, flood) == count
    client.ask(1, spec.Basic.Consume(queue=flood, no_ack=True), spec.Basic.ConsumeOk)
    client.send((2, spec.Basic.Qos(0, 1)))
    before = client.until(spec.Basic.QosOk, 2)
    between = sum(isinstance(one, frame.Header) for one in before)
    assert between < count / 2
    client.vanish()
    feeder.ask(1, spec.Queue.Delete(queue=flood), spec.Queue.DeleteOk)


@pytest.mark.requirement("A9.3")
@pytest.mark.sentence("4.3-2")
def test_two_flooded_channels_take_turns(connect: Connect) -> None:
    client = connect(1, 2)
    queues = [client.declare(1, "", exclusive=True).queue for _ in range(2)]
    count = 1000
    for queue in queues:
        client.send(*(publish(1, queue, bytes(3000)) for _ in range(count)))
        assert client.depth(1, queue) == count
    consume = [spec.Basic.Consume(queue=queue, consumer_tag="t", no_ack=True) for queue in queues]
    client.send((1, consume[0]), (2, consume[1]))
    seen = {1: 0, 2: 0}
    while max(seen.values()) < count:
        one = client.frame()
        seen[one.channel_number] += isinstance(one, frame.Header)
    assert min(seen.values()) > count / 4


@pytest.mark.requirement("A16.1", "A16.5")
@pytest.mark.sentence("4.4-1", "4.6-1")
def test_what_one_client_has_seen_every_client_sees(connect: Connect, name: str) -> None:
    first, second = connect(1), connect(1)
    absent = spec.Queue.Declare(queue=name, passive=True)
    for _ in range(5):
        first.declare(1, name)
        second.declare(1, name, passive=True)
        second.send(publish(1, name, b"x"))
        assert second.depth(1, name) == first.depth(1, name) == 1
        second.ask(1, spec.Queue.Purge(queue=name), spec.Queue.PurgeOk)
        assert first.depth(1, name) == 0
        second.ask(1, spec.Queue.Delete(queue=name), spec.Queue.DeleteOk)
        first.send((1, absent))
        assert first.channel_closed(1).reply_code == 404
        first.ask(1, spec.Channel.Open(), spec.Channel.OpenOk)


@pytest.mark.requirement("A16.4", "A16.5")
@pytest.mark.sentence("4.6-1")
def test_messages_begin_behind_consume_ok_and_end_before_cancel_ok(connect: Connect) -> None:
    client = connect(1)
    queue = client.declare(1, "", exclusive=True).queue
    for _ in range(20):
        client.send(*(publish(1, queue, b"x") for _ in range(10)))
        client.send(
            (1, spec.Basic.Consume(queue=queue, consumer_tag="t", no_ack=True)),
            *(publish(1, queue, b"y") for _ in range(10)),
            (1, spec.Basic.Cancel(consumer_tag="t")),
            (1, spec.Queue.Purge(queue=queue)),
        )
        assert isinstance(client.frame().method, spec.Basic.ConsumeOk)
        seen = client.until(spec.Basic.CancelOk, 1)
        delivered = sum(isinstance(one, frame.Header) for one in seen)
        # The delivered messages are removed; the others stay until the purge.
        assert client.method(spec.Queue.PurgeOk, 1).message_count == 20 - delivered


@pytest.mark.requirement("A16.5")
@pytest.mark.sentence("4.6-1")
def test_bindings_count_from_their_answer_on(connect: Connect, name: str) -> None:
    client = connect(1)
    queue = client.declare(1, "", exclusive=True).queue
    bind = spec.Queue.Bind(queue=queue, exchange="amq.direct", routing_key=name)
    unbind = spec.Queue.Unbind(queue=queue, exchange="amq.direct", routing_key=name)
    client.send(
        publish(1, name, b"before", exchange="amq.direct"),
        (1, bind),
        publish(1, name, b"bound", exchange="amq.direct"),
        (1, unbind),
        publish(1, name, b"after", exchange="amq.direct"),
    )
    client.method(spec.Queue.BindOk, 1)
    client.method(spec.Queue.UnbindOk, 1)
    assert bodies(client, queue) == [b"bound"]


def test_a_transient_queues_deliveries_leave_with_their_confirms(connect: Connect) -> None:
    """A node writes the confirm and the delivery in one piece. A client whose connection breaks between the
    two would otherwise wait for a confirmed message that no node has any more.
    """
    client = connect(1)
    queue = client.declare(1, "", exclusive=True).queue
    client.ask(1, spec.Confirm.Select(), spec.Confirm.SelectOk)
    client.ask(1, spec.Basic.Consume(queue=queue, no_ack=True), spec.Basic.ConsumeOk)
    for _ in range(20):
        client.send(publish(1, queue, b"one"))
        # Of one write a read brings all: they are few octets.
        methods = [type(one.method) for one in client.burst() if isinstance(one, frame.Method)]
        assert sorted(methods, key=lambda kind: kind.NAME) == [spec.Basic.Ack, spec.Basic.Deliver]


@pytest.mark.requirement("A16.4", "A17.13")
@pytest.mark.sentence("4.6-1")
def test_recovered_messages_come_behind_recover_ok(connect: Connect) -> None:
    client = connect(1)
    queue = client.declare(1, "", exclusive=True).queue
    client.send(*(publish(1, queue, b"%d" % number) for number in range(5)))
    client.ask(1, spec.Basic.Consume(queue=queue), spec.Basic.ConsumeOk)
    for number in range(5):
        deliver, body = client.delivery(1)
        assert not deliver.redelivered and body == b"%d" % number
    client.ask(1, spec.Basic.Recover(requeue=True), spec.Basic.RecoverOk)
    again = [client.delivery(1) for _ in range(5)]
    assert [body for _, body in again] == [b"%d" % number for number in range(5)]
    assert all(deliver.redelivered for deliver, _ in again)


@pytest.mark.requirement("A22.2")
@pytest.mark.sentence("4.5-1")
@pytest.mark.parametrize("end", ["channel", "exception", "connection", "socket"])
def test_what_a_closed_channel_had_comes_back_redelivered(connect: Connect, name: str, end: str) -> None:
    one, other = connect(1), connect(1)
    other.declare(1, name)
    other.send(*(publish(1, name, b"%d" % number) for number in range(6)))
    one.ask(1, spec.Basic.Qos(0, 4), spec.Basic.QosOk)
    one.ask(1, spec.Basic.Consume(queue=name), spec.Basic.ConsumeOk)
    tags = [one.delivery(1)[0].delivery_tag for _ in range(4)]
    one.send((1, spec.Basic.Ack(delivery_tag=tags[1])))
    one.delivery(1)
    other.ask(1, spec.Basic.Consume(queue=name), spec.Basic.ConsumeOk)
    assert other.delivery(1)[1] == b"5"
    if end == "channel":
        one.ask(1, spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)
    elif end == "exception":
        one.send((1, spec.Basic.Ack(delivery_tag=99)))
        assert one.channel_closed(1).reply_code == 406
    elif end == "connection":
        one.close()
    else:
        one.vanish()
    back = [other.delivery(1) for _ in range(4)]
    assert [body for _, body in back] == [b"0", b"2", b"3", b"4"]
    assert all(deliver.redelivered for deliver, _ in back)
    other.ask(1, spec.Queue.Delete(queue=name), spec.Queue.DeleteOk)


@pytest.mark.requirement("A15.5")
@pytest.mark.sentence("4.5-2")
def test_a_connections_exclusive_queues_go_with_it(connect: Connect, name: str) -> None:
    one, other = connect(1), connect(1)
    one.declare(1, name, exclusive=True, auto_delete=True)
    one.close()
    other.send((1, spec.Queue.Declare(queue=name, passive=True)))
    assert other.channel_closed(1).reply_code == 404


@pytest.mark.requirement("A22.1")
@pytest.mark.sentence("4.7-1")
@pytest.mark.parametrize("way", ["consume", "get"])
def test_order_is_kept_along_one_path(connect: Connect, name: str, way: str) -> None:
    sender, receiver = connect(1), connect(1)
    receiver.declare(1, name, durable=True)
    bind = spec.Queue.Bind(queue=name, exchange="amq.topic", routing_key=name + ".#")
    receiver.ask(1, bind, spec.Queue.BindOk)
    count = 3000 if way == "consume" else 300
    modes = (spec.BasicProperties(delivery_mode=2), spec.BasicProperties(delivery_mode=1))
    if way == "consume":
        receiver.ask(1, spec.Basic.Consume(queue=name), spec.Basic.ConsumeOk)
    for at in range(0, count, 100):
        numbers = range(at, at + 100)
        sender.send(
            *(
                publish(1, f"{name}.{n % 3}", b"%d" % n, exchange="amq.topic", properties=modes[n % 7 < 3])
                for n in numbers
            )
        )
    assert sender.ask(1, spec.Basic.Qos(0, 1), spec.Basic.QosOk)
    if way == "consume":
        got = [receiver.delivery(1) for _ in range(count)]
    else:
        sender.depth(1, name)
        got = [receiver.get(1, name) for _ in range(count)]
    assert [int(body) for _, body in got] == list(range(count))
    assert not any(one.redelivered for one, _ in got)
    receiver.ask(1, spec.Queue.Delete(queue=name), spec.Queue.DeleteOk)


@pytest.mark.sentence("3.2.1-2")
def test_requests_need_not_wait_for_each_other(connect: Connect, name: str) -> None:
    """Their answers come in their order."""
    client = connect(1)
    client.send(
        (1, spec.Queue.Declare(queue=name)),
        (1, spec.Queue.Bind(queue=name, exchange="amq.direct", routing_key=name)),
        publish(1, name, b"x", exchange="amq.direct"),
        (1, spec.Basic.Get(queue=name, no_ack=True)),
        (1, spec.Queue.Unbind(queue=name, exchange="amq.direct", routing_key=name)),
        (1, spec.Queue.Delete(queue=name)),
        (1, spec.Channel.Close(200, "", 0, 0)),
        (1, spec.Channel.Open()),
    )
    client.method(spec.Queue.DeclareOk, 1)
    client.method(spec.Queue.BindOk, 1)
    client.method(spec.Basic.GetOk, 1)
    assert client.content(1)[1] == b"x"
    for answer in (spec.Queue.UnbindOk, spec.Queue.DeleteOk, spec.Channel.CloseOk, spec.Channel.OpenOk):
        client.method(answer, 1)


@pytest.mark.requirement("A19.1", "A19.2", "A19.4")
@pytest.mark.sentence("2.2.9-1")
def test_a_rollback_redelivers_nothing(connect: Connect) -> None:
    client = connect(1, 2)
    queue = client.declare(1, "", exclusive=True).queue
    client.send(*(publish(1, queue, b"%d" % number) for number in range(3)))
    client.ask(2, spec.Tx.Select(), spec.Tx.SelectOk)
    client.ask(2, spec.Basic.Consume(queue=queue, consumer_tag="t"), spec.Basic.ConsumeOk)
    tags = [client.delivery(2)[0].delivery_tag for _ in range(3)]
    client.send((2, spec.Basic.Ack(tags[0])), publish(2, queue, b"rolled back"))
    client.ask(2, spec.Tx.Rollback(), spec.Tx.RollbackOk)
    client.send((2, spec.Basic.Ack(tags[0])), (2, spec.Basic.Ack(tags[2])))
    client.ask(2, spec.Tx.Commit(), spec.Tx.CommitOk)
    client.ask(2, spec.Basic.Cancel(consumer_tag="t"), spec.Basic.CancelOk)
    client.send(publish(2, queue, b"committed"), method(2, spec.Basic.Reject(tags[1], requeue=True)))
    assert client.depth(1, queue) == 0
    client.ask(2, spec.Tx.Commit(), spec.Tx.CommitOk)
    assert bodies(client, queue) == [b"1", b"committed"]
