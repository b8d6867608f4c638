"""Any octets, any calls, in any order: never an exception, and every delivery accounted for once."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from node.delivery.credit import CONSUMER_OCTETS
from node.delivery.octets import SIZE_OCTETS
from node.delivery.unsettled import UnsettledRanges, octets_of
from node.ranges.range_set import numbers_of
from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from node.wire.amqp091.channel_state import ChannelState
from node.wire.amqp091.codec import PROTOCOL_HEADER, encode_frame, encode_method
from node.wire.amqp091.connection import Connection
from node.wire.amqp091.errors import NotAllowedError
from node.wire.amqp091.lifecycle import (
    CHANNEL_OCTETS,
    USED_NUMBER_OCTETS,
    ConnectionState,
)
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.properties import TRAITS_OCTETS
from node.wire.amqp091.publish_path import TARGET_OCTETS
from tests.wire.client import Client, frames, header, opened, publish, run_of
from tests.wire.strategies import commands, cuts, streams

HANDSHAKE = [
    PROTOCOL_HEADER,
    encode_method(0, m.ConnectionStartOk({}, "PLAIN", b"\0u\0p")),
    encode_method(0, m.ConnectionTuneOk(0, 4096, 5)),
    encode_method(0, m.ConnectionOpen("/")),
    encode_method(1, m.ChannelOpen()),
    encode_method(1, m.ConfirmSelect()) + publish(1, b"x") * 9,
]


def drive(pieces: list[bytes], *, agreeable: bool) -> Client:
    """Feed octets to a new connection whose shell answers everything at once."""
    client = Client(ConnectionLimits(frame_max=8192))
    connection = client.connection
    for piece in pieces:
        wanted = client.send(piece)
        while wanted:
            for effect in wanted:
                match effect:
                    case e.Authenticate():
                        connection.authenticated("u") if agreeable else connection.refused("no")
                    case e.OpenVhost():
                        connection.opened()
                    case e.Request(channel):
                        connection.fail(channel, NotAllowedError("no"))
                    case e.PublishEffect(channel, run, _, first) if first:
                        connection.confirm(channel, first, first + run.count - 1)
            wanted = connection.take_effects()
        frames(connection.take_output().removeprefix(PROTOCOL_HEADER))
        client.tick(0.01)
    return client


@given(st.data())
@settings(max_examples=200)
def test_any_octets_at_any_point_of_the_handshake(data: st.DataObject) -> None:
    begun = b"".join(HANDSHAKE[: data.draw(st.integers(0, len(HANDSHAKE)))])
    octets = begun + data.draw(st.binary(max_size=60))
    client = drive(data.draw(cuts(octets)), agreeable=data.draw(st.booleans()))
    assert sum(isinstance(effect, e.CloseSocket) for effect in client.effects) <= 1


@given(st.data())
@settings(max_examples=200)
def test_octets_that_were_changed_on_the_way(data: st.DataObject) -> None:
    octets = bytearray(b"".join(HANDSHAKE) + data.draw(streams()))
    for _ in range(data.draw(st.integers(1, 4))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    drive(data.draw(cuts(bytes(octets))), agreeable=True)


class Accounting(RuleBasedStateMachine):
    """A client and a shell that do anything. The model: which sequence numbers the broker gave to whom.

    Every delivery to a consumer that acknowledges ends exactly once: settled, returned, discarded, or
    among the unsettled of its channel or connection.
    """

    def __init__(self) -> None:
        super().__init__()
        self.client = opened(1, 2, limits=ConnectionLimits(delivery_window=20))
        self.given: Counter[tuple[int, int]] = Counter()
        self.ended: Counter[tuple[int, int]] = Counter()
        self.no_ack: set[int] = set()
        self.limits: dict[int, int] = {}
        self.highest: dict[int, int] = {}
        self.sent: Counter[int] = Counter()
        self.requests: list[e.Request] = []
        self.next_consumer = 1
        self.next_sequence = 1

    def account(self, found: list[e.Effect]) -> None:
        for effect in found:
            match effect:
                case e.SettleEffect():
                    assert effect.ranges
                    self.end([(effect.lease, effect.ranges)])
                case e.ChannelClosed(channel, unsettled, awaited):
                    assert all(request.channel != channel for request in self.requests)
                    self.end(unsettled)
                    if awaited:
                        self.requests.append(e.Request(channel, m.ChannelClose(200)))
                case e.ConnectionClosed(unsettled):
                    self.requests.clear()
                    self.end(unsettled)
                case e.Credit(consumer, limit):
                    self.limits[consumer] = limit
                    self.highest[consumer] = max(limit, self.highest.get(consumer, 0))
                case e.Request():
                    self.requests.append(effect)

    def end(self, unsettled: UnsettledRanges) -> None:
        for consumer, ranges in unsettled:
            if consumer not in self.no_ack:
                self.ended.update((consumer, sequence) for sequence in numbers_of(ranges))

    @initialize(prefetch=st.sampled_from([2, 7, 0]), shared=st.sampled_from([True, True, False]))
    def begin(self, prefetch: int, shared: bool) -> None:
        """Two consumers on channel 1 and one on channel 2."""
        self.account(self.client.send((1, m.BasicQos(0, prefetch, shared))))
        for channel in (1, 1, 2):
            self.client_consumes(channel, False)
            self.shell_answers(False)

    @rule(channel=st.sampled_from([1, 1, 2]), command=commands)
    def client_sends(self, channel: int, command: Any) -> None:
        self.account(self.client.send((channel, command)))

    @rule(channel=st.sampled_from([1, 2]), no_ack=st.sampled_from([False, False, True]))
    def client_consumes(self, channel: int, no_ack: bool) -> None:
        self.account(self.client.send((channel, m.BasicConsume("q", no_ack=no_ack))))

    @rule(channel=st.sampled_from([1, 2]), behind=st.integers(0, 6), multiple=st.booleans())
    def client_acknowledges(self, channel: int, behind: int, multiple: bool) -> None:
        found = self.client.connection.life.channels.get(channel)
        if found is not None:
            tag = found.deliveries._next_tag - 1 - behind
            if any(True for _ in found.deliveries.unsettled) and tag > 0:
                self.account(self.client.send((channel, m.BasicAck(tag, multiple))))

    @rule(channel=st.sampled_from([1, 2]))
    def client_reopens(self, channel: int) -> None:
        for method in (m.ChannelCloseOk(), m.ChannelClose(200), m.ChannelOpen()):
            if self.client.connection.life.state is ConnectionState.OPEN:
                known = self.client.connection.life.channels.get(channel)
                closing = known is not None and known.state.name == "CLOSING"
                if isinstance(method, m.ChannelCloseOk) == closing and (known is None) == isinstance(
                    method, m.ChannelOpen
                ):
                    self.account(self.client.send((channel, method)))

    @rule(
        channel=st.sampled_from([1, 1, 2]),
        announced=st.integers(0, 40),
        sent=st.lists(st.integers(0, 12), max_size=4),
        cut=st.integers(0, 9),
    )
    def client_begins_a_message(self, channel: int, announced: int, sent: list[int], cut: int) -> None:
        """Which it may leave in any state, in the middle of a frame too; frames of others come behind."""
        bodies, left = [], announced
        for size in sent:
            bodies.append(encode_frame(m.FRAME_BODY, channel, b"x" * min(size, left)))
            left -= min(size, left)
        whole = [
            encode_method(channel, m.BasicPublish("", "q")),
            encode_frame(m.FRAME_HEADER, channel, header(announced)),
            *bodies,
        ]
        self.account(self.client.send(b"".join(whole[: max(1, cut)])))

    @rule(channel=st.sampled_from([1, 2]), octets=st.integers(1, 30))
    def client_sends_a_part_and_the_rest(self, channel: int, octets: int) -> None:
        frame = encode_method(channel, m.BasicQos(0, 3))
        self.account(self.client.send(frame[:octets]))
        memory_is_accounted_for(self.client.connection)
        self.account(self.client.send(frame[octets:]))

    @rule(reason=st.sampled_from(["memory", None]))
    def shell_is_short_of_memory(self, reason: str | None) -> None:
        self.client.connection.alarm(reason)
        self.account(self.client.connection.take_effects())

    @rule(refuse=st.sampled_from([False, False, False, True]))
    def shell_answers(self, refuse: bool) -> None:
        if not self.requests:
            return
        request, connection = self.requests.pop(0), self.client.connection
        if refuse and not isinstance(request.method, m.ChannelClose):
            connection.fail(request.channel, _Refused())
        elif isinstance(request.method, m.BasicConsume):
            if request.method.no_ack:
                self.no_ack.add(self.next_consumer)
            tag = request.method.consumer_tag or f"ctag-{self.next_consumer}"
            connection.consume_ok(request.channel, tag, self.next_consumer)
            self.limits.setdefault(self.next_consumer, 0)
            self.next_consumer += 1
        elif isinstance(request.method, m.BasicGet):
            connection.deliver_get(request.channel, run_of([b"got"]), self.next_sequence, False, 0, 1000)
            if not request.method.no_ack:
                self.given[1000, self.next_sequence] += 1
            self.next_sequence += 1
        else:
            ok: Any = m.METHODS.get(request.method.CLASS_ID << 16 | request.method.METHOD_ID + 1)
            connection.reply(request.channel, ok())
        self.account(connection.take_effects())

    @rule(consumer=st.sampled_from([1, 2, 1, 2, 3, 4]), count=st.integers(1, 9), late=st.booleans())
    def shell_delivers(self, consumer: int, count: int, late: bool) -> None:
        """Within the credit, or, `late`, within what it was before it was revoked."""
        limits = self.highest if late else self.limits
        count = min(count, limits.get(consumer, 0) - self.sent[consumer])
        if count <= 0 or self.client.connection.life.state is not ConnectionState.OPEN:
            return
        first, self.next_sequence = self.next_sequence, self.next_sequence + count
        self.sent[consumer] += count
        if consumer not in self.no_ack:
            self.given.update((consumer, sequence) for sequence in range(first, first + count))
        self.client.deliver(consumer, run_of([b"x"] * count), first, False)
        self.account(self.client.connection.take_effects())

    @rule(consumer=st.integers(1, 4))
    def shell_cancels(self, consumer: int) -> None:
        self.client.connection.cancel_consumer(consumer)
        self.account(self.client.connection.take_effects())

    @rule(paused=st.booleans())
    def shell_pauses(self, paused: bool) -> None:
        connection = self.client.connection
        (connection.pause_credit if paused else connection.resume_credit)()
        self.account(connection.take_effects())

    @rule()
    def shell_writes(self) -> None:
        frames(self.client.connection.take_output())
        self.account(self.client.connection.take_effects())

    @invariant()
    def nothing_is_counted_twice(self) -> None:
        assert not self.ended - self.given

    @invariant()
    def shared_prefetch_is_kept(self) -> None:
        for channel in self.client.connection.life.channels.values():
            if channel.state is not ChannelState.OPEN:
                continue
            deliveries = channel.deliveries
            held = sum(one.run.count for one in deliveries._held)
            counted = sum(len(taken.numbers) for taken in deliveries.unsettled if taken.consumer is not None)
            assert counted == deliveries._in_flight
            assert held == 0 or not deliveries._flowing or counted >= deliveries.prefetch > 0

    @invariant()
    def memory_is_accounted(self) -> None:
        memory_is_accounted_for(self.client.connection)

    def teardown(self) -> None:
        self.account(self.client.connection.disconnected())
        assert self.ended == self.given
        assert self.client.connection.life.held == 0


def memory_is_accounted_for(connection: Connection) -> None:
    """The counts of memory match the parts, octet for octet."""
    channels = connection.life.channels.values()
    parked = list(connection.life.parking._by_channel.values())
    held = [one for channel in channels for one in channel.deliveries._held]
    open_transactions = [one for channel in channels if (one := channel.deliveries.transaction) is not None]
    octets = (
        sum(map(len, connection.life.intake._pieces._pieces))
        + sum(len(one._data) - one._at + sum(map(len, one._pieces._pieces)) for one in parked)
        + sum(map(len, connection.life.outbox._pieces))
        + sum(len(one.run.raw) for one in held)
        + sum(len(channel.content._frames) for channel in channels if channel.content is not None)
        + sum(one._octets for one in open_transactions)
        + sum(2 * len(payload) + TARGET_OCTETS for payload in connection.life.parts.publishes._targets)
        + sum(len(seen) + TRAITS_OCTETS for seen in connection.life.parts.checks._seen)
    )
    windows = [channel.deliveries.octets for channel in channels]
    records = sum(
        octets_of(one.numbers) for channel in channels for one in channel.deliveries.unsettled
    ) + sum(len(one._sizes) * SIZE_OCTETS for one in windows if one is not None)
    fixed = (
        records
        + len(channels) * CHANNEL_OCTETS
        + sum(len(channel.deliveries.consumers) for channel in channels) * CONSUMER_OCTETS
        + len(connection.life.used_tags) * USED_NUMBER_OCTETS
    )
    assert connection.life.held == octets + fixed


class _Refused(Exception):
    code = 404
    ends_connection = False


TestAccounting = Accounting.TestCase
TestAccounting.settings = settings(max_examples=150, stateful_step_count=40)
