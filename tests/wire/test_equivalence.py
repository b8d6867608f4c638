"""However the octets of a client are cut, and whichever path takes them, the results are the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.ranges.range_set import numbers_of
from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from node.wire.amqp091 import reader
from node.wire.amqp091.codec import encode_frame, encode_method
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.primitives import Method
from node.wire.amqp091.publish_path import PublishPath
from node.wire.amqp091.routing_keys import by_key
from tests.wire.client import Client, frames, opened, publish, run_of, split
from tests.wire.strategies import cuts, streams

CONSUMERS = {1: 7, 2: 8}
"""The consumers, by channel, that are there from the beginning."""

LIMITS = ConnectionLimits(frame_max=4096, message_size=200_000)


def answer(client: Client, request: e.Request, consumer: int) -> None:
    """The broker's answer to a request, the same for equal requests."""
    connection, channel = client.connection, request.channel
    match request.method:
        case m.BasicConsume() as method:
            connection.consume_ok(channel, method.consumer_tag or f"ctag-{consumer}", consumer)
        case m.BasicGet():
            connection.get_empty(channel)
        case m.QueueDeclare() as method:
            connection.reply(channel, m.QueueDeclareOk(method.queue or "amq.gen", 0, 0))
        case method:
            ids = method.CLASS_ID << 16 | method.METHOD_ID
            ok = m.METHODS.get(ids + 1) or m.ExchangeUnbindOk
            reply: Any = ok()
            assert isinstance(reply, Method)
            connection.reply(channel, reply)


def run(pieces: list[bytes]) -> tuple[list[Any], bytes]:
    """Feed a connection with deliveries outstanding; what it did, independent of how runs were cut.

    Requests are answered when everything has been fed, so that the answers come at the same point.
    """
    client = opened(1, 2, 3, limits=LIMITS)
    client.send((1, m.BasicQos(0, 5, True)))
    client.consume()
    client.consume(2, 8, tag="u")
    client.deliver(7, run_of([b"one"] * 4), 10, False)
    client.deliver(8, run_of([b"two"] * 6), 100, False)
    client.output()
    found = [effect for piece in pieces for effect in client.send(piece)]
    done, answered = 0, Counter[int]()
    while True:
        requests = [
            e.Request(effect.channel, m.ChannelClose(200)) if isinstance(effect, e.ChannelClosed) else effect
            for effect in found
            if isinstance(effect, e.Request) or (isinstance(effect, e.ChannelClosed) and effect.awaited)
        ]
        if done == len(requests):
            break
        # Channels have no order among each other: the number depends on what the channel asked before alone.
        channel = requests[done].channel
        answered[channel] += 1
        answer(client, requests[done], 1_000 * channel + answered[channel])
        done += 1
        found += client.take_effects()
    return normal(found), client.connection.take_output()


def normal(found: list[e.Effect]) -> list[Any]:
    """Publishes message by message, settlements by sequence number, the last credit of each consumer."""
    ordered: list[Any] = []
    settled: list[Any] = []
    credit: dict[int, int] = {}
    for effect in found:
        match effect:
            case e.PublishEffect(channel, run, mandatory, first):
                messages = [(key, one) for key, same in by_key(run) for one in same.contents()]
                for offset, (key, content) in enumerate(messages):
                    tag = first + offset if first else 0
                    largest = max(map(len, split(content)))
                    assert largest <= run.largest_frame
                    ordered.append((channel, run.exchange, key, run.persistent, mandatory, tag, content))
            case e.SettleEffect():
                settled += [
                    (effect.outcome.name, effect.channel, effect.lease, sequence)
                    for sequence in numbers_of(effect.ranges)
                ]
            case e.Credit(consumer, limit):
                credit[consumer] = limit
            case e.ChannelClosed(channel):
                # Whether a consumer was told a limit right before its end depends on the cuts.
                credit.pop(CONSUMERS.get(channel, 0), None)
                ordered.append(effect)
            case e.ConnectionClosed():
                credit.clear()
                ordered.append(effect)
            case _:
                ordered.append(effect)
    return [ordered, sorted(settled), credit]


def of_channels(result: tuple[list[Any], bytes]) -> Any:
    """The result, channel by channel: answers behind publishes leave in the order of their channel alone.

    Of a connection that ends, that: what ends it overtakes all that waits, and channels have no order among
    each other.
    """
    (ordered, settled, credit), output = result
    if any(isinstance(effect, e.ConnectionClosed) for effect in ordered):
        return e.ConnectionClosed
    return sorted(ordered, key=channel_of), settled, credit, sorted(split(output), key=lambda one: one[1:3])


def channel_of(effect: Any) -> int:
    match effect:
        case tuple():
            return int(effect[0])
        case e.LogEffect():
            return int(effect.fields.get("channel", 0))
        case e.UpdateSecret():
            return 0
        case _:
            return int(effect.channel)


@given(st.data())
@settings(max_examples=150)
def test_cutting_the_input_anywhere_changes_nothing(data: st.DataObject) -> None:
    octets = data.draw(streams())
    assert of_channels(run([octets])) == of_channels(run(data.draw(cuts(octets))))


def test_a_frame_that_is_too_large_is_refused_behind_what_its_channel_sent_before() -> None:
    """The channel is closed behind a publish. The next publish is to be refused with 504."""
    close = encode_method(1, m.ChannelClose(200, ""))
    large = encode_frame(m.FRAME_HEADER, 1, bytes(2 * LIMITS.frame_max))
    octets = publish(1, b"x") + close + publish(1, b"y") + large
    for pieces in ([octets], [octets[at : at + 1] for at in range(len(octets))]):
        sent = [payload for _, _, payload in frames(run(pieces)[1])]
        assert [one.reply_code for one in sent if isinstance(one, m.ConnectionClose)] == [504]


@given(st.data())
@settings(max_examples=150)
def test_the_fast_path_agrees_with_the_frame_by_frame_path(data: st.DataObject) -> None:
    octets = data.draw(streams())
    fast = run([octets])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PublishPath, "take", lambda *_: None)
        patch.setattr(PublishPath, "unfinished", lambda *_: 0)
        patch.setattr(reader, "acknowledgements", lambda *_: None)
        assert run([octets]) == fast


@given(st.data())
@settings(max_examples=100)
def test_output_is_always_well_formed(data: st.DataObject) -> None:
    octets = data.draw(streams())
    _, output = run(data.draw(cuts(octets)))
    for kind, channel, payload in frames(output):
        if kind == m.FRAME_METHOD:
            assert (channel == 0) == (payload.CLASS_ID == m.ConnectionClose.CLASS_ID)
