"""Both sides of a connection without a socket between them: handshakes, heartbeats, encryption."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.transport import CurveKeys
from replication.transport.zmtp.connection import HANDSHAKE_S, HEARTBEAT_S, SILENCE_S, Octets, ZmtpConnection
from replication.transport.zmtp.curve import ClientMechanism, ServerMechanism
from replication.transport.zmtp.frames import (
    COMMAND,
    ProtocolError,
    RefusedError,
    ZmtpFrameReader,
    command,
    greeting,
    header,
    metadata,
)
from replication.transport.zmtp.scratch import Scratch

A, B, STRANGER = (CurveKeys.generate() for _ in range(3))
LIMIT_BYTES = 1 << 20
NAMES = {A.public: "a"}

Sides = tuple[ZmtpConnection, ZmtpConnection]


def encrypted(client: CurveKeys = A, server: bytes = B.public) -> Sides:
    sides = (ClientMechanism(client, server), ServerMechanism(B, NAMES.get))
    return ZmtpConnection(sides[0], LIMIT_BYTES, 0.0), ZmtpConnection(sides[1], LIMIT_BYTES, 0.0)


def taken(connection: ZmtpConnection) -> bytes:
    octets = b"".join(connection.output)
    connection.output = []
    return octets


def carry(
    sender: ZmtpConnection, receiver: ZmtpConnection, step: int = 1 << 30, now: float = 0.0
) -> list[list[Octets]]:
    """Everything that one side has for the other, `step` octets at a time."""
    octets = memoryview(taken(sender))
    return [
        message
        for start in range(0, len(octets), step)
        for message in receiver.receive(octets[start : start + step], now)
    ]


def shake_hands(sides: Sides, step: int = 1 << 30) -> Sides:
    one, other = sides
    while one.output or other.output:
        assert carry(one, other, step) == carry(other, one, step) == []
    return sides


@pytest.mark.requirement("F5.3")
@given(
    messages=st.lists(st.lists(st.binary(max_size=400), min_size=1, max_size=4), max_size=5),
    step=st.integers(1, 300),
)
def test_messages_pass_both_ways_wherever_they_are_cut(messages: list[list[bytes]], step: int) -> None:
    client, server = shake_hands(encrypted(), step)
    assert client.ready
    assert server.ready
    for sender, receiver in ((client, server), (server, client)):
        for message in messages:
            sender.send(message)
        assert carry(sender, receiver, step) == messages


@given(
    messages=st.lists(st.lists(st.binary(max_size=400), min_size=1, max_size=4), max_size=5),
    step=st.integers(1, 300),
    size=st.sampled_from([0, 100, 600, 10_000]),
)
def test_messages_in_a_scratch_are_whole_until_it_is_used_again(
    messages: list[list[bytes]], step: int, size: int
) -> None:
    client, server = shake_hands(encrypted(), step)
    scratch, arrived = Scratch(size), list[list[bytes]]()
    for message in messages:
        scratch.reset()
        client.send(message, scratch)
        octets = memoryview(taken(client))
        for start in range(0, len(octets), step):
            scratch.reset()
            for frames in server.receive(octets[start : start + step], 0.0, 0, scratch):
                arrived.append([bytes(frame) for frame in frames])
            wipe(scratch, size)
    assert arrived == messages


def wipe(scratch: Scratch, size: int) -> None:
    scratch.reset()
    room = scratch.take(size)
    assert room is not None
    room[:] = b"x" * size


def test_a_message_right_behind_the_handshake_may_be_long() -> None:
    client, server = shake_hands(encrypted())
    client.send([bytes(100_000)])
    assert carry(client, server) == [[bytes(100_000)]]


def test_the_server_knows_who_the_client_is() -> None:
    _, server = shake_hands(encrypted())
    assert server.user == "a"


def test_nothing_of_a_message_is_seen_on_the_way() -> None:
    client, _ = shake_hands(encrypted())
    client.send([b"the body of a message"])
    assert b"body" not in taken(client)


@pytest.mark.requirement("F5.3")
def test_who_has_no_known_key_is_refused_and_told_so() -> None:
    client, server = encrypted(client=STRANGER)
    with pytest.raises(ProtocolError, match="the key is unknown"):
        shake_hands((client, server))
    assert not server.ready
    with pytest.raises(RefusedError, match="does not know this node's key"):
        carry(server, client)


def test_who_expects_another_server_is_refused() -> None:
    with pytest.raises(ProtocolError, match="takes this node for one with another key"):
        shake_hands(encrypted(server=STRANGER.public))


@pytest.mark.requirement("F5.3")
def test_what_was_said_on_a_connection_cannot_be_said_again() -> None:
    client, server = shake_hands(encrypted())
    client.send([b"once"])
    octets = taken(client)
    assert server.receive(memoryview(octets), 0.0) == [[b"once"]]
    with pytest.raises(ProtocolError, match="repeated"):
        server.receive(memoryview(octets), 0.0)


def test_what_was_changed_on_the_way_is_refused() -> None:
    client, server = shake_hands(encrypted())
    client.send([b"a message"])
    octets = bytearray(taken(client))
    octets[-1] ^= 1
    with pytest.raises(ProtocolError, match="not encrypted for this connection"):
        server.receive(memoryview(octets), 0.0)


def test_a_handshake_of_another_connection_is_of_no_use() -> None:
    client, server = encrypted()
    carry(client, server)
    carry(server, client)
    hello = taken(client)
    assert server.receive(memoryview(hello), 0.0) == []
    carry(server, client)
    initiate = taken(client)
    _, later = encrypted()
    assert later.receive(memoryview(greeting("CURVE", as_server=False) + hello), 0.0) == []
    with pytest.raises(ProtocolError, match="another cookie"):
        later.receive(memoryview(initiate), 0.0)


@given(st.lists(st.binary(max_size=300), max_size=4))
def test_any_octets_in_place_of_a_handshake_are_waited_for_or_refused(pieces: list[bytes]) -> None:
    _, server = encrypted()
    try:
        server.receive(memoryview(greeting("CURVE", as_server=False)), 0.0)
        for piece in pieces:
            assert server.receive(memoryview(header(len(piece), COMMAND) + piece), 0.0) == []
    except ProtocolError:
        pass
    assert not server.ready


@pytest.mark.parametrize("name", [b"HELLO", b"INITIATE", b"WELCOME", b"READY", b"MESSAGE"])
@pytest.mark.parametrize("size", [0, 8, 144, 160, 194, 300])
def test_commands_of_any_length_do_no_harm(name: bytes, size: int) -> None:
    for side in encrypted():
        with pytest.raises(ProtocolError):
            other = greeting("CURVE", as_server=False)
            body = command(name, bytes(size))
            side.receive(memoryview(other + header(len(body), COMMAND) + body), 0.0)


def test_a_message_before_the_end_of_the_handshake_is_refused() -> None:
    _, server = encrypted()
    with pytest.raises(ProtocolError, match="before the end of the handshake"):
        server.receive(memoryview(greeting("CURVE", as_server=False) + header(1) + b"x"), 0.0)


@pytest.mark.requirement("F5.3")
@pytest.mark.parametrize("spoken", ["NULL", "PLAIN"])
def test_who_speaks_without_keys_is_refused_before_it_says_a_word(spoken: str) -> None:
    _, server = encrypted()
    body = command(b"READY", metadata("PUSH"))
    with pytest.raises(ProtocolError, match="other keys or none"):
        server.receive(memoryview(greeting(spoken, as_server=False) + header(len(body), COMMAND) + body), 0.0)
    assert not server.ready and not server.introduced


def test_who_knows_the_key_has_introduced_itself_with_its_first_words() -> None:
    client, server = encrypted()
    carry(client, server)
    assert not server.introduced
    carry(server, client)
    carry(client, server)
    assert server.introduced and not server.ready


def test_a_handshake_has_a_time_limit() -> None:
    _, server = encrypted()
    server.tick(HANDSHAKE_S - 0.01)
    with pytest.raises(ProtocolError, match="took too long"):
        server.tick(HANDSHAKE_S)


def test_a_silent_side_is_asked_and_answers() -> None:
    client, server = shake_hands(encrypted())
    client.tick(HEARTBEAT_S - 0.01)
    assert not client.output
    client.tick(HEARTBEAT_S)
    assert carry(client, server, now=HEARTBEAT_S) == []
    assert carry(server, client, now=HEARTBEAT_S) == []
    client.tick(SILENCE_S + HEARTBEAT_S - 0.01)
    with pytest.raises(ProtocolError, match="nothing came for"):
        client.tick(SILENCE_S + HEARTBEAT_S)


def test_each_request_gets_its_own_context_back() -> None:
    client, server = shake_hands(encrypted())
    client._frame(COMMAND, command(b"PING", b"\0\x0acontext"))
    assert carry(client, server) == []
    mechanism, answer = client._mechanism, taken(server)
    [(_, frame)] = ZmtpFrameReader(1 << 20).feed(memoryview(answer))
    assert mechanism.unwrap(frame) == (COMMAND, command(b"PONG", b"context"))
