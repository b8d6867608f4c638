"""`python -m bench.transport`: the protocol between nodes alone, ours and libzmq's, in turn.

Two processes on loopback: one asks at a steady rate, the other sends each message back. Each has a connection
of its own for what it sends, as nodes have, encrypted with CURVE; ours agree on AES-GCM for what follows the
handshake, as nodes do. Both write at the end of each turn of the event loop what the turn had to send, as one
message of several frames, and read what has come on the event loop's thread. There are no envelopes and no
windows. A round measures both sides for each size and rate, one after the other, and the next one begins with
the other side. Printed are the medians over the rounds of each round's p50 and p99, and what ours is of
libzmq's.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from statistics import median
from typing import Any, Final, Protocol

import uvloop
import zmq

from replication.transport import CurveKeys
from replication.transport.acceptor import Acceptor
from replication.transport.dialer import Dialer
from replication.transport.stream import Stream
from replication.transport.zmtp import ClientMechanism, Mechanism, ServerMechanism

SIZES: Final = (300, 4096)
RATES: Final = (500, 5000)
"""Messages a second."""

WARM_UP_S: Final = 0.5
LAST_ANSWERS_S: Final = 1.0
LIMIT_BYTES: Final = 1 << 20
TICK_S: Final = 0.5

_STAMP: Final = struct.Struct(">Q")

Arrived = Callable[[list[bytes]], None]
"""Takes the frames of a message."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Where two processes listen, and their keys: the asking one's first."""

    addresses: tuple[str, str]
    keys: tuple[CurveKeys, CurveKeys]


class Side(Protocol):
    """One process's end. `up` is done when both directions can be used from here."""

    up: asyncio.Event

    def send(self, frames: Sequence[bytes]) -> None: ...

    def close(self) -> None: ...


class Zmtp:
    """`replication.transport.zmtp` on the event loop's own sockets."""

    def __init__(self, ends: Ends, here: int, arrived: Arrived) -> None:
        loop = asyncio.get_running_loop()
        own, other = ends.keys[here], ends.keys[1 - here]
        self.up = asyncio.Event()
        self._loop = loop
        self._stream: Stream | None = None
        admitted = {other.public: "other"}

        def serving() -> Mechanism:
            return ServerMechanism(own, admitted.get)

        def dialing() -> Mechanism:
            return ClientMechanism(own, other.public)

        self._acceptor = Acceptor(
            loop, ends.addresses[here], serving, LIMIT_BYTES, lambda _, frames: arrived([*map(bytes, frames)])
        )
        self._dialer = Dialer(
            loop, ends.addresses[1 - here], dialing, LIMIT_BYTES, self._ready, lambda *_: None, lambda: None
        )
        self._tick()

    def _ready(self, stream: Stream) -> None:
        self._stream = stream
        self.up.set()

    def _tick(self) -> None:
        now = self._loop.time()
        self._acceptor.tick(now)
        self._dialer.tick(now)
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def send(self, frames: Sequence[bytes]) -> None:
        assert self._stream is not None
        self._stream.send(frames)

    def close(self) -> None:
        self._timer.cancel()
        self._dialer.close()
        self._acceptor.close()


class Libzmq:
    """pyzmq: sockets of libzmq, whose thread does the writing, read when their descriptor signals."""

    def __init__(self, ends: Ends, here: int, arrived: Arrived) -> None:
        self.up = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._arrived = arrived
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        own, other = ends.keys[here], ends.keys[1 - here]
        self._pull = self._context.socket(zmq.PULL)
        self._pull.curve_server = True
        self._pull.curve_secretkey = own.secret
        self._pull.bind(f"tcp://{ends.addresses[here]}")
        self._push = self._context.socket(zmq.PUSH)
        self._push.curve_secretkey, self._push.curve_publickey = own.secret, own.public
        self._push.curve_serverkey = other.public
        self._push.connect(f"tcp://{ends.addresses[1 - here]}")
        for one in (self._pull, self._push):
            one.linger = 0
        self._fd = int(self._pull.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self._readable)
        self._loop.call_soon(self._readable)
        self.up.set()

    def _readable(self) -> None:
        # The descriptor signals only what arrives after the last look at the socket.
        while not self._pull.closed:
            try:
                frames = self._pull.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            self._arrived(frames)

    def send(self, frames: Sequence[bytes]) -> None:
        self._push.send_multipart(frames)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        self._context.destroy(linger=0)


SIDES: Final[dict[str, Callable[[Ends, int, Arrived], Side]]] = {"ours": Zmtp, "libzmq": Libzmq}


class Turns:
    """Sends at the end of a turn of the event loop what the turn gave it."""

    def __init__(self) -> None:
        self.side: Side | None = None
        self._waiting: list[bytes] = []

    def give(self, frames: Sequence[bytes]) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._send)
        self._waiting += frames

    def _send(self) -> None:
        frames, self._waiting = self._waiting, []
        assert self.side is not None
        self.side.send(frames)


async def _answer(kind: str, ends: Ends, pipe: Pipe) -> None:
    """Send back what comes until the other end of the pipe says that it is over."""
    turns = Turns()
    turns.side = SIDES[kind](ends, 1, turns.give)
    await turns.side.up.wait()
    pipe.send("up")
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pipe.fileno(), over.set)
    await over.wait()
    loop.remove_reader(pipe.fileno())
    turns.side.close()


def answering(kind: str, ends: Ends, pipe: Pipe) -> None:
    """The program of the process that answers."""
    uvloop.run(_answer(kind, ends, pipe))


class Asking:
    """Sends messages of one size at one rate, and notes how long each was on its way and back."""

    def __init__(self, turns: Turns, size: int, rate: int) -> None:
        self.trips: list[int] = []
        """Nanoseconds."""
        self.sent = 0
        self._turns = turns
        self._rest = bytes(size - _STAMP.size)
        self._rate = rate
        self._last: asyncio.Event | None = None
        """Set by the last answer, once everything has been sent."""

    def arrived(self, frames: Sequence[bytes]) -> None:
        now = time.perf_counter_ns()
        self.trips += [now - _STAMP.unpack_from(frame)[0] for frame in frames]
        if self._last is not None and len(self.trips) >= self.sent:
            self._last.set()

    async def run(self, seconds: float) -> None:
        """Ask for so many seconds, and wait for the last answers. Answers of the first moments do
        not count.
        """
        loop = asyncio.get_running_loop()
        for measured, length in ((False, WARM_UP_S), (True, seconds)):
            began, asked = loop.time(), 0
            while asked < length * self._rate:
                due = min(int((loop.time() - began) * self._rate) + 1, int(length * self._rate))
                stamp = _STAMP.pack(time.perf_counter_ns())
                if due > asked:
                    self._turns.give([stamp + self._rest] * (due - asked))
                    self.sent += due - asked
                    asked = due
                await asyncio.sleep(max(0.0, began + asked / self._rate - loop.time()))
            await self._answered()
            if not measured:
                self.trips.clear()
                self.sent = 0

    async def _answered(self) -> None:
        """Wait for the last answer. Raises RuntimeError when it does not come in `LAST_ANSWERS_S`."""
        self._last = asyncio.Event()
        if len(self.trips) < self.sent:
            try:
                await asyncio.wait_for(self._last.wait(), LAST_ANSWERS_S)
            except TimeoutError:
                left = self.sent - len(self.trips)
                raise RuntimeError(f"{left} of {self.sent} messages did not come back") from None
        self._last = None


async def _ask(kind: str, ends: Ends, pipe: Pipe, size: int, rate: int, seconds: float) -> list[int]:
    turns = Turns()
    asking = Asking(turns, size, rate)
    turns.side = SIDES[kind](ends, 0, asking.arrived)
    try:
        await turns.side.up.wait()
        await asyncio.to_thread(pipe.recv)
        await asking.run(seconds)
    finally:
        pipe.send("over")
        turns.side.close()
    return asking.trips


def _free_addresses() -> tuple[str, str]:
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        first, second = (f"127.0.0.1:{probe.getsockname()[1]}" for probe in (one, other))
    return first, second


def measured(kind: str, size: int, rate: int, seconds: float) -> tuple[float, float]:
    """p50 and p99 of the round trips, in microseconds."""
    ends = Ends(_free_addresses(), (CurveKeys.generate(), CurveKeys.generate()))
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=answering, args=(kind, ends, there))
    process.start()
    try:
        trips: Any = sorted(uvloop.run(_ask(kind, ends, here, size, rate, seconds)))
    finally:
        process.join(5.0)
        process.kill()
    return trips[len(trips) // 2] / 1000, trips[len(trips) * 99 // 100] / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    found: dict[tuple[int, int, str], list[tuple[float, float]]] = {}
    for number in range(arguments.rounds):
        kinds = list(SIDES)[:: -1 if number % 2 else 1]
        for size in SIZES:
            for rate in RATES:
                for kind in kinds:
                    one = measured(kind, size, rate, arguments.seconds)
                    found.setdefault((size, rate, kind), []).append(one)
    print(f"round trips in µs, medians of {arguments.rounds} rounds of {arguments.seconds:g} s")
    print("| octets | messages a second | | ours | libzmq | ours / libzmq |\n|---:|---:|---|---:|---:|---:|")
    for size in SIZES:
        for rate in RATES:
            for place, name in enumerate(("p50", "p99")):
                ours, theirs = (median(one[place] for one in found[size, rate, kind]) for kind in SIDES)
                print(f"| {size} | {rate} | {name} | {ours:.0f} | {theirs:.0f} | {ours / theirs:.2f} |")


if __name__ == "__main__":
    main()
