"""TLS on a connection that began without it (AMQP 1.0, part 5, section 5.2), over real sockets."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import pytest
import uvloop

from cluster.config.certificates import Certificates
from cluster.config.tables import TlsSettings
from node.session.amqp091.protocol import amqp091
from node.session.amqp10.protocol import amqp10
from node.session.client_memory import ClientMemory
from node.session.gate import Gate, GateLimits
from node.session.listener import Listener
from node.wire.amqp091.codec import PROTOCOL_HEADER
from node.wire.amqp091.limits import ConnectionLimits as Amqp091Limits
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER, TLS_HEADER
from node.wire.amqp10.frames import Frame, FrameParser
from node.wire.amqp10.limits import ConnectionLimits
from tests.processes.certificates import Authority
from tests.session.attached import NodeBroker
from tests.wire.amqp10.performatives import LARGE, PLAIN, octets_of

HOST: Final = "127.0.0.1"
PAUSE_S: Final = 0.05

LOOPS = pytest.mark.parametrize(
    "loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)


class Log:
    """Keeps the events and their reasons."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def info(self, event: str, **fields: object) -> None:
        self.events.append((event, str(fields.get("reason", ""))))

    def warning(self, event: str, **fields: object) -> None:
        self.info(event, **fields)

    def error(self, event: str, error: BaseException | None = None, **fields: object) -> None:
        raise AssertionError(event) from error


class Place:
    """A listener with its sockets, in an event loop that ends its turns as a node does."""

    def __init__(self, directory: Path, handshake_timeout: float) -> None:
        self.log = Log()
        self.gate = Gate(GateLimits(failures=0))
        self.handshake_timeout = handshake_timeout
        self.authority = Authority(directory)
        self._directory = directory
        self.broker = NodeBroker()
        self._ticked = asyncio.Event()
        limits = ConnectionLimits(handshake_timeout=handshake_timeout, refusal_pause=PAUSE_S)
        port = cast(Any, self.broker)
        protocols = (
            amqp091(port, Amqp091Limits(handshake_timeout=handshake_timeout), time.monotonic),
            amqp10(port, limits, time.monotonic),
        )
        self.listener = Listener(
            protocols, handshake_timeout, self.gate, ClientMemory(1 << 30), self.log, time.monotonic,
            lambda: asyncio.get_running_loop().call_soon(self.listener.flush),
        )  # fmt: skip

    async def start(self, *, certified: bool) -> None:
        await self.listener.start(HOST, 0)
        if certified:
            server = self.authority.issue("server", "a node", addresses=(HOST,))
            settings = TlsSettings(
                certificate=server.certificate,
                key=server.key,
                ca=self.authority.certificate,
                verify="optional",
            )
            await self.listener.start_tls(HOST, 0, Certificates(settings))

    @property
    def port(self) -> int:
        server = self.listener._server
        assert server is not None
        return int(server.sockets[0].getsockname()[1])

    def received(self, octets: int) -> bool:
        """Whether the clients have sent so many octets."""
        return sum(one.received_bytes for one in self.listener.clients.values()) >= octets

    def context(self, user: str = "") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if user:
            pair = self.authority.issue(user, user)
            context.load_cert_chain(pair.certificate, pair.key)
        return context

    async def tick(self) -> None:
        """Run the timers of all sessions every 10 ms, as the timer of a node does."""
        while True:
            self.listener.tick()
            self._ticked.set()
            await asyncio.sleep(0.01)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait for a state of the listener, which is looked at after each tick."""
        while not reached():
            self._ticked.clear()
            await self._ticked.wait()


class Peer:
    """A client's socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connected(cls, place: Place) -> Peer:
        return cls(*await asyncio.open_connection(HOST, place.port))

    def send(self, *sent: Any) -> None:
        self._writer.write(octets_of(*sent))

    async def octets(self, count: int) -> bytes:
        return await self._reader.readexactly(count)

    async def rest(self) -> bytes:
        """All that comes before the node closes the socket."""
        return await self._reader.read()

    async def frame(self) -> Any:
        size = await self.octets(4)
        whole = size + await self.octets(int.from_bytes(size) - 4)
        (found,) = FrameParser(LARGE).receive(whole)
        assert isinstance(found, Frame)
        return found.performative

    async def turn_to_tls(self, context: ssl.SSLContext) -> None:
        await self._writer.start_tls(context, server_hostname=HOST)

    def close(self) -> None:
        self._writer.close()


Scenario = Callable[[Place], Coroutine[Any, Any, None]]


def play(
    scenario: Scenario,
    directory: Path,
    loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
    *,
    certified: bool = True,
    handshake_timeout: float = 20.0,
) -> Place:
    """Play the scenario on a listener, and see that the gate counts no socket when all are closed."""

    async def played() -> Place:
        place = Place(directory, handshake_timeout)
        await place.start(certified=certified)
        ticking = asyncio.create_task(place.tick())
        try:
            async with asyncio.timeout(30):
                await scenario(place)
                await place.until(lambda: not place.gate.sockets)
        finally:
            ticking.cancel()
            place.listener.stop()
        assert (place.gate.strangers, len(place.listener.clients)) == (0, 0)
        return place

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(played())


@pytest.mark.requirement("B1.2", "B2.3")
@pytest.mark.sentence("1.0/5.2-1")
@LOOPS
def test_the_header_is_answered_with_itself_and_all_else_goes_through_tls(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def scenario(place: Place) -> None:
        peer = await Peer.connected(place)
        peer.send(TLS_HEADER)
        assert await peer.octets(8) == TLS_HEADER
        await peer.turn_to_tls(place.context("alice"))
        peer.send(SASL_HEADER)
        assert await peer.octets(8) == SASL_HEADER
        assert await peer.frame() == d.SaslMechanisms(("PLAIN", "EXTERNAL"))
        peer.send(d.SaslInit("EXTERNAL"))
        assert (await peer.frame()).code == d.SaslCode.OK
        peer.send(AMQP_HEADER, d.Open("c"))
        assert await peer.octets(8) == AMQP_HEADER
        assert isinstance(await peer.frame(), d.Open)
        (client,) = place.listener.clients.values()
        assert client.encryption is not None and client.certified_name == "alice"
        assert (place.gate.sockets, place.gate.strangers, place.listener.accepted) == (1, 0, 1)
        peer.send(d.Close())
        assert await peer.frame() == d.Close()
        assert await peer.rest() == b""

    assert play(scenario, tmp_path, loop).log.events == []


@pytest.mark.requirement("B1.2")
def test_a_client_without_a_certificate_logs_in_by_its_password(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        peer = await Peer.connected(place)
        for octet in TLS_HEADER:
            peer.send(bytes((octet,)))
        assert await peer.octets(8) == TLS_HEADER
        await peer.turn_to_tls(place.context())
        peer.send(SASL_HEADER, PLAIN)
        assert await peer.octets(8) == SASL_HEADER
        assert await peer.frame() == d.SaslMechanisms(("PLAIN",))
        assert (await peer.frame()).code == d.SaslCode.OK
        peer.close()

    play(scenario, tmp_path)


@pytest.mark.requirement("B1.2")
def test_the_header_comes_in_pieces(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        for cut in range(1, 8):
            peer = await Peer.connected(place)
            peer.send(TLS_HEADER[:cut])
            await place.until(partial(place.received, cut))
            peer.send(TLS_HEADER[cut:])
            assert await peer.octets(8) == TLS_HEADER
            await peer.turn_to_tls(place.context())
            peer.close()
            await place.until(lambda: not place.gate.sockets)

    play(scenario, tmp_path)


@pytest.mark.requirement("B1.2")
@pytest.mark.parametrize(
    "octets",
    [SASL_HEADER, SASL_HEADER + octets_of(PLAIN), b"\x16\x03\x01", b"\0"],
    ids=["header", "login", "handshake", "octet"],
)
def test_octets_in_front_of_the_handshake_are_refused(tmp_path: Path, octets: bytes) -> None:
    """An attacker between the client and the node could add them to what TLS protects."""

    async def scenario(place: Place) -> None:
        peer = await Peer.connected(place)
        peer.send(TLS_HEADER + octets)
        assert await peer.rest() == SASL_HEADER
        assert [event for event, _ in place.log.events] == ["negotiation_failed"]

    play(scenario, tmp_path)


@pytest.mark.requirement("B1.2")
def test_octets_in_front_of_the_handshake_that_come_later_are_no_handshake(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        peer = await Peer.connected(place)
        peer.send(TLS_HEADER)
        assert await peer.octets(8) == TLS_HEADER
        peer.send(SASL_HEADER, PLAIN)
        answer = await peer.rest()
        assert SASL_HEADER not in answer
        assert [event for event, _ in place.log.events] == ["tls_handshake_failed"]

    play(scenario, tmp_path)


@pytest.mark.requirement("B1.2")
def test_a_node_without_a_certificate_answers_with_the_header_that_it_takes(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        peer = await Peer.connected(place)
        peer.send(TLS_HEADER)
        assert await peer.rest() == SASL_HEADER

    play(scenario, tmp_path, certified=False)


@pytest.mark.requirement("B1.2")
@pytest.mark.parametrize(
    "header", [b"AMQP\x02\x01\x00\x01", b"AMQP\x02\x01\x01\x00", b"AMQP\x02\x00\x09\x01"]
)
def test_another_version_is_answered_with_a_header_that_the_node_takes(tmp_path: Path, header: bytes) -> None:
    async def scenario(place: Place) -> None:
        peer = await Peer.connected(place)
        peer.send(header)
        assert await peer.rest() == PROTOCOL_HEADER

    play(scenario, tmp_path)


@pytest.mark.requirement("B1.2")
def test_tls_goes_into_no_other_tls(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        peer = await Peer.connected(place)
        peer.send(TLS_HEADER)
        assert await peer.octets(8) == TLS_HEADER
        await peer.turn_to_tls(place.context())
        peer.send(TLS_HEADER)
        assert await peer.rest() == SASL_HEADER

    play(scenario, tmp_path)


@pytest.mark.requirement("B1.2")
@pytest.mark.parametrize("begun", [TLS_HEADER[:6], TLS_HEADER], ids=["header", "handshake"])
def test_a_client_that_goes_no_further_is_closed_in_time(tmp_path: Path, begun: bytes) -> None:
    async def scenario(place: Place) -> None:
        began = time.monotonic()
        peer = await Peer.connected(place)
        peer.send(begun)
        await peer.rest()
        assert place.handshake_timeout <= time.monotonic() - began < 10

    play(scenario, tmp_path, handshake_timeout=0.3)


@pytest.mark.requirement("B1.2")
def test_a_client_that_leaves_before_the_handshake_has_done_nothing_wrong(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        peer = await Peer.connected(place)
        peer.send(TLS_HEADER)
        assert await peer.octets(8) == TLS_HEADER
        peer.close()

    assert play(scenario, tmp_path).log.events == []


def test_closed_ports_begin_no_handshake(tmp_path: Path) -> None:
    async def scenario(place: Place) -> None:
        peer = await Peer.connected(place)
        await place.until(lambda: bool(place.listener.clients))
        place.listener.close_ports()
        peer.send(TLS_HEADER)
        assert await peer.rest() == SASL_HEADER

    play(scenario, tmp_path)
