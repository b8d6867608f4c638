"""Transports over real sockets on loopback."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest
import zmq.asyncio

from replication.transport import ListenError, UndecodableError
from replication.transport.acceptor import STRANGERS
from replication.transport.zmtp import CurveKeys
from tests.transport.harness import SMALL, Endpoint, connect, pair, run

KEYS = CurveKeys.generate()


@run
async def test_messages_arrive_in_order_with_their_parts() -> None:
    async with pair() as (a, b):
        large = os.urandom(600_000)
        a.transport.send("b", [b"one", b"", large, b"tail"])
        a.transport.send("b", [b"two"])
        a.transport.flush()
        assert a.transport.peers["b"].sent_batches == 1
        await b.until(lambda: len(b.received) == 2)
        assert b.received == [("a", [b"one", b"", large, b"tail"]), ("a", [b"two"])]
        assert b.transport.peers["a"].gaps == 0


@run
async def test_both_sides_can_talk_at_once() -> None:
    async with pair() as (a, b):
        for number in range(500):
            assert a.say("b", b"%d" % number)
            assert b.say("a", b"%d" % number)
        await a.until(lambda: len(a.received) == 500)
        await b.until(lambda: len(b.received) == 500)
        assert [int(parts[0]) for _, parts in a.received] == list(range(500))


@run
async def test_a_view_can_be_sent_without_copying_it_first() -> None:
    async with pair() as (a, b):
        body = os.urandom(1 << 20)
        a.transport.send("b", [memoryview(body)[100:300_100], memoryview(body)[:50]])
        a.transport.flush()
        await b.until(lambda: bool(b.received))
        assert b.received[0][1] == [body[100:300_100], body[:50]]


@run
async def test_more_than_the_window_flows_as_it_is_acknowledged() -> None:
    async with pair(**SMALL) as (a, b):
        messages = [os.urandom(40_000) for _ in range(100)]
        todo = iter(messages)
        peer = a.transport.peers["b"]
        waiting = next(todo, None)
        while waiting is not None:
            if peer.outbox.queued < 500_000:
                assert a.say("b", waiting)
                waiting = next(todo, None)
            else:
                await asyncio.sleep(0)
            assert peer.outbox.in_flight <= SMALL["window_bytes"]
        await b.until(lambda: len(b.received) == 100)
        assert [parts[0] for _, parts in b.received] == messages


@run
async def test_a_full_queue_drops_and_the_receiver_sees_the_gap() -> None:
    async with pair(**SMALL) as (a, b):
        sent = [a.transport.send("b", [bytes([number]) * 100_000]) for number in range(20)]
        assert not all(sent)
        a.transport.flush()
        await b.until(lambda: len(b.received) == sum(sent))
        assert ("gap", "a") not in b.events
        assert a.say("b", b"after")
        await b.until(lambda: b.received[-1] == ("a", [b"after"]))
        assert b.events.count(("gap", "a")) == 1
        assert a.transport.peers["b"].outbox.dropped_messages == 20 - sum(sent)


@run
async def test_an_unreachable_peer_takes_no_memory_and_gets_no_old_messages() -> None:
    a = Endpoint("a")
    a.transport.add_peer("b", "127.0.0.1:9", KEYS.public)
    assert not a.say("b", bytes(1000))
    assert a.transport.peers["b"].outbox.queued == 0
    assert a.transport.peers["b"].outbox.dropped_messages == 1
    assert not a.say("nobody", b"x")
    a.transport.close()


@run
async def test_a_restarted_peer_is_down_and_up_again_and_announces_a_gap() -> None:
    async with pair() as (a, b):
        b.say("a", b"before")
        await a.until(lambda: len(a.received) == 1)
        address = b.transport.address
        b.transport.close()
        await a.until_event("down", "b")
        assert not a.say("b", b"into the void")
        again = Endpoint("b", b.keys, listen=address)
        again.meet(a)
        await a.until_event("up", "b", 2)
        await again.until_event("up", "a")
        again.say("a", b"after")
        await a.until(lambda: len(a.received) == 2)
        assert a.events == [("up", "b"), ("down", "b"), ("up", "b"), ("gap", "b")]
        assert a.say("b", b"hello again")
        await again.until(lambda: again.received == [("a", [b"hello again"])])
        assert a.transport.peers["b"].connections == 2
        again.transport.close()


@run
async def test_a_removed_peer_is_not_heard_any_more() -> None:
    async with pair() as (a, b):
        b.transport.remove_peer("a")
        b.transport.remove_peer("a")
        c = Endpoint("c")
        await connect(c, b)
        await a.until_event("down", "b")
        await b.until(lambda: b.transport.refused_connections > 0)
        assert not a.say("b", b"from a")
        c.say("b", b"from c")
        await b.until(lambda: b.received[-1:] == [("c", [b"from c"])])
        assert all(peer == "c" for peer, _ in b.received)
        c.transport.close()


@run
async def test_a_batch_for_another_node_is_dropped() -> None:
    """Two nodes whose addresses were swapped in the configuration must not take each other's messages."""
    async with pair() as (a, b):
        a.transport.add_peer("c", b.transport.address, b.keys.public)
        await a.until_event("up", "c")
        a.say("c", b"for c")
        a.say("b", b"for b")
        await b.until(lambda: b.transport.misdirected_batches == 1)
        await b.until(lambda: bool(b.received))
        assert b.received == [("a", [b"for b"])]


@run
async def test_what_is_no_batch_is_dropped() -> None:
    async with pair() as (a, b):
        context = zmq.asyncio.Context()
        stranger = context.socket(zmq.PUSH)
        stranger.curve_publickey, stranger.curve_secretkey = a.keys.public, a.keys.secret
        stranger.curve_serverkey = b.keys.public
        stranger.connect(f"tcp://{b.transport.address}")
        for frames in ([b""], [b"\xff" * 100], [b"x", b"y"]):
            await stranger.send_multipart(frames)
        await b.until(lambda: b.transport.misdirected_batches == 3)
        a.say("b", b"still works")
        await b.until(lambda: b.received == [("a", [b"still works"])])
        stranger.close(linger=0)
        context.term()


@run
async def test_a_failing_callback_does_not_stop_reception() -> None:
    async with pair() as (a, b):
        loop = asyncio.get_running_loop()
        errors: list[BaseException] = []
        loop.set_exception_handler(lambda _loop, context: errors.append(context["exception"]))

        def fail(_peer: str, parts: list[bytes]) -> None:
            if parts == [b"bad"]:
                raise ZeroDivisionError

        b.on_message = fail
        for text in (b"good", b"bad", b"good"):
            a.say("b", text)
        await b.until(lambda: len(b.received) == 3)
        assert [type(error) for error in errors] == [ZeroDivisionError]


@run
async def test_messages_behind_a_failing_one_are_whole() -> None:
    """Each batch comes in memory that the next read uses again."""
    async with pair() as (a, b):
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: None)

        def fail(_peer: str, parts: list[bytes]) -> None:
            raise ZeroDivisionError

        b.on_message = fail
        messages = [os.urandom(20_000) for _ in range(50)]
        for message in messages:
            a.transport.send("b", [message])
            a.transport.flush()
        await b.until(lambda: len(b.received) == len(messages))
        assert [parts for _, parts in b.received] == [[message] for message in messages]


@run
async def test_octets_that_the_kernel_does_not_take_stay_as_they_are() -> None:
    """All connections encrypt to the same memory."""
    async with pair() as (a, b):
        bodies = [[os.urandom(30_000) for _ in range(25)] for _ in range(2)]
        for side, peer, body in ((a, "b", bodies[0]), (b, "a", bodies[1])):
            stream = side.transport.peers[peer].stream
            assert stream is not None
            stream._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            side.transport.send(peer, body)
            side.transport.flush()
            assert stream.congested
        await b.until(lambda: bool(b.received))
        await a.until(lambda: bool(a.received))
        assert [one.received[0][1] for one in (b, a)] == bodies


@run
async def test_a_message_that_cannot_be_decoded_ends_its_connection_and_the_next_one_begins_with_a_gap() -> (
    None
):
    async with pair() as (a, b):

        def refuse(_peer: str, parts: list[bytes]) -> None:
            if parts == [b"bad"]:
                raise UndecodableError("it is bad")

        b.on_message = refuse
        for text in (b"good", b"bad"):
            a.say("b", text)
        await a.until_event("down", "b")
        await a.until_event("up", "b", 2)
        a.say("b", b"again")
        await b.until(lambda: len(b.received) == 3)
        assert b.received[-1] == ("a", [b"again"])
        assert b.events.count(("gap", "a")) == 1
        assert ("down", "a") not in b.events


@run
async def test_a_taken_port_is_named_with_what_to_do() -> None:
    a = Endpoint("a")
    with pytest.raises(ListenError) as failure:
        Endpoint("b", listen=a.transport.address)
    assert str(failure.value) == (
        f"cannot listen for peers on {a.transport.address}: Address already in use; "
        "stop what uses the port or set node.listen.peers to another address"
    )
    a.transport.close()


@run
async def test_peers_meet_by_name_and_over_ipv6() -> None:
    a, b = Endpoint("a", listen="localhost:0"), Endpoint("b", listen="[::1]:0")
    await connect(a, b)
    a.say("b", b"x")
    await b.until(lambda: bool(b.received))
    a.transport.close()
    b.transport.close()


@run
async def test_mistakes_of_the_caller_are_refused() -> None:
    async with pair() as (a, b):
        with pytest.raises(ValueError, match="b is known already"):
            a.meet(b)
        with pytest.raises(ValueError, match="a is known already"):
            a.meet(a)


@run
async def test_strangers_are_few_and_have_little_time() -> None:
    async with pair() as (a, b):
        host, _, port = b.transport.address.rpartition(":")
        strangers = [socket.create_connection((host, int(port))) for _ in range(STRANGERS + 10)]
        await b.until(lambda: b.transport.refused_connections == 10)
        a.say("b", b"still works")
        await b.until(lambda: b.received == [("a", [b"still works"])])
        await b.until(lambda: b.transport.refused_connections == STRANGERS + 10)
        for stranger in strangers:
            stranger.close()
