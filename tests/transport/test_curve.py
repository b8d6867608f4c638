"""Keys: encrypted connections between nodes that know each other, and with no other peer."""

from __future__ import annotations

import pytest

from replication.transport import CurveKeys, InvalidKeyError, public_key
from tests.transport.harness import Endpoint, connect, run

A, B, STRANGER = (CurveKeys.generate() for _ in range(3))


@run
async def test_nodes_with_each_others_keys_talk() -> None:
    a, b = Endpoint("a", A), Endpoint("b", B)
    await connect(a, b)
    a.say("b", b"hello", b"x" * 500_000)
    await b.until(lambda: bool(b.received))
    assert b.received == [("a", [b"hello", b"x" * 500_000])]
    a.transport.close()
    b.transport.close()


@run
async def test_a_node_whose_key_is_not_the_clusters_is_refused() -> None:
    a, b = Endpoint("a", STRANGER), Endpoint("b", B)
    b.transport.add_peer("a", a.transport.address, A.public)
    a.meet(b)
    peer = a.transport.peers["b"]
    await a.until(lambda: peer.handshake_failures > 0)
    assert not peer.up
    assert not a.say("b", b"let me in")
    assert peer.last_failure == "the other side does not know this node's key"
    await b.until(lambda: b.transport.refused_connections > 0)
    a.transport.close()
    b.transport.close()


@run
async def test_a_node_that_expects_another_server_key_does_not_connect() -> None:
    a, b = Endpoint("a", A), Endpoint("b", B)
    b.meet(a)
    a.transport.add_peer("b", b.transport.address, STRANGER.public)
    await b.until(lambda: b.transport.refused_connections > 0)
    assert not a.transport.peers["b"].up
    a.transport.close()
    b.transport.close()


@run
async def test_a_node_cannot_speak_in_anothers_name() -> None:
    """b knows a and c; c connects with its own key and writes a's name on its batches."""
    impostor, b = Endpoint("a", STRANGER), Endpoint("b", B)
    b.transport.add_peer("a", "127.0.0.1:9", A.public)
    b.transport.add_peer("c", impostor.transport.address, STRANGER.public)
    impostor.meet(b)
    await impostor.until_event("up", "b")
    impostor.say("b", b"I am a")
    await b.until(lambda: b.transport.misdirected_batches > 0)
    assert b.received == []
    impostor.transport.close()
    b.transport.close()


def test_a_public_key_follows_from_its_secret_key() -> None:
    assert CurveKeys.from_secret(A.secret.decode() + "\n") == A
    assert public_key(A.public.decode()) == A.public


@pytest.mark.parametrize("text", ["", "short", "x" * 39 + '"', "ä" * 40, "#" * 40])
def test_what_is_no_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(InvalidKeyError) as refusal:
        CurveKeys.from_secret(text)
    assert "40 characters of Z85" in str(refusal.value)
    assert not text or text not in str(refusal.value)
    with pytest.raises(InvalidKeyError):
        public_key(text)


def test_keys_do_not_show_in_logs() -> None:
    assert A.secret.decode() not in repr(A)
