"""How fast the machine of AMQP 1.0 is by itself, on one core.

    python -m bench.micro_links [--seconds 1.0]

Prints messages a second of processor time: transfers taken and confirmed, which come in pieces of 64 KiB as a
socket would give them, and deliveries sent and settled. PYTHONPATH chooses between the sources and compiled
modules.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from time import process_time
from typing import Final

from bench.micro_wire import MESSAGES, pieces, varied_bodies
from node.message.run import Run
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER, Connection
from node.wire.amqp10.definitions import (
    Accepted,
    Attach,
    Begin,
    Disposition,
    Flow,
    Header,
    Open,
    Properties,
    Role,
    SaslInit,
    SectionCode,
    Source,
    Target,
    Transfer,
)
from node.wire.amqp10.effects import FindTarget, PublishEffect, StartConsumer
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.frames import frame_buffers
from node.wire.amqp10.incoming import ACCEPTED
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.values import Described, ULong

MOST: Final = 65_536
ENDLESS: Final = 0x7FFF_FFFF
SETTLED: Final = 1_000_000
"""Deliveries of one measurement at most: their dispositions are made before."""

TOGETHER: Final = 200
"""Messages in one delivery of the broker."""


def best(seconds: float, count: int, turn: Callable[[], None], turns: int = 1_000_000) -> float:
    """Messages a second of processor time in the best turn, of `count` messages each."""
    shortest, end = float("inf"), process_time() + seconds
    for _ in range(turns):
        if process_time() > end:
            break
        start = process_time()
        turn()
        shortest = min(shortest, process_time() - start)
    return count / shortest


def frame(
    performative: Attach | Begin | Disposition | Flow | Open | SaslInit | Transfer, body: bytes = b""
) -> bytes:
    return b"".join(frame_buffers(0, performative, (body,) if body else (), MOST))


def connection(*links: Attach) -> Connection:
    """A connection with a session and these links, whose windows have no end."""
    limits = ConnectionLimits(
        incoming_window=ENDLESS, link_credit=ENDLESS, unconfirmed=ENDLESS, delivery_window=4 * TOGETHER
    )
    one = Connection(limits, 0.0)
    one.receive(SASL_HEADER + frame(SaslInit("PLAIN", b"\0a\0b")), 0.0)
    one.authenticated("bench")
    one.receive(AMQP_HEADER + frame(Open("bench", max_frame_size=MOST)), 0.0)
    one.opened()
    one.receive(frame(Begin(0, ENDLESS, ENDLESS)), 0.0)
    for link in links:
        for effect in one.receive(frame(link), 0.0):
            if isinstance(effect, FindTarget):
                effect.link.routing_key = "bench"
                one.sessions.accept(effect.link)
            elif isinstance(effect, StartConsumer):
                one.sessions.consuming(effect.link, 1, returnable=True)
    one.take_output()
    return one


def message(body: bytes, number: int | None = None) -> bytes:
    """A message; one with a number has properties that no other has."""
    parts = [Header(durable=True).encode()]
    if number is not None:
        parts.append(Properties(message_id=f"{number:032x}", content_type="text/plain").encode())
    return b"".join((*parts, encode_amqp(Described(ULong(SectionCode.DATA), body))))


def transfers(messages: Iterable[bytes], first: int = 0) -> bytes:
    return b"".join(
        frame(Transfer(0, number, number.to_bytes(4, "big"), 0, settled=False), body)
        for number, body in enumerate(messages, first)
    )


def taking(seconds: float, messages: list[bytes]) -> float:
    """Turns of all messages, each confirmed in the turn that publishes the message."""
    data = transfers(messages, 1000)
    cut = pieces(data)

    def turn() -> None:
        one = connection(
            Attach("in", 0, Role.SENDER, target=Target("/queues/bench"), initial_delivery_count=0)
        )
        for piece in cut:
            for effect in one.receive(piece, 0.0):
                if isinstance(effect, PublishEffect):
                    last = effect.first_tag + effect.run.count - 1
                    one.sessions.decided(effect.session, effect.first_tag, last, ACCEPTED)
            one.take_output()
        if one.sessions.numbered(1) is None:
            raise RuntimeError("the session has ended")

    return best(seconds, len(messages), turn)


def published(messages: list[bytes]) -> Run:
    one = connection(Attach("in", 0, Role.SENDER, target=Target("/queues/bench"), initial_delivery_count=0))
    effect = next(
        one for one in one.receive(transfers(messages, 1000), 0.0) if isinstance(one, PublishEffect)
    )
    return effect.run


def sending(seconds: float, run: Run, together: int = 50) -> float:
    """Turns of deliveries of one run, one take_output for each, and the settlement of all in one piece."""
    one = connection(Attach("out", 0, Role.RECEIVER, source=Source("/queues/bench")))
    one.receive(frame(Flow(0, ENDLESS, 0, ENDLESS, 0, 0, ENDLESS)), 0.0)
    sent = 0

    def dispositions(first: int) -> bytes:
        return b"".join(
            frame(Disposition(Role.RECEIVER, at, at + together - 1, True, Accepted()))
            for at in range(first, first + run.count, together)
        )

    due = [dispositions(turn * run.count) for turn in reversed(range(SETTLED // run.count))]

    def turn() -> None:
        nonlocal sent
        for _ in range(MESSAGES // run.count):
            one.sessions.deliver(1, run, range(sent, sent + run.count), False, 1)
            one.take_output()
            one.receive(due.pop(), 0.0)
            sent += run.count

    return best(seconds, MESSAGES, turn, SETTLED // MESSAGES)


def figures(seconds: float) -> Iterator[tuple[str, float]]:
    alike = [message(b"x" * 256)] * MESSAGES
    yield "transfers taken, identical 256 octets", taking(seconds, alike)
    yield (
        "transfers taken, 1 to 512 octets",
        taking(seconds, list(map(message, islice(varied_bodies(), MESSAGES)))),
    )
    numbered = [message(b"x" * 256, number) for number in range(MESSAGES)]
    yield "transfers taken, properties all different", taking(seconds, numbered)
    run = published(alike[:TOGETHER])
    yield "deliveries of 256 octets, settled by 50", sending(seconds, run)
    yield "deliveries settled one by one", sending(seconds, run, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure")
    for name, rate in figures(parser.parse_args().seconds):
        print(f"{name:44} {rate:12,.0f}/s")


if __name__ == "__main__":
    main()
