"""Connections that a node cannot take at once wait without costing it anything."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from replication.transport.acceptor import STRANGERS, Acceptor
from replication.transport.stream import Stream
from replication.transport.zmtp import ClientMechanism, CurveKeys, ServerMechanism, ZmtpConnection
from tests.transport.harness import run


class Watched(Acceptor):
    """Counts how often it was told of a connection."""

    told = 0

    def _accept(self) -> None:
        self.told += 1
        super()._accept()

    @property
    def connections(self) -> int:
        return len(self._streams)


@contextmanager
def no_more_files() -> Iterator[None]:
    """The process has as many descriptors as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def untaken(_: Stream, __: list[bytes]) -> None:
    """No peer sends anything here."""


@run
async def test_a_node_out_of_descriptors_asks_again_later_and_does_not_spin() -> None:
    mechanism = partial(ServerMechanism, CurveKeys.generate(), {}.get)
    acceptor = Watched(asyncio.get_running_loop(), "127.0.0.1:0", mechanism, 1 << 20, untaken)
    host, _, port = acceptor.address.rpartition(":")
    with closing(acceptor), closing(socket.socket()) as peer:
        with no_more_files():
            peer.connect((host, int(port)))
            # Each turn of the loop would tell of the connection that waits.
            for _turn in range(50):
                await asyncio.sleep(0)
            assert acceptor.told == 1
        async with asyncio.timeout(10):
            while not acceptor.connections:
                await asyncio.sleep(0.01)
        assert acceptor.told == 2


@run
async def test_silent_sockets_without_end_keep_no_member_out() -> None:
    """A member that comes while they hold all places, and one whose handshake they come into."""
    keys, member = CurveKeys.generate(), CurveKeys.generate()
    names = {member.public: "a"}
    loop = asyncio.get_running_loop()
    acceptor = Watched(loop, "127.0.0.1:0", partial(ServerMechanism, keys, names.get), 1 << 20, untaken)
    host, _, port = acceptor.address.rpartition(":")
    with closing(acceptor), ExitStack() as held:
        for _ in range(STRANGERS * 2):
            held.enter_context(closing(socket.create_connection((host, int(port)))))
        async with asyncio.timeout(10):
            while acceptor.refused < STRANGERS:
                await asyncio.sleep(0)
        assert acceptor.connections == STRANGERS
        mechanism = ClientMechanism(member, keys.public)
        client = ZmtpConnection(mechanism, 1 << 20, 0.0)
        reader, writer = await asyncio.open_connection(host, int(port))
        while not client.ready:
            writer.writelines(map(bytes, client.output))
            client.output = []
            client.receive(memoryview(await asyncio.wait_for(reader.read(4096), 10)), 0.0)
            before = acceptor.refused
            if before == STRANGERS + 1 and any(one.connection.introduced for one in acceptor._streams):
                # As many again as there are places, between one word of the member and the next.
                for _ in range(STRANGERS):
                    held.enter_context(closing(socket.create_connection((host, int(port)))))
                async with asyncio.timeout(10):
                    while acceptor.refused < before + STRANGERS:
                        await asyncio.sleep(0)
        assert [one.connection.user for one in acceptor._streams if one.connection.ready] == ["a"]
        writer.close()
