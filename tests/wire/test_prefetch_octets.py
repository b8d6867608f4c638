"""Prefetch in octets, and what becomes of deliveries that a prefetch does not let through (§3.1.7)."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.delivery.credit import HOLD_DELIVERY_S
from node.delivery.settlements import Outcome
from node.ranges.range_set import numbers_of
from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from tests.wire.client import Client, accepted, opened, released, run_of


def bodies(client: Client) -> list[bytes]:
    """The client's deliveries, in order. A limit equal to the received messages is no credit."""
    return [payload for kind, _, payload in client.output() if kind == m.FRAME_BODY]


def consuming(limit: int, *, shared: bool = False, returnable: bool = True) -> Client:
    """A client with a consumer, number 7, and a window of octets."""
    client = opened(1)
    client.send((1, m.BasicQos(limit, 0, shared)), (1, m.BasicConsume("q", "t")))
    client.connection.consume_ok(1, "t", 7, returnable)
    client.output()
    return client


@pytest.mark.requirement("A18.3", "A18.4")
@pytest.mark.parametrize("shared", [False, True])
def test_deliveries_stay_within_the_window(shared: bool) -> None:
    client = consuming(1000, shared=shared)
    assert client.connection.take_effects() == [e.Credit(7, 1)], "of a size that nobody knows yet"
    client.deliver(7, run_of([b"a" * 400]), 1, False)
    assert bodies(client) == [b"a" * 400]
    assert client.connection.take_effects() == [e.Credit(7, 2)]
    client.deliver(7, run_of([b"b" * 600, b"c"]), 2, False)
    assert bodies(client) == [b"b" * 600]
    assert client.connection.take_effects() == [
        released(1, 7, [(3, 3)]),
        e.Credit(7, 3),
    ]
    assert e.Credit(7, 4) in client.send((1, m.BasicAck(1)))
    client.deliver(7, run_of([b"c"]), 3, True)
    assert bodies(client) == [b"c"]


@pytest.mark.requirement("A18.3")
def test_a_message_larger_than_the_window_comes_when_nothing_is_unsettled() -> None:
    client = consuming(10)
    client.deliver(7, run_of([b"a" * 5, b"b" * 50]), 1, False)
    assert bodies(client) == [b"a" * 5]
    assert client.connection.take_effects() == [
        released(1, 7, [(2, 2)]),
        e.Credit(7, 2),
    ]
    effects = client.send((1, m.BasicAck(1)))
    assert effects == [accepted(1, 7, [(1, 1)]), e.Credit(7, 3)]
    client.deliver(7, run_of([b"b" * 50]), 2, False)
    assert bodies(client) == [b"b" * 50]
    assert client.connection.take_effects() == []


@pytest.mark.requirement("A18.3")
def test_nothing_overtakes_a_message_that_did_not_fit() -> None:
    """Messages that were on their way behind it go back with it, and come in their order later."""
    client = consuming(10)
    client.deliver(7, run_of([b"a" * 8]), 1, False)
    client.deliver(7, run_of([b"b" * 8]), 2, False)
    client.deliver(7, run_of([b"c"]), 3, False)
    assert bodies(client) == [b"a" * 8]
    assert client.connection.take_effects()[0] == released(1, 7, [(2, 3)])


@pytest.mark.requirement("A18.3", "A18.4")
def test_each_consumer_has_a_window_and_the_channel_another() -> None:
    client = opened(1)
    client.send((1, m.BasicQos(15, 0, True)), (1, m.BasicQos(10, 0)))
    client.consume(consumer=1, tag="a")
    client.consume(consumer=2, tag="b")
    client.deliver(1, run_of([b"1" * 10, b"2"]), 1, False)
    client.deliver(2, run_of([b"3" * 5, b"4"]), 1, False)
    assert bodies(client) == [b"1" * 10, b"3" * 5]
    assert client.connection.take_effects() == [
        released(1, 1, [(2, 2)]), released(1, 2, [(2, 2)]),
        e.Credit(1, 2), e.Credit(2, 2),
    ]  # fmt: skip


def test_consumers_without_acknowledgement_have_no_window() -> None:
    client = opened(1)
    client.send((1, m.BasicQos(10, 0, True)), (1, m.BasicQos(10, 0)))
    client.consume(no_ack=True)
    client.deliver(7, run_of([b"a" * 100] * 3), 1, False)
    assert len(bodies(client)) == 3


@pytest.mark.requirement("A18.3")
def test_what_its_queue_has_removed_waits_for_room() -> None:
    client = consuming(10, returnable=False)
    client.deliver(7, run_of([b"a" * 8, b"b" * 8]), 1, False)
    assert bodies(client) == [b"a" * 8]
    client.tick(0)
    assert client.tick(HOLD_DELIVERY_S) == []
    client.send((1, m.BasicAck(1)))
    assert bodies(client) == [b"b" * 8]


@pytest.mark.requirement("A18.2")
def test_what_a_shared_prefetch_holds_goes_to_others_after_a_moment() -> None:
    client = opened(1)
    client.send((1, m.BasicQos(0, 1, True)))
    client.consume(consumer=1, tag="a")
    client.consume(consumer=2, tag="b")
    client.deliver(1, run_of([b"a"]), 10, False)
    client.deliver(2, run_of([b"b"]), 20, False)
    assert bodies(client) == [b"a"]
    client.connection.take_effects()
    assert client.tick(0) == []
    assert client.tick(HOLD_DELIVERY_S * 0.9) == []
    assert client.tick(HOLD_DELIVERY_S * 0.2) == [released(1, 2, [(20, 20)])]
    assert client.connection.next_deadline() == float("inf")
    assert e.Credit(2, 2) in client.send((1, m.BasicAck(1)))


@dataclass
class Queue:
    """Messages of a queue, given to one consumer as far as its credit goes, and given back."""

    sizes: list[int]
    ready: list[int] = field(default_factory=list)
    sent: int = 0
    limit: int = 0

    def carry_out(self, effects: list[e.Effect]) -> None:
        for effect in effects:
            match effect:
                case e.Credit():
                    self.limit = effect.limit
                case e.SettleEffect(outcome=Outcome.RETURNED | Outcome.RELEASED):
                    self.ready = sorted([*self.ready, *numbers_of(effect.ranges)])


@pytest.mark.requirement("A18.1", "A18.3", "A22.1")
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=30),
    st.integers(1, 60),
    st.integers(0, 3),
    st.data(),
)
def test_every_message_comes_in_order_and_within_the_window(
    sizes: list[int], window: int, prefetch: int, data: st.DataObject
) -> None:
    client = opened(1)
    client.send((1, m.BasicQos(window, prefetch)), (1, m.BasicConsume("q", "t")))
    client.connection.consume_ok(1, "t", 7)
    client.output()
    queue = Queue(sizes, list(range(len(sizes))))
    unsettled: dict[int, int] = {}
    got: list[int] = []
    tag = 0
    while len(got) < len(sizes) or unsettled:
        queue.carry_out(client.connection.take_effects())
        granted = queue.ready[: max(0, queue.limit - queue.sent)]
        if granted and (not unsettled or data.draw(st.booleans())):
            first, count = granted[0], 1
            while count < len(granted) and granted[count] == first + count:
                count += 1
            del queue.ready[:count]
            queue.sent += count
            run = run_of([bytes([n]) + bytes(sizes[n]) for n in range(first, first + count)])
            client.deliver(7, run, first, False)
            for body in bodies(client):
                tag += 1
                used = sum(unsettled.values())
                assert not used or used + len(body) <= window
                assert not prefetch or len(unsettled) < prefetch
                got.append(body[0])
                unsettled[tag] = len(body)
        else:
            assert unsettled, "nothing comes, and nothing is unsettled"
            settled = data.draw(st.sampled_from(sorted(unsettled)))
            del unsettled[settled]
            queue.carry_out(client.send((1, m.BasicAck(settled))))
    assert got == list(range(len(sizes)))
