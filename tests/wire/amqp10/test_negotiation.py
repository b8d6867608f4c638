"""From the first octet to Open: protocol headers, SASL, and the limits in Open (part 2, section 2.4; part 5,
section 5.3).
"""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.definitions import AmqpCondition, SaslCode
from node.wire.amqp10.effects import (
    AnswerChallenge,
    Authenticate,
    CloseSocket,
    ConnectionClosed,
    EnterVhost,
    FindTarget,
    LogEffect,
    NegotiationFailed,
)
from node.wire.amqp10.frames import EMPTY_FRAME, frame_buffers
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.states import ConnectionState
from node.wire.scram import LARGEST_NONCE, MOST_ITERATIONS, SALT_BYTES, ScramExchange, Verifier
from tests.wire.amqp10.peer import MISSING, Peer, begun, error_in, opened
from tests.wire.amqp10.performatives import LARGE, PLAIN, begin, octets_of, sender

MECHANISMS = d.SaslMechanisms(("PLAIN",))
OK = d.SaslOutcome(SaslCode.OK)
REFUSED = d.SaslOutcome(SaslCode.AUTH)


def refused(peer: Peer) -> bool:
    """Whether the machine has told of a failed negotiation once, and closes the socket after the pause."""
    assert peer.connection.state is ConnectionState.PAUSED
    assert len(peer.taken(NegotiationFailed)) == 1 and not peer.taken(CloseSocket)
    assert peer.send(AMQP_HEADER, d.Open("late")) == []
    assert peer.tick(2.9) == [] and peer.connection.state is ConnectionState.PAUSED
    assert peer.tick(0.2) == []
    return len(peer.taken(CloseSocket)) == 1 and not peer.effects


# -- protocol headers -------------------------------------------------------------------------------


@pytest.mark.requirement("B1.1", "B1.3", "B2.1")
@pytest.mark.sentence("1.0/2.2-1", "1.0/2.2-2", "1.0/2.2-6", "1.0/5.3-1", "1.0/5.3.2-3", "1.0/5.3.3.6-1")
def test_the_headers_of_sasl_and_of_amqp_are_answered_with_themselves() -> None:
    peer = Peer()
    assert peer.send(SASL_HEADER) == [SASL_HEADER, MECHANISMS]
    assert peer.send(PLAIN) == [OK]
    assert peer.send(AMQP_HEADER) == [AMQP_HEADER]
    assert peer.connection.user == "guest" and peer.connection.mechanism == "PLAIN"


@pytest.mark.sentence("1.0/2.2-3", "1.0/2.2-7", "1.0/2.2-9")
@pytest.mark.parametrize(
    "header",
    [
        AMQP_HEADER, b"AMQP\x02\x01\x00\x00", b"AMQP\x01\x01\x00\x00", b"AMQP\x00\x00\x09\x01",
        b"AMQP\x03\x01\x00\x01", b"AMQP\xff\xff\xff\xff",
    ],
    ids=["without-sasl", "tls", "unknown-id", "0-9-1", "revision", "all-ones"],
)  # fmt: skip
def test_any_other_header_is_answered_with_the_one_that_the_node_takes(header: bytes) -> None:
    peer = Peer()
    assert peer.send(header) == [SASL_HEADER]
    assert refused(peer)


@pytest.mark.sentence("1.0/2.2-2")
@pytest.mark.parametrize("octets", [b"GET / HTTP/1.1\r\n", octets_of(d.Open("c")), EMPTY_FRAME, PLAIN])
def test_frames_in_front_of_the_first_header_are_refused_without_a_word(octets: Any) -> None:
    peer = Peer()
    assert peer.send(octets) == []
    assert refused(peer)


# -- SASL -------------------------------------------------------------------------------------------


@pytest.mark.requirement("B2.1")
def test_plain_reaches_the_session_code_as_it_came() -> None:
    peer = Peer(answers=frozenset())
    peer.send(SASL_HEADER, PLAIN)
    assert peer.taken(Authenticate) == [Authenticate("PLAIN", b"\0guest\0guest")]
    assert peer.connection.state is ConnectionState.LOG_IN
    peer.connection.authenticated("somebody")
    assert peer.reads() == [OK] and peer.connection.user == "somebody"


@pytest.mark.requirement("B2.1")
def test_a_wrong_password_is_refused_without_its_reason() -> None:
    peer = Peer()
    found = peer.send(SASL_HEADER, d.SaslInit("PLAIN", b"\0guest\0wrong"))
    assert found == [SASL_HEADER, MECHANISMS, REFUSED] and peer.connection.user == ""
    peer.taken(Authenticate)
    assert refused(peer)


@pytest.mark.sentence("1.0/5.3.3.2-1")
def test_a_mechanism_that_was_not_offered_is_refused() -> None:
    peer = Peer()
    assert peer.send(SASL_HEADER, d.SaslInit("ANONYMOUS"))[2:] == [REFUSED]
    assert not peer.taken(Authenticate)
    assert refused(peer)


@pytest.mark.sentence("1.0/1.4-1", "1.0/5.3.2-1")
def test_the_offered_mechanisms_are_those_of_the_limits() -> None:
    peer = Peer(ConnectionLimits(mechanisms=("PLAIN", "EXTERNAL")), answers=frozenset())
    found = peer.send(SASL_HEADER, d.SaslInit("EXTERNAL"))
    assert found == [SASL_HEADER, d.SaslMechanisms(("PLAIN", "EXTERNAL"))]
    assert peer.taken(Authenticate) == [Authenticate("EXTERNAL", b"")]


SEVERAL_ROUNDS = ConnectionLimits(mechanisms=("PLAIN", "SCRAM-SHA-256"), handshake_timeout=5.0)


def challenged() -> Peer:
    """A peer that has got a challenge."""
    peer = Peer(SEVERAL_ROUNDS, answers=frozenset())
    peer.send(SASL_HEADER, d.SaslInit("SCRAM-SHA-256", b"first"))
    assert peer.taken(Authenticate) == [Authenticate("SCRAM-SHA-256", b"first")]
    peer.connection.challenge(b"solve this")
    assert peer.reads() == [d.SaslChallenge(b"solve this")]
    return peer


@pytest.mark.requirement("B2.4")
def test_a_mechanism_may_have_several_challenges() -> None:
    peer = challenged()
    for number in range(3):
        assert peer.send(d.SaslResponse(b"solved %d" % number)) == []
        assert peer.taken(AnswerChallenge) == [AnswerChallenge(b"solved %d" % number)]
        assert peer.connection.state is ConnectionState.LOG_IN
        peer.connection.challenge(b"")
        assert peer.reads() == [d.SaslChallenge(b"")]
    peer.send(d.SaslResponse(b""))
    peer.connection.authenticated("guest", b"signed")
    assert peer.reads() == [d.SaslOutcome(SaslCode.OK, b"signed")]
    assert peer.send(AMQP_HEADER) == [AMQP_HEADER]
    assert peer.connection.user == "guest" and peer.connection.mechanism == "SCRAM-SHA-256"


@pytest.mark.sentence("1.0/5.3.1-3")
def test_the_nodes_sasl_frames_have_512_octets_at_most() -> None:
    mechanisms = ("PLAIN", "EXTERNAL", "ANONYMOUS", "SCRAM-SHA-256")
    peer = Peer(ConnectionLimits(mechanisms=mechanisms), answers=frozenset())
    peer.send(SASL_HEADER, d.SaslInit("SCRAM-SHA-256", b"n,,n=guest,r=" + b"x" * LARGEST_NONCE))
    salt, iterations = b"s" * SALT_BYTES, MOST_ITERATIONS
    exchange = ScramExchange(lambda user: Verifier(iterations, salt, b"k" * 32, b"k" * 32), b"y" * 32)
    (asked,) = peer.taken(Authenticate)
    peer.connection.challenge(exchange.receive(asked.response))
    peer.reads()
    assert [type(one.performative) for one in peer.frames] == [d.SaslMechanisms, d.SaslChallenge]
    assert all(one.end - one.begin <= 512 for one in peer.frames)


def test_a_response_may_come_before_its_challenge() -> None:
    peer = Peer(SEVERAL_ROUNDS, answers=frozenset())
    peer.send(SASL_HEADER, d.SaslInit("SCRAM-SHA-256"), d.SaslResponse(b"early"), AMQP_HEADER)
    assert peer.taken(Authenticate) == [Authenticate("SCRAM-SHA-256", b"")]
    peer.connection.challenge(b"")
    assert peer.reads() == [d.SaslChallenge(b"")]
    assert peer.taken(AnswerChallenge) == [AnswerChallenge(b"early")]
    peer.connection.authenticated("guest")
    assert peer.reads() == [OK, AMQP_HEADER]


@pytest.mark.requirement("B2.4")
def test_a_wrong_response_is_refused_without_its_reason() -> None:
    peer = challenged()
    peer.send(d.SaslResponse(b"wrong"))
    peer.connection.login_refused("invalid-proof")
    assert peer.reads() == [REFUSED] and peer.connection.user == ""
    assert peer.taken(AnswerChallenge) and refused(peer)


@pytest.mark.parametrize(
    "octets",
    [
        octets_of(d.SaslInit("PLAIN", b"\0guest\0guest")), SASL_HEADER, AMQP_HEADER, octets_of(d.Open("c")),
        EMPTY_FRAME, b"\xff" * 8,
    ],
)  # fmt: skip
def test_other_octets_than_a_response_to_a_challenge_are_refused(octets: bytes) -> None:
    peer = challenged()
    assert peer.send(octets) == []
    assert not peer.taken(Authenticate) and refused(peer)


def test_challenges_do_not_lengthen_the_time_out_of_the_negotiation() -> None:
    peer = challenged()
    peer.tick(2.0)
    peer.send(d.SaslResponse(b"late"))
    peer.connection.challenge(b"again")
    peer.reads()
    assert peer.connection.next_deadline() == peer.now + 3
    peer.tick(3.1)
    assert peer.taken(NegotiationFailed) == [NegotiationFailed("time-out")] and peer.taken(CloseSocket)


def test_late_answers_to_a_closed_negotiation_are_ignored() -> None:
    peer = challenged()
    peer.send(d.SaslResponse(b"x"))
    peer.tick(5.1)
    peer.connection.challenge(b"late")
    peer.connection.authenticated("guest", b"late")
    assert peer.reads() == [] and peer.connection.state is ConnectionState.CLOSED


@pytest.mark.sentence("1.0/5.3.1-1")
@pytest.mark.parametrize(
    "octets",
    [
        SASL_HEADER, AMQP_HEADER, octets_of(d.SaslResponse(b"x")), octets_of(d.Open("c")), EMPTY_FRAME,
        b"\0\0\0\x08\x01\x01\0\0",
    ],
)  # fmt: skip
def test_other_octets_than_sasl_init_are_refused(octets: bytes) -> None:
    peer = Peer()
    peer.send(SASL_HEADER)
    assert peer.send(octets) == []
    assert refused(peer)


@pytest.mark.sentence("1.0/5.3.3.6-1")
@pytest.mark.parametrize("octets", [SASL_HEADER, octets_of(PLAIN), octets_of(d.Open("c")), b"\xff" * 8])
def test_other_octets_than_the_header_of_amqp_are_refused_after_the_login(octets: bytes) -> None:
    peer = Peer()
    peer.send(SASL_HEADER, PLAIN)
    peer.taken(Authenticate)
    assert peer.send(octets) == []
    assert refused(peer)


# -- Open -------------------------------------------------------------------------------------------


@pytest.mark.sentence("1.0/2.8.19-1")
def test_open_states_the_limits_of_the_node() -> None:
    limits = ConnectionLimits(
        container_id="node-1", max_frame_size=8192, channel_max=99, idle_time_out=30.0,
        properties=(("product", "quorate"),),
    )  # fmt: skip
    peer = opened(limits, max_frame_size=4096, channel_max=10, hostname="vhost:x")
    answer = peer.last
    assert answer == d.Open(
        "node-1", max_frame_size=8192, channel_max=99, idle_time_out=30_000,
        offered_capabilities=("ANONYMOUS-RELAY", "LINK_PAIR_V1_0"), properties={"product": "quorate"},
    )  # fmt: skip
    assert (peer.connection.max_frame_size, peer.connection.channel_max) == (4096, 10)


@pytest.mark.requirement("B3.1")
@pytest.mark.sentence("1.0/2.7.1-3")
def test_the_peers_frames_are_bounded_by_the_nodes_max_frame_size() -> None:
    peer = opened(ConnectionLimits(max_frame_size=10_000))
    assert peer.last.max_frame_size == 10_000
    assert peer.send(b"\0\0\x27\x10\x02\0\0\0") == [], "10,000 octets may come"
    peer = opened(ConnectionLimits(max_frame_size=10_000))
    (close,) = peer.send(b"\0\0\x27\x11\x02\0\0\0")
    assert error_in(close, d.Close).condition == "amqp:connection:framing-error"


@pytest.mark.parametrize("size", [0, 511])
def test_a_max_frame_size_below_512_is_refused(size: int) -> None:
    peer = Peer()
    peer.send(SASL_HEADER, PLAIN, AMQP_HEADER)
    answer, close = peer.send(d.Open("c", max_frame_size=size))
    assert isinstance(answer, d.Open)
    assert error_in(close, d.Close).condition == AmqpCondition.INVALID_FIELD
    assert peer.connection.state is ConnectionState.CLOSING and not peer.taken(EnterVhost)


def test_a_max_frame_size_of_512_is_taken() -> None:
    assert opened(max_frame_size=512).connection.max_frame_size == 512


@pytest.mark.sentence("1.0/2.4.1-1", "1.0/2.7.1-1")
@pytest.mark.parametrize("before", [begin(), d.End(), d.Close(), sender()])
def test_a_frame_in_front_of_open_is_answered_with_open_and_close(before: Composite) -> None:
    peer = Peer()
    peer.send(SASL_HEADER, PLAIN, AMQP_HEADER)
    answer, close = peer.send(before)
    assert isinstance(answer, d.Open)
    assert error_in(close, d.Close).condition == AmqpCondition.ILLEGAL_STATE
    assert not peer.taken(ConnectionClosed), "no session has begun"


def test_an_empty_frame_in_front_of_open_is_heard_and_no_more() -> None:
    peer = Peer()
    peer.send(SASL_HEADER, PLAIN, AMQP_HEADER)
    assert peer.send(EMPTY_FRAME) == []
    assert len(peer.send(d.Open("c"))) == 1 and peer.connection.state is ConnectionState.OPEN


def test_a_refused_virtual_host_is_answered_with_open_and_close() -> None:
    peer = Peer()
    answer, close = peer.send(SASL_HEADER, PLAIN, AMQP_HEADER, d.Open("c", f"vhost:{MISSING}"), begin())[-2:]
    assert isinstance(answer, d.Open)
    assert error_in(close, d.Close).condition == AmqpCondition.NOT_ALLOWED
    assert peer.send(begin()) == [] and peer.send(d.Close()) == []
    assert len(peer.taken(CloseSocket)) == 1 and not peer.taken(ConnectionClosed)


def test_the_hostname_reaches_the_session_code_as_it_came() -> None:
    peer = Peer(answers=frozenset((Authenticate,)))
    peer.send(SASL_HEADER, PLAIN, AMQP_HEADER, d.Open("c", "vhost:one"))
    assert peer.taken(EnterVhost) == [EnterVhost("vhost:one")]


def test_an_open_too_large_for_the_peer_is_no_defect_of_the_machine() -> None:
    """The octets of the node's own Open are those of its configuration, and stay below 512."""
    assert len(b"".join(frame_buffers(0, opened(max_frame_size=512).last))) < 512


@pytest.mark.sentence("1.0/2.7.1-7")
def test_descriptions_are_in_english_whatever_a_peer_wants() -> None:
    found: list[Any] = []
    for wanted in ((), ("de-DE",)):
        peer = begun(incoming_locales=wanted, outgoing_locales=wanted)
        (close,) = peer.send(d.Open("again"))
        found.append(error_in(close, d.Close))
        opens = [one.performative for one in peer.frames if isinstance(one.performative, d.Open)]
        assert [(one.outgoing_locales, one.incoming_locales) for one in opens] == [((), ())]
    assert found[0] == found[1] and found[0].description == "Open on channel 0"


# -- pipelined --------------------------------------------------------------------------------------

PIPELINED = octets_of(SASL_HEADER, PLAIN, AMQP_HEADER, d.Open("c", max_frame_size=LARGE), begin(), sender(3))
KINDS = [bytes, d.SaslMechanisms, d.SaslOutcome, bytes, d.Open, d.Begin, d.Attach, d.Flow]


@pytest.mark.sentence("1.0/2.4.1-1", "1.0/2.7.1-1")
def test_a_whole_connection_may_come_in_one_piece() -> None:
    peer = Peer()
    assert [type(one) for one in peer.send(PIPELINED)] == KINDS
    assert [type(one) for one in peer.effects] == [Authenticate, EnterVhost, FindTarget]


def test_a_connection_may_be_closed_in_the_piece_that_opens_it() -> None:
    peer = Peer()
    assert [type(one) for one in peer.send(PIPELINED, d.Close())] == [*KINDS[:6], d.Close]
    assert [type(one) for one in peer.effects] == [
        Authenticate, EnterVhost, FindTarget, ConnectionClosed, CloseSocket,
    ]  # fmt: skip


def test_a_connection_opens_wherever_its_octets_are_cut() -> None:
    for cut in range(1, len(PIPELINED)):
        peer = Peer()
        found = peer.send(PIPELINED[:cut]) + peer.send(PIPELINED[cut:])
        assert [type(one) for one in found] == KINDS
    peer, found = Peer(), []
    for at in range(len(PIPELINED)):
        found += peer.send(PIPELINED[at : at + 1])
    assert [type(one) for one in found] == KINDS


def test_input_waits_for_late_answers_in_its_order() -> None:
    peer = Peer(answers=frozenset())
    found = peer.send(PIPELINED)
    assert [type(one) for one in found] == KINDS[:2] and peer.connection.waits
    assert peer.send(EMPTY_FRAME) == []
    peer.answer(peer.taken(Authenticate)[0])
    assert [type(one) for one in peer.reads()] == KINDS[2:4] and peer.connection.waits
    peer.answer(peer.taken(EnterVhost)[0])
    assert [type(one) for one in peer.reads()] == [d.Open, d.Begin]
    (asked,) = peer.taken(FindTarget)
    peer.answer(asked)
    assert [type(one) for one in peer.reads()] == [d.Attach, d.Flow]


def test_octets_that_are_no_frames_wait_for_their_turn_too() -> None:
    """The session code enters the virtual host before the connection fails, and is told of its end."""
    peer = Peer(answers=frozenset())
    peer.send(SASL_HEADER, PLAIN, b"\xff" * 8)
    assert peer.connection.state is ConnectionState.LOG_IN
    peer.answer(peer.taken(Authenticate)[0])
    assert peer.reads() == [OK]
    assert refused(peer)
    peer = Peer(answers=frozenset((Authenticate,)))
    peer.send(SASL_HEADER, PLAIN, AMQP_HEADER, d.Open("c"), b"\xff" * 8)
    peer.answer(peer.taken(EnterVhost)[0])
    answer, close = peer.reads()
    assert isinstance(answer, d.Open)
    assert error_in(close, d.Close).condition == "amqp:connection:framing-error"
    assert peer.taken(ConnectionClosed) == [ConnectionClosed([])]


# -- time and memory --------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", range(4))
def test_a_negotiation_has_a_time_out(steps: int) -> None:
    peer = Peer(ConnectionLimits(handshake_timeout=5.0))
    peer.send(*(SASL_HEADER, PLAIN, AMQP_HEADER)[:steps])
    assert peer.connection.next_deadline() == peer.now + 5
    peer.tick(4.9)
    assert not peer.taken(NegotiationFailed)
    assert peer.tick(0.2) == []
    assert peer.taken(NegotiationFailed) == [NegotiationFailed("time-out")] and peer.taken(CloseSocket)
    assert peer.connection.next_deadline() == inf


def test_a_stranger_may_not_fill_the_memory_with_input_that_waits() -> None:
    peer = Peer(ConnectionLimits(stranger_bytes=10_000), answers=frozenset())
    peer.send(SASL_HEADER, PLAIN)
    peer.send(octets_of(*(AMQP_HEADER, d.Open("x" * 4000))))
    assert peer.connection.state is ConnectionState.LOG_IN
    peer.send(d.Open("x" * 4000), d.Open("x" * 4000))
    peer.taken(Authenticate)
    assert refused(peer)
    assert peer.connection.held < 200


def test_a_connection_that_holds_too_much_memory_is_closed() -> None:
    limits = ConnectionLimits(memory_bytes=5 << 20, message_size=1000, handle_max=2000)
    peer = begun(limits=limits, answers=frozenset((Authenticate, EnterVhost)))
    found: list[Any] = []
    for handle in range(1500):
        found += peer.send(sender(handle))
        if found:
            break
    assert error_in(found[-1], d.Close).condition == AmqpCondition.RESOURCE_LIMIT_EXCEEDED
    assert 1000 < handle < 1400
    assert [one.event for one in peer.taken(LogEffect)] == ["connection_exception"]
    assert len(peer.taken(ConnectionClosed)) == 1 and peer.connection.held < 1000
