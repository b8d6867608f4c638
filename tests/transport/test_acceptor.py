"""Connections that a node cannot take at once wait without costing it anything."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from replication.transport.acceptor import Acceptor
from replication.transport.mechanism import NullMechanism
from replication.transport.stream import Stream
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
    """Nobody speaks here."""


@run
async def test_a_node_out_of_descriptors_asks_again_later_and_does_not_spin() -> None:
    mechanism = partial(NullMechanism, as_server=True)
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
