"""Dispositions in both directions: outcomes, ranges, settlement in one step and in two (part 2, section
2.6.12; part 3, section 3.4).
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.delivery.settlements import Outcome
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import (
    Accepted,
    AmqpCondition,
    Error,
    Modified,
    ReceiverSettleMode,
    Rejected,
    Released,
    Role,
    SenderSettleMode,
)
from node.wire.amqp10.effects import PublishEffect, SessionEnded, SettleEffect
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.modified import MODIFIED_OCTETS, annotations_told
from node.wire.amqp10.values import Described, Symbol, UInt
from node.wire.conversion import AnnotationsRefusedError, merged_annotations
from tests.wire.amqp10.peer import Peer, begun, receiving, transfer
from tests.wire.amqp10.performatives import credit, receiver, sender, settled
from tests.wire.amqp10.sections import message

SECOND = ReceiverSettleMode.SECOND
ACCEPTED, RELEASED, REJECTED = Accepted(), Released(), Rejected(Error("x", "no"))


def settlements(peer: Peer) -> list[tuple[int, list[tuple[int, int]], Outcome]]:
    return [(one.lease, one.ranges, one.outcome) for one in peer.taken(SettleEffect)]


# -- outcomes of the broker -------------------------------------------------------------------------


def decided(peer: Peer, first: int, last: int, outcome: Any) -> None:
    """The broker decides about deliveries, whose publishes have the next higher tags."""
    peer.connection.sessions.decided(1, first + 1, last + 1, outcome)


@pytest.mark.requirement("B5.3", "B5.7", "B6.2", "B6.4", "B6.6")
@pytest.mark.sentence("1.0/2.7.5-4", "1.0/2.7.5-8", "1.0/2.7.6-1")
@pytest.mark.parametrize("outcome", [ACCEPTED, RELEASED, REJECTED])
def test_the_peer_is_told_the_outcome_of_its_deliveries(outcome: Any) -> None:
    peer = begun(sender())
    assert peer.send(transfer(1), transfer(2)) == []
    assert not peer.connection.has_output
    decided(peer, 1, 1, outcome)
    assert peer.connection.has_output
    assert peer.reads() == [d.Disposition(Role.RECEIVER, 1, None, True, outcome)]


@pytest.mark.requirement("B6.11", "B6.13")
def test_outcomes_that_are_alike_share_a_disposition() -> None:
    peer = begun(sender())
    peer.send(*(transfer(number) for number in range(1, 11)))
    for first, last, outcome in ((1, 2, ACCEPTED), (3, 5, ACCEPTED), (6, 6, RELEASED), (8, 9, RELEASED)):
        decided(peer, first, last, outcome)
    decided(peer, 7, 7, RELEASED)
    found = [(one.first, one.last, one.state) for one in peer.reads()]
    assert found == [
        (1, 5, ACCEPTED), (6, None, RELEASED), (8, 9, RELEASED), (7, None, RELEASED),
    ]  # fmt: skip
    assert peer.session().incoming.unconfirmed == 1


@pytest.mark.requirement("B5.7", "B5.9")
@pytest.mark.sentence("1.0/2.7.5-9")
def test_the_peer_settles_first_where_it_asked_to() -> None:
    peer = begun(sender(0, rcv_settle_mode=SECOND), sender(1))
    peer.send(transfer(1), transfer(2), transfer(3, handle=1), transfer(4))
    decided(peer, 1, 4, ACCEPTED)
    found = [(one.first, one.last, one.settled, one.state) for one in peer.reads()]
    assert found == [(1, 2, False, ACCEPTED), (3, None, True, ACCEPTED), (4, None, False, ACCEPTED)]
    assert peer.send(d.Disposition(Role.SENDER, 1, 4, True, ACCEPTED)) == [], "the peer has settled"


@pytest.mark.requirement("B5.7", "B5.9")
@pytest.mark.sentence("1.0/2.7.5-8")
def test_a_delivery_may_ask_for_one_step_on_a_link_of_two() -> None:
    peer = begun(sender(rcv_settle_mode=SECOND))
    peer.send(transfer(1, rcv_settle_mode=ReceiverSettleMode.FIRST), transfer(2))
    peer.send(transfer(3, b"", rcv_settle_mode=ReceiverSettleMode.FIRST, more=True), transfer(None))
    decided(peer, 1, 3, ACCEPTED)
    assert [(one.first, one.settled) for one in peer.reads()] == [(1, True), (2, False), (3, True)]


@pytest.mark.requirement("B5.1")
def test_presettled_deliveries_have_no_outcome() -> None:
    peer = begun(sender())
    peer.send(transfer(1, settled=True), transfer(2, settled=True))
    assert peer.reads() == [] and peer.session().incoming.unconfirmed == 0


@pytest.mark.requirement("B5.5")
def test_a_mixed_sender_is_told_the_outcomes_of_those_that_it_has_not_settled() -> None:
    peer = begun(sender(snd_settle_mode=SenderSettleMode.MIXED))
    peer.send(transfer(1), transfer(2, settled=True), transfer(3))
    assert sum(one.run.count for one in peer.taken(PublishEffect)) == 3
    assert peer.session().incoming.unconfirmed == 2
    decided(peer, 1, 1, ACCEPTED)
    decided(peer, 3, 3, RELEASED)
    assert [(one.first, one.last, one.state) for one in peer.reads()] == [
        (1, None, ACCEPTED), (3, None, RELEASED),
    ]  # fmt: skip


# -- outcomes of the peer ---------------------------------------------------------------------------

WHOLE = [
    (ACCEPTED, Outcome.ACCEPTED), (Rejected(), Outcome.REJECTED), (REJECTED, Outcome.REJECTED),
    (RELEASED, Outcome.RELEASED),
]  # fmt: skip
MODIFIED = [
    (Modified(), Outcome.RELEASED), (Modified(False, False), Outcome.RELEASED),
    (Modified(True), Outcome.RETURNED), (Modified(None, True), Outcome.UNDELIVERABLE_HERE),
    (Modified(True, True), Outcome.FAILED_UNDELIVERABLE_HERE),
    (Modified(True, False, {}), Outcome.RETURNED),
    (Modified(True, False, {"x-opt-deaths": 1}), Outcome.RETURNED),
]  # fmt: skip


@pytest.mark.requirement("B5.8", "B6.1", "B6.3", "B6.5", "E6.1", "E6.2", "E6.3")
@pytest.mark.sentence("1.0/3.4.4-1", "1.0/3.5.3-8")
@pytest.mark.parametrize(("state", "outcome"), WHOLE)
def test_the_outcome_of_a_delivery_reaches_the_queue(state: Any, outcome: Outcome) -> None:
    peer = receiving()
    peer.deliver(message(), message(), message())
    assert peer.send(settled(1, None, state)) == []
    assert settlements(peer) == [(1, [(2, 2)], outcome)]
    assert peer.session().outgoing.unsettled.count == 2


@pytest.mark.requirement("B6.7", "B6.8")
@pytest.mark.sentence("1.0/3.4.5-1", "1.0/3.4.5-2")
@pytest.mark.parametrize(("state", "outcome"), MODIFIED)
def test_modified_has_its_outcome_by_its_first_two_fields(state: Any, outcome: Outcome) -> None:
    """Without annotations in the third field, or with such as a consumer cannot change."""
    test_the_outcome_of_a_delivery_reaches_the_queue(state, outcome)


ANNOTATIONS = {"x-opt-a": 1, "b": ["c"]}
OCTETS = encode_amqp({Symbol(key): value for key, value in ANNOTATIONS.items()})


@pytest.mark.requirement("B6.9")
@pytest.mark.parametrize("settled_at_once", [True, False])
def test_modified_has_annotations_in_its_third_field(settled_at_once: bool) -> None:
    """Such dispositions are settlements of their own, in their place among the others."""
    peer = receiving(99)
    peer.deliver(*[message()] * 10)
    state = Modified(True, None, ANNOTATIONS)
    told = peer.send(
        settled(0, 1, Modified(True)), settled(2, 3, state, settled=settled_at_once),
        settled(4, 4, Modified(True)), settled(5, 5, state), settled(6, 6, state),
        settled(7, 8, Modified(True)),
    )  # fmt: skip
    effects = [(one.ranges, one.outcome, one.annotations) for one in peer.taken(SettleEffect)]
    assert effects == [
        ([(1, 2)], Outcome.RETURNED, b""), ([(3, 4)], Outcome.RETURNED, OCTETS),
        ([(5, 5)], Outcome.RETURNED, b""), ([(6, 6)], Outcome.RETURNED, OCTETS),
        ([(7, 7)], Outcome.RETURNED, OCTETS), ([(8, 9)], Outcome.RETURNED, b""),
    ]  # fmt: skip
    assert [one.state for one in told] == ([] if settled_at_once else [Modified(True)])
    assert peer.session().outgoing.unsettled.count == 1


@pytest.mark.requirement("B6.3")
@pytest.mark.parametrize("settled_at_once", [True, False])
def test_rejected_has_its_error_as_annotations(settled_at_once: bool) -> None:
    peer = receiving(99)
    peer.deliver(*[message()] * 4)
    error = Error("app:bad", "why", {"x": [1, None]})
    peer.send(
        settled(0, 0, Rejected()), settled(1, 2, Rejected(error), settled=settled_at_once),
        settled(3, 3, Rejected(Error("app:worse"))),
    )  # fmt: skip
    found = [(one.ranges, one.outcome, one.annotations) for one in peer.taken(SettleEffect)]
    told = {"condition": Symbol("app:bad"), "description": "why", "info": {Symbol("x"): [1, None]}}
    assert found == [
        ([(1, 1)], Outcome.REJECTED, b""), ([(2, 3)], Outcome.REJECTED, rejection(**told)),
        ([(4, 4)], Outcome.REJECTED, rejection(condition=Symbol("app:worse"))),
    ]  # fmt: skip


def rejection(**told: Any) -> bytes:
    return encode_amqp({Symbol(f"x-opt-rejected-{name}"): value for name, value in told.items()})


@pytest.mark.requirement("B6.3")
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Error("c", "why", {"x": "y" * MODIFIED_OCTETS}), {"condition": Symbol("c"), "description": "why"}),
        (Error("c", "y" * MODIFIED_OCTETS), {"condition": Symbol("c"), "description": "y" * 1024}),
        (Error("c" * MODIFIED_OCTETS), {"condition": Symbol("c" * 1024)}),
        (Error("c", None, {"x\u00fc": 1}), {"condition": Symbol("c")}),
    ],
    ids=["info", "description", "condition", "a key that is no symbol"],
)
def test_an_error_of_any_size_rejects_and_ends_no_link(error: Error, told: Any) -> None:
    assert annotations_told(Rejected(error)) == rejection(**told)


RESERVED = [
    "x-cc", "x-bcc", "x-delay", "x-opt-delivery-delay", "x-opt-deaths", "x-death", "x-first-death-reason",
    "x-last-death-queue", "x-delivery-count", "x-opt-delivery-count", "x-exchange", "x-routing-key",
    "x-opt-amqp-0-9-1", "x-amqp-1.0-properties", "x-basic-type", "x-opt-rejected-condition",
]  # fmt: skip


@pytest.mark.requirement("B6.9")
@pytest.mark.parametrize("key", RESERVED)
def test_annotations_of_the_node_are_left_out(key: str) -> None:
    peer = receiving()
    peer.deliver(message())
    peer.send(settled(0, None, Modified(False, True, {key: 1, **ANNOTATIONS})))
    (effect,) = peer.taken(SettleEffect)
    assert (effect.outcome, effect.annotations) == (Outcome.UNDELIVERABLE_HERE, OCTETS)


@pytest.mark.requirement("B6.9")
def test_annotations_beyond_the_limit_end_the_links_of_the_deliveries() -> None:
    peer = begun(receiver(0), receiver(1), receiver(2), *(credit(9, handle=handle) for handle in range(3)))
    for consumer in (1, 2, 3):
        peer.deliver(message(), first=consumer * 10, consumer=consumer)
    most = MODIFIED_OCTETS - len(encode_amqp({Symbol("a"): "x" * 300})) + 300
    told = peer.send(settled(1, 2, Modified(True, None, {"a": "x" * (most + 1)})))
    assert [(one.handle, one.closed, one.error.condition) for one in told] == [
        (handle, True, AmqpCondition.RESOURCE_LIMIT_EXCEEDED) for handle in (1, 2)
    ]
    assert settlements(peer) == [(2, [(20, 20)], Outcome.LOST), (3, [(30, 30)], Outcome.LOST)]
    assert peer.send(settled(0, None, Modified(True, None, {"a": "x" * most}))) == []
    (effect,) = peer.taken(SettleEffect)
    assert len(effect.annotations) == MODIFIED_OCTETS


def test_the_default_outcome_of_a_link_has_no_annotations() -> None:
    """The node's attach tells the default outcome that counts."""
    asked = d.Source("q", default_outcome=Modified(True, None, ANNOTATIONS))
    peer = begun()
    attach, *_ = peer.send(receiver(0, source=asked))
    assert attach.source.default_outcome == Modified(True)


@pytest.mark.requirement("B5.10")
@pytest.mark.parametrize(("state", "outcome"), [*WHOLE, *MODIFIED])
def test_the_node_settles_second_where_the_peer_asked_for_it(state: Any, outcome: Outcome) -> None:
    peer = receiving(rcv_settle_mode=SECOND)
    peer.deliver(message(), message())
    (answer,) = peer.send(settled(0, 1, state, settled=False))
    assert (answer.role, answer.first, answer.last, answer.settled) == (Role.SENDER, 0, 1, True)
    assert type(answer.state) is type(state)
    assert settlements(peer) == [(1, [(1, 2)], outcome)]
    assert peer.send(settled(0, 1, state)) == [] and settlements(peer) == []


@pytest.mark.requirement("B6.10")
@pytest.mark.sentence("1.0/2.7.6-1")
def test_dispositions_are_for_ranges_of_deliveries_on_any_links() -> None:
    peer = begun(receiver(0), receiver(1), credit(99), credit(99, handle=1))
    peer.deliver(*[message()] * 3, first=10)
    peer.deliver(*[message()] * 3, first=50, consumer=2)
    peer.deliver(*[message()] * 3, first=13)
    peer.send(settled(1, 7, ACCEPTED))
    found = sorted(settlements(peer))
    assert found == [(1, [(11, 14)], Outcome.ACCEPTED), (2, [(50, 52)], Outcome.ACCEPTED)]
    peer.send(settled(0, 100, RELEASED), settled(0, 100, ACCEPTED))
    assert settlements(peer) == [(1, [(10, 10), (15, 15)], Outcome.RELEASED)], "each is settled once"


@pytest.mark.requirement("B6.12")
def test_dispositions_of_one_input_are_one_settlement() -> None:
    peer = receiving(1000)
    peer.deliver(*[message()] * 200)
    peer.send(*(settled(number, None, ACCEPTED) for number in range(200) if number != 77))
    assert settlements(peer) == [(1, [(1, 77), (79, 200)], Outcome.ACCEPTED)]


@pytest.mark.parametrize(
    ("first", "last"),
    [(0, None), (3, 9), (2**31, None), (2**32 - 9, 2**32 - 1), (9, 5), (2, 1), (2**31 - 1, 2**31), (0, 0)],
)
def test_dispositions_of_no_delivery_are_ignored(first: int, last: int | None) -> None:
    """Those of settled deliveries, of deliveries to come, and ranges that end before they begin."""
    peer = receiving()
    peer.deliver(message())
    peer.send(settled(0, None, ACCEPTED))
    peer.deliver(message(), message(), first=2)
    settlements(peer)
    assert peer.send(settled(first, last, ACCEPTED, settled=False)) == [] and settlements(peer) == []
    peer.send(d.Detach(9))
    assert peer.taken(SessionEnded)[0].unsettled == [(1, [(2, 3)])]


@pytest.mark.requirement("B6.10")
def test_delivery_ids_of_the_node_begin_again_at_0() -> None:
    peer = receiving()
    peer.session().outgoing._next_delivery = 2**32 - 2
    ids = [one.delivery_id for one in peer.deliver(*[message()] * 5)]
    assert ids == [2**32 - 2, 2**32 - 1, 0, 1, 2]
    peer.send(settled(2**32 - 1, 1, ACCEPTED))
    assert settlements(peer) == [(1, [(2, 4)], Outcome.ACCEPTED)]
    peer.send(settled(2**32 - 2, None, RELEASED), settled(2, None, RELEASED))
    assert settlements(peer) == [(1, [(1, 1), (5, 5)], Outcome.RELEASED)]


@pytest.mark.parametrize(
    ("default", "outcome"),
    [
        (None, Outcome.RELEASED), (ACCEPTED, Outcome.ACCEPTED), (REJECTED, Outcome.REJECTED),
        (Modified(True), Outcome.RETURNED),
    ],
)  # fmt: skip
def test_a_delivery_settled_without_outcome_has_the_sources_default(default: Any, outcome: Outcome) -> None:
    peer = receiving(source=d.Source("q", default_outcome=default))
    peer.deliver(message(), message())
    assert peer.send(settled(0)) == []
    assert peer.send(settled(1, None, d.Received(0, 0))) == []
    assert settlements(peer) == [(1, [(1, 1)], outcome), (1, [(2, 2)], outcome)]


@pytest.mark.requirement("E6.4")
@pytest.mark.parametrize("state", [None, d.Received(1, 9), Described(Symbol("x:state"), [])])
def test_a_state_that_is_no_outcome_settles_nothing(state: Any) -> None:
    peer = receiving()
    peer.deliver(message())
    assert peer.send(settled(0, None, state, settled=False)) == []
    assert settlements(peer) == [] and peer.session().outgoing.unsettled.count == 1


@pytest.mark.sentence("1.0/2.7.6-1")
def test_the_peers_dispositions_as_a_sender_settle_nothing() -> None:
    peer = receiving()
    peer.deliver(message())
    assert peer.send(d.Disposition(Role.SENDER, 0, 9, True, ACCEPTED)) == []
    assert settlements(peer) == []


# -- any order --------------------------------------------------------------------------------------


@pytest.mark.requirement("B6.10")
@given(
    st.lists(
        st.tuples(
            st.integers(0, 45),
            st.integers(0, 20),
            st.sampled_from([ACCEPTED, RELEASED, REJECTED]),
            st.booleans(),
        ),
        max_size=20,
    )
)
def test_every_delivery_is_settled_once_whatever_the_ranges(told: list[tuple[int, int, Any, bool]]) -> None:
    peer = receiving(1000)
    for consumer_first in (1, 11, 40, 50):
        peer.deliver(*[message()] * 10, first=consumer_first)
    left = dict(enumerate([*range(1, 21), *range(40, 60)]))
    expected: dict[Outcome, list[int]] = {}
    outcomes = {Accepted: Outcome.ACCEPTED, Released: Outcome.RELEASED, Rejected: Outcome.REJECTED}
    for first, more, state, in_one_step in told:
        answer = peer.send(settled(first, first + more, state, settled=in_one_step))
        taken = [left.pop(n) for n in range(first, first + more + 1) if n in left]
        expected.setdefault(outcomes[type(state)], []).extend(taken)
        assert len(answer) == (1 if taken and not in_one_step else 0)
    found: dict[Outcome, list[int]] = {}
    for _, ranges, outcome in settlements(peer):
        found.setdefault(outcome, []).extend(n for low, high in ranges for n in range(low, high + 1))
    assert {one: sorted(found.get(one, [])) for one in expected} == {
        one: sorted(numbers) for one, numbers in expected.items()
    }
    assert peer.session().outgoing.unsettled.count == len(left)
    peer.feed(b"\xff" * 8)
    (ended,) = [one for one in peer.effects if hasattr(one, "unsettled")]
    given_back = [n for _, ranges in ended.unsettled for low, high in ranges for n in range(low, high + 1)]
    assert sorted(given_back) == sorted(left.values())


@pytest.mark.parametrize(
    "octets",
    [b"", b"\xff", encode_amqp("text"), encode_amqp({UInt(1): "a"}), encode_amqp({"a": 1})[:-1]],
    ids=["none", "no encoding", "no map", "a key that is no text", "cut short"],
)
@pytest.mark.parametrize("former", [b"", encode_amqp({Symbol("a"): "b"})], ids=["alone", "behind others"])
def test_octets_of_another_node_that_are_no_annotations_are_refused(former: bytes, octets: bytes) -> None:
    """The owner may log only what each delivery can read again."""
    with pytest.raises(AnnotationsRefusedError):
        merged_annotations(former, octets)
