"""Publisher confirms: few frames, and every tag exactly once (A23)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from node.wire.amqp091.publish_path import Confirms
from tests.wire.client import Client, frames, opened, publish

pytestmark = pytest.mark.requirement("A23.1")


def confirming(*channels: int) -> Client:
    client = opened(*channels)
    for channel in channels:
        client.send((channel, m.ConfirmSelect()))
    client.output()
    return client


def test_tags_count_the_messages_of_a_channel() -> None:
    client = opened(1)
    client.send(
        publish(1, b"unconfirmed") * 5, (1, m.ConfirmSelect()), publish(1, b"x") * 20, publish(1, b"yy")
    )
    tags = [
        (effect.first_tag, effect.run.count)
        for effect in client.effects
        if isinstance(effect, e.PublishEffect)
    ]
    assert tags == [(0, 5), (1, 20), (21, 1)]


def test_what_is_confirmed_in_a_turn_is_one_frame() -> None:
    client = confirming(1)
    for first in range(1, 100, 10):
        client.connection.confirm(1, first, first + 9)
    assert client.methods() == [m.BasicAck(100, True)]
    client.connection.confirm(1, 101, 101)
    assert client.methods() == [m.BasicAck(101, False)]


def test_a_gap_is_never_spoken_for() -> None:
    client = confirming(1)
    client.connection.confirm(1, 3, 5)
    assert client.methods() == [m.BasicAck(3), m.BasicAck(4), m.BasicAck(5)]
    client.connection.nack(1, 1, 2)
    assert client.methods() == [m.BasicNack(2, True, False)]
    client.connection.confirm(1, 6, 7)
    assert client.methods() == [m.BasicAck(7, True)]


def test_confirms_go_out_before_a_close() -> None:
    client = confirming(1)
    client.connection.confirm(1, 1, 2)
    client.send((1, m.ChannelClose(200)))
    assert client.methods() == [m.BasicAck(2, True), m.ChannelCloseOk()]
    client = confirming(1)
    client.connection.confirm(1, 1, 2)
    client.send((1, m.BasicPublish("", "q", immediate=True)))
    assert [type(method) for method in client.methods()] == [m.BasicAck, m.ConnectionClose]


def test_a_late_confirmation_is_not_taken_for_the_next_channels() -> None:
    client = confirming(1)
    client.send(publish(1, b"x") * 10, (1, m.ChannelClose(200)), (1, m.ChannelOpen()), (1, m.ConfirmSelect()))
    client.send(publish(1, b"y"))
    client.output()
    before, after = (effect.first_tag for effect in client.effects if isinstance(effect, e.PublishEffect))
    client.connection.confirm(1, before, before + 9)
    assert client.output() == []
    client.connection.confirm(1, after, after)
    assert client.methods() == [m.BasicAck(1)]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.data())
def test_every_tag_is_settled_once(sizes: list[int], data: st.DataObject) -> None:
    """As a client sees it: `multiple` settles everything outstanding up to its tag."""
    ranges, first = [], 1
    for size in sizes:
        ranges.append((first, first + size - 1, data.draw(st.booleans())))
        first += size
    expected = {tag: positive for low, high, positive in ranges for tag in range(low, high + 1)}
    confirms, outstanding, seen = Confirms(1), set(expected), {}
    output = b""
    for low, high, positive in data.draw(st.permutations(ranges)):
        confirms.add(low, high, positive)
        if data.draw(st.booleans()):
            output += confirms.take()
    for _, _, method in frames(output + confirms.take()):
        tag, positive = method.delivery_tag, isinstance(method, m.BasicAck)
        settled = {one for one in outstanding if one <= tag} if method.multiple else {tag}
        assert settled <= outstanding
        outstanding -= settled
        seen.update(dict.fromkeys(settled, positive))
    assert seen == expected
