"""How fast the 0-9-1 wire code is by itself, on one core.

    python -m bench.micro_wire [--seconds 1.0]

Prints messages a second: publishes parsed, which come in pieces of 64 KiB as a socket would give
them, and deliveries encoded and acknowledged.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import islice
from time import perf_counter

from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import PROTOCOL_HEADER, encode_frame, encode_method
from node.wire.amqp091.connection import Connection
from node.wire.amqp091.effects import PublishEffect
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.properties import HEADER_FIXED

PIECE = 65_536
MESSAGES = 20_000
ACKNOWLEDGED = 1_000_000
"""Deliveries of one measurement at most: their acknowledgements are made before."""

PERSISTENT = b"\x10\x00\x02"


def connection(channel: int = 1) -> Connection:
    """A connection with the channel open and in confirm mode."""
    one = Connection(ConnectionLimits(), 0.0)
    one.receive(PROTOCOL_HEADER + encode_method(0, m.ConnectionStartOk()), 0.0)
    one.authenticated("bench")
    one.receive(encode_method(0, m.ConnectionTuneOk(0, 0, 0)) + encode_method(0, m.ConnectionOpen()), 0.0)
    one.opened()
    one.receive(encode_method(channel, m.ChannelOpen()) + encode_method(channel, m.ConfirmSelect()), 0.0)
    one.take_output()
    return one


def message(body: bytes, channel: int = 1) -> bytes:
    header = (m.BasicPublish.CLASS_ID << 80 | len(body)).to_bytes(HEADER_FIXED, "big") + PERSISTENT
    return (
        encode_method(channel, m.BasicPublish("", "bench"))
        + encode_frame(m.FRAME_HEADER, channel, header)
        + encode_frame(m.FRAME_BODY, channel, body)
    )


def pieces(data: bytes) -> list[bytes]:
    return [data[at : at + PIECE] for at in range(0, len(data), PIECE)]


def best(seconds: float, count: int, turn: Callable[[], None], turns: int = 1_000_000) -> float:
    """Messages a second in the best turn, of `count` messages each, of as many as fit into `seconds`."""
    shortest, end = float("inf"), perf_counter() + seconds
    for _ in range(turns):
        if perf_counter() > end:
            break
        start = perf_counter()
        turn()
        shortest = min(shortest, perf_counter() - start)
    return count / shortest


def parse(seconds: float, data: bytes) -> float:
    one = connection()
    cut = pieces(data)

    def turn() -> None:
        for piece in cut:
            one.receive(piece, 0.0)
            one.begin_turn(1)

    return best(seconds, MESSAGES, turn)


def varied_bodies() -> Iterator[bytes]:
    size = 1
    while True:
        size = size * 48_271 % 2_147_483_647
        yield b"v" * (size % 512 + 1)


def deliveries(seconds: float, *, publisher_channel: int = 1, ack_every: int = 50) -> float:
    """Turns of 200 deliveries, one take_output, and their acknowledgement in one piece."""
    publisher = connection(publisher_channel)
    effect = publisher.receive(message(b"x" * 256, publisher_channel) * 200, 0.0)[0]
    assert isinstance(effect, PublishEffect)
    run = effect.run
    one = connection()
    one.receive(encode_method(1, m.BasicQos(0, 1000)) + encode_method(1, m.BasicConsume("bench")), 0.0)
    one.consume_ok(1, "c", 1)
    delivered = 0

    def turn() -> None:
        nonlocal delivered
        for _ in range(MESSAGES // run.count):
            one.deliver(1, run, range(delivered, delivered + run.count), False, 1)
            one.take_output()
            one.begin_turn(1)
            one.receive(pieces_of_acks.pop(), 0.0)
            delivered += run.count

    def acks(first: int) -> bytes:
        tags = range(first + ack_every - 1, first + run.count, ack_every)
        return b"".join(encode_method(1, m.BasicAck(tag, ack_every > 1)) for tag in tags)

    turns = ACKNOWLEDGED // run.count
    pieces_of_acks = [acks(first * run.count + 1) for first in reversed(range(turns))]
    return best(seconds, MESSAGES, turn, ACKNOWLEDGED // MESSAGES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure")
    seconds = parser.parse_args().seconds
    varied = b"".join(message(body) for body in islice(varied_bodies(), MESSAGES))
    print(
        f"publishes parsed, identical 256 octets: {parse(seconds, message(b'x' * 256) * MESSAGES):12,.0f}/s"
    )
    print(f"publishes parsed, 1 to 512 octets:      {parse(seconds, varied):12,.0f}/s")
    print(f"deliveries of 256 octets, acked by 50:  {deliveries(seconds):12,.0f}/s")
    print(f"  from a publisher's other channel:     {deliveries(seconds, publisher_channel=2):12,.0f}/s")
    print(f"  acked one by one:                     {deliveries(seconds, ack_every=1):12,.0f}/s")


if __name__ == "__main__":
    main()
