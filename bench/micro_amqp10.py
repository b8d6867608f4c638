"""How fast the codec of AMQP 1.0 is by itself, on one core.

    python -m bench.micro_amqp10

Prints, for each step, how many there are a second of processor time: the best of seven rounds. PYTHONPATH
chooses between the sources and compiled modules, as for the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Final

from node.wire.amqp10 import frames
from node.wire.amqp10.definitions import (
    Accepted,
    Disposition,
    Header,
    Properties,
    Role,
    SectionCode,
    Transfer,
)
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.frames import FrameParser, frame_buffers
from node.wire.amqp10.sections import header_of, scan_sections
from node.wire.amqp10.values import Described, ULong

COUNT: Final = 200
"""Frames in one read of a socket."""

TIMES: Final = 25
ROUNDS: Final = 7
MOST: Final = 65_536

MESSAGE: Final = b"".join(
    (
        Header(durable=True).encode(),
        Properties(message_id="abc", to="q").encode(),
        encode_amqp(Described(ULong(SectionCode.DATA), b"x" * 200)),
    )
)


def transfer(number: int) -> list[bytes | memoryview]:
    delivery = 1000 + number
    performative = Transfer(0, delivery, delivery.to_bytes(4, "big"), 0, settled=False)
    return frame_buffers(1, performative, [MESSAGE], MOST)


def disposition(number: int) -> list[bytes | memoryview]:
    return frame_buffers(
        1, Disposition(Role.RECEIVER, 1000 + number, settled=True, state=Accepted()), (), MOST
    )


def reading(make: Callable[[int], list[bytes | memoryview]]) -> Callable[[], None]:
    data = b"".join(part for number in range(COUNT) for part in make(number))

    def read() -> None:
        if len(FrameParser(MOST).receive(data)) != COUNT:
            raise RuntimeError("frames are missing")

    return read


def writing() -> None:
    for number in range(COUNT):
        transfer(number)


def scanning() -> None:
    for _ in range(COUNT):
        scan_sections(MESSAGE, 0, len(MESSAGE))


def reading_headers() -> None:
    for _ in range(COUNT):
        header_of(MESSAGE, scan_sections(MESSAGE, 0, len(MESSAGE)))


STEPS: Final[dict[str, Callable[[], None]]] = {
    "transfers read": reading(transfer),
    "transfers made and written": writing,
    "dispositions read": reading(disposition),
    "messages cut into sections": scanning,
    "messages cut, and headers read": reading_headers,
}


def rate(step: Callable[[], None]) -> float:
    """How many frames or messages a second the best round had."""
    shortest = float("inf")
    for _ in range(ROUNDS):
        started = process_time()
        for _ in range(TIMES):
            step()
        shortest = min(shortest, process_time() - started)
    return COUNT * TIMES / shortest


if __name__ == "__main__":
    print(f"{frames.__file__}; a message of {len(MESSAGE)} octets")
    for name, step in STEPS.items():
        print(f"{name:32} {rate(step):12,.0f}")
