"""Random programs of links, credit, deliveries and outcomes: Qpid Proton's engine and our state machine agree
about all of that when both are at rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import proton
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.delivery.settlements import Outcome
from node.wire.amqp10.definitions import Accepted, Rejected, Released
from node.wire.amqp10.links import IncomingLink, LinkState, OutgoingLink
from node.wire.amqp10.states import SessionState
from tests.clients.proton_pair import ACTIVE, NOTHING, Consuming, Pair, ProtonLink

pytestmark = pytest.mark.clients

Delivery, Link = proton.Delivery, proton.Link

INDEX = st.integers(0, 7)
DECISIONS = [Accepted(), Rejected(), Released()]
OUTCOMES = {
    NOTHING: Outcome.RELEASED,
    (Delivery.ACCEPTED, False, False): Outcome.ACCEPTED,
    (Delivery.REJECTED, False, False): Outcome.REJECTED,
    (Delivery.RELEASED, False, False): Outcome.RELEASED,
    (Delivery.MODIFIED, False, False): Outcome.RELEASED,
    (Delivery.MODIFIED, True, False): Outcome.RETURNED,
    (Delivery.MODIFIED, False, True): Outcome.UNDELIVERABLE_HERE,
    (Delivery.MODIFIED, True, True): Outcome.FAILED_UNDELIVERABLE_HERE,
}
"""The outcome for each state with which the program settles; without a state the default outcome counts."""

MODES = st.tuples(
    st.sampled_from([Link.SND_UNSETTLED, Link.SND_SETTLED, Link.SND_MIXED]),
    st.sampled_from([Link.RCV_FIRST, Link.RCV_SECOND]),
)
SIZES = st.sampled_from([0, 30, 700, 2000])
OCTETS = st.sampled_from([0, 7, 100, 1 << 20])

STEPS: dict[str, tuple[int, list[st.SearchStrategy[Any]]]] = {
    "begin": (1, []),
    "end": (1, [INDEX]),
    "attach": (3, [INDEX, st.booleans(), MODES]),
    "detach": (1, [INDEX, st.booleans()]),
    "credit": (5, [INDEX, st.integers(1, 9)]),
    "drain": (3, [INDEX, st.integers(0, 9)]),
    "send": (9, [INDEX, SIZES, st.booleans(), st.integers(0, 9)]),
    "dispose": (9, [INDEX, st.integers(0, 30), st.sampled_from(list(OUTCOMES)), st.booleans()]),
    "deliver": (9, [INDEX, st.integers(1, 6), SIZES]),
    "decide": (9, [INDEX, st.sampled_from(DECISIONS)]),
    "cancel": (1, [INDEX]),
    "answer": (3, [INDEX]),
    "move": (9, [OCTETS, OCTETS]),
    "rest": (3, []),
}
"""The kinds of steps, each with its share of a program and its arguments."""

KINDS = st.sampled_from([kind for kind, (share, _) in STEPS.items() for _ in range(share)])
PROGRAMS = st.lists(
    KINDS.flatmap(lambda kind: st.tuples(st.just(kind), *STEPS[kind][1])), min_size=10, max_size=80
)


def chosen(found: Iterable[Any], index: int) -> Any:
    """One of those that there are, or None."""
    listed = list(found)
    return listed[index % len(listed)] if listed else None


def run(pair: Pair, step: Any) -> None:
    broker, alive = pair.broker, [one for one in pair.links if not one.ended]
    receivers = [one for one in alive if one.link.is_receiver]
    match step:
        case ("begin",) if len(pair.sessions) < 3:
            pair.begin()
        case ("attach", index, receives, (sender_mode, receiver_mode)) if pair.sessions:
            pair.attach(chosen(pair.sessions, index), receives, sender_mode, receiver_mode)
        case ("send", index, size, settle, abort):
            if (one := chosen((one for one in alive if one.link.is_sender), index)) is not None:
                pair.send(one, size, settle, abort == 0)
        case ("dispose", index, place, state, settle):
            open_ones = [delivery for one in receivers for delivery in one.received if not delivery.settled]
            if (delivery := chosen(open_ones, index * 31 + place)) is not None:
                pair.dispose(delivery, state, settle)
        case ("deliver", index, count, size):
            broker.deliver(index, count, size)
        case ("decide", index, outcome):
            broker.decide(index, outcome)
        case ("answer", index):
            broker.answer(index)
        case ("move", to_machine, to_proton):
            pair.move(to_machine, to_proton)
        case ("rest",):
            pair.quiesce()
            compare(pair)
        case _:
            end_or_grant(pair, step, alive, receivers)


def end_or_grant(pair: Pair, step: Any, alive: list[ProtonLink], receivers: list[ProtonLink]) -> None:
    match step:
        case ("end", index):
            # Proton's engine takes no answer to the Begin of a session that it has ended.
            if (session := chosen((one for one in pair.sessions if one.state == ACTIVE), index)) is not None:
                pair.end(session)
        case ("detach", index, closed) if alive:
            one = chosen(alive, index)
            one.ended = True
            (one.link.close if closed else one.link.detach)()
        case ("credit" | "drain", index, count) if receivers:
            one = chosen(receivers, index)
            (one.link.flow if step[0] == "credit" else one.link.drain)(count)
        case ("cancel", index):
            name = pair.broker.cancel(index)
            for one in pair.links:
                one.cancelled = one.cancelled or one.link.name == name


# -- both sides at rest -----------------------------------------------------------------------------


def compare(pair: Pair) -> None:
    """Both sides are at rest, and say the same."""
    machine = pair.broker.machine
    ours = [session for session in machine.sessions if session.state is SessionState.MAPPED]
    assert len(ours) == len(pair.sessions) == sum(one.state == ACTIVE for one in pair.sessions)
    attached = {link.attach.name: link for session in ours for link in session.links.values()}
    assert all(link.state is LinkState.ATTACHED for link in attached.values())
    assert set(attached) == {one.link.name for one in pair.links if one.active}
    consumers = {one.link.attach.name: one for one in pair.broker.consumers.values()}
    for one in pair.links:
        link = attached.get(one.link.name)
        if isinstance(link, IncomingLink):
            compare_sender(pair, one, link)
        elif isinstance(link, OutgoingLink):
            compare_receiver(pair, one, link, consumers[one.link.name])
        elif one.link.is_receiver and one.link.name in consumers:
            compare_ended(pair, one, consumers[one.link.name])
    unsettled = [
        delivery for one in pair.links if one.active and one.link.snd_settle_mode != Link.SND_SETTLED
        for delivery in one.received if delivery.unsettled
    ]  # fmt: skip
    assert sum(session.outgoing.unsettled.count for session in ours) == len(unsettled)


def compare_sender(pair: Pair, one: ProtonLink, link: IncomingLink) -> None:
    """Credit, delivery-count, messages and their outcomes on a link on which Proton sends."""
    broker = pair.broker
    assert one.link.credit == link.credit
    assert len(one.sent) == link.delivery_count
    bodies = [sent.body for sent in one.sent if sent.body is not None]
    assert broker.published.get(one.link.name, []) == bodies
    unsettled = [sent for sent in one.sent if sent.body is not None and not sent.settled]
    states = {Accepted: Delivery.ACCEPTED, Rejected: Delivery.REJECTED, Released: Delivery.RELEASED}
    for place, sent in enumerate(unsettled):
        outcome = broker.decided.get((one.link.name, place))
        told = 0 if outcome is None else states[type(outcome)]
        assert (sent.delivery.remote_state or 0) == told
        first = one.link.rcv_settle_mode == Link.RCV_FIRST
        assert sent.delivery.settled == (outcome is not None and first)


def compare_receiver(pair: Pair, one: ProtonLink, link: OutgoingLink, consumer: Consuming) -> None:
    """Credit, delivery-count, messages and their outcomes on a link on which Proton receives."""
    assert one.link.credit == max(0, link.credit_limit - link.delivered)
    assert not link.waiting and not link.drain_due
    assert len(one.received) == link.delivered - link.advanced and one.drained == link.advanced
    assert [received.body for received in one.received] == consumer.bodies
    presettled = one.link.snd_settle_mode == Link.SND_SETTLED
    for received, number in zip(one.received, consumer.numbers, strict=True):
        if presettled or received.unsettled:
            assert received.settled or received.delivery.settled == presettled
            assert number not in pair.broker.outcomes
        else:
            assert received.settled or received.delivery.settled, "the machine settles after Proton's state"
            assert pair.broker.outcomes[number] is OUTCOMES[received.told]


def compare_ended(pair: Pair, one: ProtonLink, consumer: Consuming) -> None:
    """Every delivery on a link that has ended is settled once, as the program said or by going back."""
    outcomes = pair.broker.outcomes
    assert consumer.bodies[: len(one.received)] == [received.body for received in one.received]
    if one.link.snd_settle_mode == Link.SND_SETTLED:
        return
    assert all(number in outcomes for number in consumer.numbers)
    for received, number in zip(one.received, consumer.numbers, strict=False):
        if not received.unsettled and not one.cancelled:
            assert outcomes[number] is OUTCOMES[received.told]
    for number in consumer.numbers[len(one.received) :]:
        assert outcomes[number] in (Outcome.RETURNED, Outcome.RELEASED, None)


@settings(max_examples=300)
@given(st.sampled_from([(512, 2048), (512, 1 << 20), (4096, 4096), (4096, 1 << 20)]), MODES, MODES, PROGRAMS)
def test_both_sides_agree_when_they_are_at_rest(
    sizes: tuple[int, int], receiving: tuple[int, int], sending: tuple[int, int], program: list[Any]
) -> None:
    """`sizes` are Proton's largest frame, and the octets that its sessions take in. The modes are those of
    the first links.
    """
    pair = Pair(*sizes)
    attached = [("begin",), ("attach", 0, True, receiving), ("attach", 0, False, sending)]
    for step in [*attached, ("credit", 0, 5), ("rest",), *program, ("rest",)]:
        run(pair, step)
