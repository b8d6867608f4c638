"""The latency of a client beside clients whose permissions are slow regular expressions.

python -m bench.slow_patterns [--rounds 3]. Four clients ask as fast as the node lets them (bench.beside),
each time with another name that the node has to match. One pattern takes exponential time, and the node gives
it up. Another takes about half of the time that the node gives a pattern: for the name of a queue, where the
node refuses each request, and for a routing key, where the node takes each message. The last flood is of
links of AMQP 1.0 that a quick pattern refuses.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from itertools import count
from typing import Final

from bench.beside import compare
from bench.brokers import Address, BrokerError
from bench.quorate import Quorate
from bench.raw import RawClient, call, declaration, short
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.definitions import Attach, Begin, Detach, Open, Role, SaslInit, Source
from node.wire.amqp10.frames import MAX_MAX_FRAME_SIZE, FrameParser, ProtocolHeader, ProtocolId, frame_buffers

CHANNELS: Final = 300
LINKS: Final = 200
RECEIVED: Final = 8192
"""The octets that a client of AMQP 1.0 reads at once."""

CHANNEL_OPENED: Final = (20, 11)
CHANNEL_CLOSED: Final = (20, 40)
QOS_OK: Final = (60, 11)
BATCH: Final = 50
"""Publishes in front of a request, whose answer tells whether the node has taken them."""

TOPIC: Final = "amq.topic"

EXPONENTIAL: Final = r"^(a|aa)+$"
POLYNOMIAL: Final = r"a.*a.*a.*a.*z"
"""Is tried with every choice of four letters, and is not found."""

LETTERS: Final = 80
"""With so many letters the polynomial pattern takes about 5 of the 10 ms that a node gives a pattern."""

QUICK: Final = "^b"
"""Refuses the same requests at once: their cost without a slow pattern."""

USERS: Final = {
    "quick": (QUICK, ".*"),
    "exponential": (EXPONENTIAL, ".*"),
    "polynomial": (POLYNOMIAL, ".*"),
    "keys": (".*", POLYNOMIAL + "|~"),
}
"""The patterns for the queues that a user declares, and for the routing keys of a topic exchange."""


def names() -> Callable[[], str]:
    """Names that are all different."""
    numbers = count()
    return lambda: "a" * LETTERS + f"{next(numbers)}~"


def declare(address: Address, user: str) -> None:
    """Declare queues with many channels until the process is ended; the node refuses each of them."""
    name = names()
    numbers = range(1, CHANNELS + 1)
    anew = {number: call((20, 41), b"", number) + call((20, 10), short(""), number) for number in numbers}
    with RawClient(address, user) as client:
        client.open_channels(CHANNELS)
        client.send(b"".join(declaration(name(), "quorum", number) for number in numbers))
        while True:
            for _ in numbers:
                client.expect(CHANNEL_CLOSED)
            client.send(b"".join(anew[number] + declaration(name(), "quorum", number) for number in numbers))


def attach(address: Address, user: str) -> None:
    """Attach links of AMQP 1.0 until the process is ended; the node refuses each of them."""
    name, parser = names(), FrameParser(MAX_MAX_FRAME_SIZE)
    with socket.create_connection((address.host, address.port)) as connected:
        response = f"\0{user}\0{user}".encode()
        headers = [ProtocolHeader(one).encode() for one in (ProtocolId.SASL, ProtocolId.AMQP)]
        connected.sendall(headers[0] + written(SaslInit("PLAIN", response)))
        connected.sendall(
            headers[1]
            + written(Open("flood"))
            + written(Begin(next_outgoing_id=0, incoming_window=1000, outgoing_window=1000))
        )
        expect_frames(connected, parser, Begin, 1)
        while True:
            links = [Attach(name(), handle, Role.RECEIVER, source=Source(name())) for handle in range(LINKS)]
            detaches = [Detach(handle, True) for handle in range(LINKS)]
            connected.sendall(b"".join(map(written, (*links, *detaches))))
            expect_frames(connected, parser, Detach, LINKS)


def expect_frames(connected: socket.socket, parser: FrameParser, kind: type[Composite], count: int) -> None:
    """Read until so many performatives of the kind have come. Raises BrokerError."""
    while count > 0:
        if not (octets := connected.recv(RECEIVED)):
            raise BrokerError("the node has closed the connection")
        count -= sum(isinstance(getattr(one, "performative", None), kind) for one in parser.receive(octets))


def written(performative: Composite) -> bytes:
    return b"".join(frame_buffers(0, performative, max_frame_size=MAX_MAX_FRAME_SIZE))


def publish(address: Address, user: str) -> None:
    """Publish to a topic exchange until the process is ended, on a new channel after each refusal."""
    key = names()
    with RawClient(address, user) as client:
        while True:
            for _ in range(BATCH):
                client.publish(key(), b"x", exchange=TOPIC)
            client.send(call((60, 10), bytes(7), 1))
            try:
                client.expect(QOS_OK)
            except BrokerError:
                client.send(call((20, 41), b"", 1) + call((20, 10), short(""), 1))
                client.expect(CHANNEL_OPENED)


def prepare(cluster: Quorate, _: RawClient) -> None:
    """Make the users, each with the name as the password."""
    for user, (configure, keys) in USERS.items():
        cluster.put(f"users/{user}", {"password": user, "tags": ""})
        cluster.put(f"permissions/%2F/{user}", {"configure": configure, "write": ".*", "read": ".*"})
        cluster.put(f"topic-permissions/%2F/{user}", {"exchange": TOPIC, "write": keys, "read": ".*"})


def main() -> None:
    floods = {
        "a quick pattern for queues": (declare, "quick"),
        "a pattern that is given up": (declare, "exponential"),
        "a slow pattern for queues": (declare, "polynomial"),
        "a slow pattern for keys": (publish, "keys"),
        "refused links of AMQP 1.0": (attach, "quick"),
    }
    compare(__doc__, floods, prepare)


if __name__ == "__main__":
    main()
