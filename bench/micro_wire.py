"""How fast the 0-9-1 wire code is by itself, on one core.

    python -m bench.micro_wire [--seconds 1.0]

Prints messages a second: identical publishes of 256 octets parsed, publishes of varied sizes parsed,
deliveries of 256 octets encoded; the input comes in pieces of 64 KiB as a socket would give it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import islice
from time import perf_counter

from node.runs import Run
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import PROTOCOL_HEADER, encode_frame, encode_method
from node.wire.amqp091.connection import Connection
from node.wire.amqp091.effects import Publish
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.properties import HEADER_FIXED

PIECE = 65_536
MESSAGES = 20_000
PERSISTENT = b"\x10\x00\x02"


def connection() -> Connection:
    """A connection with channel 1 open and in confirm mode."""
    one = Connection(ConnectionLimits(), 0.0)
    one.receive(PROTOCOL_HEADER + encode_method(0, m.ConnectionStartOk()), 0.0)
    one.authenticated("bench")
    one.receive(encode_method(0, m.ConnectionTuneOk(0, 0, 0)) + encode_method(0, m.ConnectionOpen()), 0.0)
    one.opened()
    one.receive(encode_method(1, m.ChannelOpen()) + encode_method(1, m.ConfirmSelect()), 0.0)
    one.take_output()
    return one


def message(body: bytes) -> bytes:
    header = (m.BasicPublish.CLASS_ID << 80 | len(body)).to_bytes(HEADER_FIXED, "big") + PERSISTENT
    return (
        encode_method(1, m.BasicPublish("", "bench"))
        + encode_frame(m.FRAME_HEADER, 1, header)
        + encode_frame(m.FRAME_BODY, 1, body)
    )


def pieces(data: bytes) -> list[bytes]:
    return [data[at : at + PIECE] for at in range(0, len(data), PIECE)]


def best(seconds: float, count: int, turn: Callable[[], None]) -> float:
    """Messages a second in the best of the turns, of `count` messages each, that fit into `seconds`."""
    shortest, end = float("inf"), perf_counter() + seconds
    while perf_counter() < end:
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

    return best(seconds, MESSAGES, turn)


def varied_bodies() -> Iterator[bytes]:
    size = 1
    while True:
        size = size * 48_271 % 2_147_483_647
        yield b"v" * (size % 512 + 1)


def deliveries(seconds: float, *, publisher_channel: int) -> float:
    """Runs of 200, one take_output and one acknowledgement of 50 in a turn, as a consumer would have it."""
    publisher = connection()
    effect = publisher.receive(message(b"x" * 256) * 200, 0.0)[0]
    assert isinstance(effect, Publish)
    run = effect.run
    moved = Run(
        run.exchange, run.routing_key, publisher_channel, run.persistent, run.count,
        run.skip, run.stride, run.lengths, run.largest_frame, run.raw,
    )  # fmt: skip
    if publisher_channel != 1:
        raw = run.raw
        at = encode_method(1, m.BasicPublish("", "bench")).__len__()
        assert bytes(raw[at + 1 : at + 3]) == b"\0\1"
    one = connection()
    one.receive(encode_method(1, m.BasicQos(0, 1000)) + encode_method(1, m.BasicConsume("bench")), 0.0)
    one.consume_ok(1, "c", 1)
    delivered = 0

    def turn() -> None:
        nonlocal delivered
        for _ in range(MESSAGES // run.count):
            one.deliver(1, moved, delivered, False)
            one.take_output()
            for tag in range(delivered + 50, delivered + run.count + 1, 50):
                one.receive(encode_method(1, m.BasicAck(tag, multiple=True)), 0.0)
            delivered += run.count

    return best(seconds, MESSAGES, turn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure")
    seconds = parser.parse_args().seconds
    varied = b"".join(message(body) for body in islice(varied_bodies(), MESSAGES))
    print(
        f"publishes parsed, identical 256 octets: {parse(seconds, message(b'x' * 256) * MESSAGES):12,.0f}/s"
    )
    print(f"publishes parsed, 1 to 512 octets:      {parse(seconds, varied):12,.0f}/s")
    print(f"deliveries encoded, 256 octets:         {deliveries(seconds, publisher_channel=1):12,.0f}/s")


if __name__ == "__main__":
    main()
