"""Connections that no good client makes, many at once, in one thread with plain sockets."""

from __future__ import annotations

import random
import selectors
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from cluster.config.addresses import Address
from tests.processes import hostile_links

UNREAD: Final = "deliveries that nobody reads"
ENDLESS: Final = "a body without end"
MAY_STAY: Final = frozenset({UNREAD, ENDLESS}) | hostile_links.MAY_STAY
"""Actions that end no connection: a socket that is not read, and a message that closes its channel."""

HEADER: Final = b"AMQP\x00\x00\x09\x01"


def short(text: bytes) -> bytes:
    return bytes((len(text),)) + text


def long(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(channel: int, class_: int, number: int, arguments: bytes = b"") -> bytes:
    return frame(1, channel, struct.pack(">HH", class_, number) + arguments)


START_OK: Final = method(0, 10, 11, long(b"") + short(b"PLAIN") + long(b"\0guest\0guest") + short(b"en_US"))
WRONG_PASSWORD: Final = START_OK.replace(b"\0guest\0guest", b"\0guest\0wrong")
TUNE_OK: Final = method(0, 10, 31, struct.pack(">HIH", 2047, 131_072, 0))
OPEN: Final = method(0, 10, 40, short(b"/") + short(b"") + b"\0")
OPENED: Final = HEADER + START_OK + TUNE_OK + OPEN
CHANNEL: Final = method(1, 20, 10, short(b""))


CHANNEL_OPENED: Final = method(1, 20, 11, long(b""))


def log_in(connection: socket.socket) -> None:
    """Open the connection and its channel 1: before that little may be sent."""
    connection.sendall(OPENED + CHANNEL)
    answers = b""
    while CHANNEL_OPENED not in answers:
        octets = connection.recv(65_536)
        assert octets, "the node closed the connection"
        answers += octets


CONSUME_OK: Final = struct.pack(">HH", 60, 21)
CONSUME: Final = 0
CONSUME_NO_ACK: Final = 2


def consume(queue: bytes, flags: int, tag: bytes = b"t") -> bytes:
    """basic.consume."""
    arguments = struct.pack(">H", 0) + short(queue) + short(tag) + bytes((flags,)) + long(b"")
    return method(1, 60, 20, arguments)


def publish(queue: bytes, body: bytes) -> bytes:
    """basic.publish of a persistent message to the default exchange, in one body frame."""
    delivery_mode = 1 << 12
    content = struct.pack(">HHQHB", 60, 0, len(body), delivery_mode, 2)
    return (
        method(1, 60, 40, struct.pack(">H", 0) + short(b"") + short(queue) + b"\0")
        + frame(2, 1, content)
        + frame(3, 1, body)
    )


def scripts(chance: random.Random, queue: bytes) -> Iterator[tuple[str, bytes]]:
    """(name, octets) that hostile connections send, without end."""
    oversized = struct.pack(">BHI", 3, 1, 0xFFFF_FFF0) + bytes(2000)
    kinds: tuple[tuple[str, Callable[[], bytes]], ...] = (
        ("garbage", lambda: chance.randbytes(chance.randrange(1, 4000))),
        ("silence", lambda: b""),
        ("half a header", lambda: HEADER[: chance.randrange(1, 8)]),
        ("another protocol", lambda: b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("half a handshake", lambda: OPENED[: chance.randrange(8, len(OPENED))]),
        ("a wrong password", lambda: HEADER + WRONG_PASSWORD),
        ("an oversized frame", lambda: OPENED + CHANNEL + oversized),
        ("an oversized frame at once", lambda: HEADER + oversized),
        ("a bad frame end", lambda: OPENED + CHANNEL[:-1] + b"\x00"),
        ("an unknown method", lambda: OPENED + CHANNEL + method(1, 99, 99)),
        ("garbage after opening", lambda: OPENED + CHANNEL + chance.randbytes(3000)),
        (ENDLESS, lambda: OPENED + CHANNEL + endless(queue)),
        (UNREAD, lambda: OPENED + CHANNEL + consume(queue, CONSUME_NO_ACK)),
        *hostile_links.scripts(chance, queue.decode()),
    )
    while True:
        for name, script in kinds:
            yield name, script()


def endless(queue: bytes) -> bytes:
    """A content header that promises more than any message may have."""
    start = method(1, 60, 40, struct.pack(">H", 0) + short(b"") + short(queue) + b"\0")
    return start + frame(2, 1, struct.pack(">HHQH", 60, 0, 1 << 60, 0)) + frame(3, 1, bytes(1000))


class Horde:
    """`size` hostile connections to one node, made one after the other and kept until the node ends them."""

    def __init__(self, address: Address, size: int, queue: str) -> None:
        self.made = 0
        self.open: Counter[str] = Counter()
        """Those that the node has not closed, by what they do."""

        self._address = address
        self._size = size
        self._scripts = scripts(random.Random(size), queue.encode())
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="horde", daemon=True)
        self._unread: list[socket.socket] = []
        self._failure: OSError | None = None

    def __enter__(self) -> Horde:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        selector = selectors.DefaultSelector()
        try:
            while not self._stopping.is_set():
                for _ in range(min(20, self._size - self.made)):
                    self._connect(selector)
                for key, _ in selector.select(timeout=0.02):
                    self._notice(selector, key)
        except OSError as error:
            self._failure = error
        for connection in [*self._unread, *(key.fileobj for key in selector.get_map().values())]:
            assert isinstance(connection, socket.socket)
            vanish(connection)
        selector.close()

    def _connect(self, selector: selectors.BaseSelector) -> None:
        name, script = next(self._scripts)
        connection = socket.socket()
        # A small window: what the node sends to those who do not read stays with the node.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(10.0)
        connection.connect(self._address)
        self.made += 1
        connection.sendall(script)
        connection.setblocking(False)
        if name in (UNREAD, hostile_links.UNREAD):
            self._unread.append(connection)
        else:
            selector.register(connection, selectors.EVENT_READ, name)
        self.open[name] += 1

    def _notice(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        assert isinstance(key.fileobj, socket.socket)
        if ended(key.fileobj):
            self.open[key.data] -= 1
            selector.unregister(key.fileobj)
            key.fileobj.close()


def vanish(connection: socket.socket) -> None:
    """Close with a reset, as a program that crashed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class Silence:
    """So many sockets to each of these addresses, which say nothing; another one for each that is closed."""

    def __init__(self, addresses: list[Address], each: int) -> None:
        self.closed = 0
        """Sockets that the nodes have closed."""

        self._wanted = Counter(dict.fromkeys(addresses, each))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="silence", daemon=True)

    def __enter__(self) -> Silence:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        selector = selectors.DefaultSelector()
        while not self._stopping.is_set():
            for address in list((+self._wanted).elements()):
                # The node at this address may not run.
                with suppress(OSError):
                    silent = socket.create_connection(address, timeout=1.0)
                    selector.register(silent, selectors.EVENT_READ, address)
                    self._wanted[address] -= 1
            for key, _ in selector.select(timeout=0.02):
                assert isinstance(key.fileobj, socket.socket)
                if ended(key.fileobj):
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    self._wanted[key.data] += 1
                    self.closed += 1
        for key in list(selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        selector.close()


def ended(connection: socket.socket) -> bool:
    """Whether there is nothing more to read, where there is something to read or an end."""
    try:
        return not connection.recv(65536)
    except ConnectionError:
        return True
