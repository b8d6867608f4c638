"""Channels are served fairly (§4.3), and publishers are held back without delaying other channels."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.delivery.shares import OUTPUT_BYTES, QUANTUM_BYTES, share_out
from node.refusal import NotFoundError
from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from node.wire.amqp091.effects import FRAMING
from node.wire.amqp091.limits import ConnectionLimits
from tests.wire.client import Client, Frame, frames, opened, publish, run_of

KIB = 1024


def all_output(client: Client) -> list[list[Frame]]:
    """The output of each call, until none waits any more."""
    calls = [frames(client.connection.take_output())]
    while client.connection.has_output:
        calls.append(frames(client.connection.take_output()))
    return calls


# -- output -----------------------------------------------------------------------------------------


@pytest.mark.requirement("A9.3")
def test_a_flooded_channel_does_not_delay_another_by_more_than_its_turn() -> None:
    client = opened(1, 2, limits=ConnectionLimits(first_window=2000))
    client.consume(1, 7, no_ack=True)
    for n in range(200):
        client.deliver(7, run_of([bytes(8 * KIB)] * 4), 4 * n, False)
    client.send((2, m.QueueDeclare("q")))
    client.connection.reply(2, m.QueueDeclareOk("q", 0, 0))
    first, *rest = all_output(client)
    place = next(n for n, (_, channel, _) in enumerate(first) if channel == 2)
    before = sum(len(payload) for kind, _, payload in first[:place] if kind == m.FRAME_BODY)
    assert before <= QUANTUM_BYTES + 32 * KIB
    assert len(rest) > 5, "the flood goes out bit by bit"
    bodies = [frame for call in (first, *rest) for frame in call if frame[0] == m.FRAME_BODY]
    assert len(bodies) == 800


@pytest.mark.requirement("A9.3", "A22.1")
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 200 * KIB)), max_size=60))
def test_channels_take_turns_and_keep_their_order(written: list[tuple[int, int]]) -> None:
    pieces = [
        bytes([3]) + channel.to_bytes(2, "big") + n.to_bytes(2, "big") + bytes(size)
        for n, (channel, size) in enumerate(written)
    ]
    came: list[bytes] = []
    waiting = list(pieces)
    while waiting:
        taken, waiting = share_out(waiting, FRAMING)
        assert taken
        shares = Counter[bytes]()
        for piece in taken:
            shares[piece[1:3]] += len(piece)
        behind = {piece[1:3] for piece in waiting}
        if behind:
            # A channel that still waits has had as many turns as any other, except for the last round.
            assert max(shares.values()) - min(shares[one] for one in behind) <= 2 * (
                QUANTUM_BYTES + 200 * KIB
            )
            assert sum(shares.values()) <= OUTPUT_BYTES + QUANTUM_BYTES + 200 * KIB
        came += taken
    for channel in range(1, 6):
        number = channel.to_bytes(2, "big")
        mine = [piece for piece in pieces if piece[1:3] == number]
        assert [piece for piece in came if piece[1:3] == number] == mine


def test_nothing_overtakes_what_ends_the_connection() -> None:
    client = opened(1, 2, limits=ConnectionLimits(first_window=2000))
    client.consume(1, 7, no_ack=True)
    for n in range(20):
        client.deliver(7, run_of([bytes(64 * KIB)]), n, False)
    client.send((2, m.ChannelFlow(True)), (0, m.ConnectionClose(200, "bye")))
    (only,) = all_output(client)
    assert [frame[2] for frame in only[-2:]] == [m.ChannelFlowOk(True), m.ConnectionCloseOk()]


def test_a_flood_that_has_not_gone_out_gives_no_new_credit() -> None:
    client = opened(1, 2, limits=ConnectionLimits(first_window=100, delivery_window=100))
    for channel in (1, 2):
        client.consume(channel, channel, tag="t", no_ack=True)
        for n in range(20):
            client.deliver(channel, run_of([bytes(64 * KIB)]), n, False)
    client.connection.take_output()
    assert client.connection.has_output
    narrowed = client.connection.take_effects()
    while client.connection.has_output:
        client.connection.take_output()
    refilled = client.connection.take_effects()
    assert {effect.consumer for effect in refilled} == {1, 2}
    assert min(effect.limit for effect in refilled) == max(effect.limit for effect in narrowed) + 20


# -- publishers that are held back ------------------------------------------------------------------


def test_a_channel_that_is_held_waits_and_the_others_go_on() -> None:
    client = opened(1, 2)
    client.connection.hold(1)
    assert client.send(publish(1, b"a"), publish(2, b"b"), publish(1, b"c"), (1, m.BasicQos())) == [
        e.PublishEffect(2, client.effects[-1].run, False, 0)
    ]
    assert client.methods() == []
    client.connection.release(1)
    effects = client.take_effects()
    contents = [content for effect in effects for content in effect.run.contents()]
    assert [content[-2:-1] for content in contents] == [b"a", b"c"]
    assert client.methods() == [m.BasicQosOk()]


def test_what_waits_for_a_held_channel_is_bounded() -> None:
    client = opened(1, 2, limits=ConnectionLimits(parked_bytes=1000))
    client.connection.hold(1)
    client.send(publish(1, bytes(400)))
    assert not client.connection.paused
    client.send(publish(1, bytes(700)))
    assert client.connection.paused
    client.connection.release(1)
    assert not client.connection.paused


def test_a_held_channel_may_have_asked_for_something_as_well() -> None:
    client = opened(1)
    client.send((1, m.QueueDeclare("q")), publish(1, b"a"))
    client.connection.hold(1)
    client.connection.reply(1, m.QueueDeclareOk("q", 0, 0))
    assert client.connection.take_effects() == []
    client.connection.release(1)
    assert [type(effect) for effect in client.connection.take_effects()] == [e.PublishEffect]
    client.connection.hold(9)
    client.connection.release(9)


# -- resource alarms --------------------------------------------------------------------------------


@pytest.mark.requirement("A23.4", "F6.1")
def test_who_publishes_during_an_alarm_is_held_and_told() -> None:
    client = opened(1, 2)
    client.connection.alarm("low on memory")
    assert client.methods() == [] and not client.connection.blocked, "it has published nothing"
    published = client.send(publish(1, b"a"), publish(1, b"b"))
    assert len(published) == 1 and client.connection.blocked
    assert client.methods() == [m.ConnectionBlocked("low on memory")]
    assert client.send(publish(1, b"c"), (2, m.BasicQos())) == []
    assert client.methods() == [m.BasicQosOk()], "a channel that does not publish goes on"
    client.send(publish(2, b"d"))
    assert client.methods() == [], "it has been told"
    client.connection.alarm(None)
    assert client.methods() == [m.ConnectionUnblocked()] and not client.connection.blocked
    runs = [effect.run for effect in client.connection.take_effects() if isinstance(effect, e.PublishEffect)]
    assert sum(run.count for run in runs) + published[0].run.count == 4 - 1


@pytest.mark.requirement("A23.4", "F6.2")
def test_an_alarm_before_the_connection_is_open_concerns_it_as_well() -> None:
    client = Client()
    client.connection.alarm("low on disk")
    client.negotiate()
    client.open_channel(1)
    client.send(publish(1, b"a"))
    assert client.methods() == [m.ConnectionBlocked("low on disk")]


@pytest.mark.requirement("A9.5", "F6.2")
def test_a_client_that_knows_only_channel_flow_is_asked_by_it() -> None:
    client = Client()
    client.negotiate(capabilities={})
    for channel in (1, 2, 3):
        client.open_channel(channel)
    client.connection.alarm("low on disk")
    client.send(publish(1, b"a"), publish(3, b"b"))
    assert client.output() == [(1, 1, m.ChannelFlow(False)), (1, 3, m.ChannelFlow(False))]
    assert client.send((1, m.ChannelFlowOk(False)), publish(1, b"c")) == []
    assert client.output() == [], "it has been asked"
    client.connection.fail_publish(3, NotFoundError("no exchange"))
    assert client.output()
    client.connection.take_effects()
    client.connection.alarm(None)
    assert [type(effect) for effect in client.connection.take_effects()] == [e.PublishEffect]
    assert client.output() == [(1, 1, m.ChannelFlow(True))]
    client.send((1, m.ChannelFlowOk(True)))
    assert client.output() == [] and not client.connection.blocked


@pytest.mark.requirement("A10.4")
def test_a_held_client_may_close_the_connection() -> None:
    client = opened(1)
    client.connection.alarm("low on memory")
    client.send(publish(1, b"a"), publish(1, b"b"), (0, m.ConnectionClose(200, "bye")))
    assert client.methods() == [m.ConnectionBlocked("low on memory"), m.ConnectionCloseOk()]
    client.connection.alarm(None)
    assert client.methods() == []
