"""Peers in processes of their own: killed, and stopped without ending."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replication.transport import CurveKeys
from tests.transport.harness import SMALL, Endpoint, run

KEYS = CurveKeys.generate()
"""Of the process."""

ROOT = Path(__file__).resolve().parents[2]

_PEER = """
import asyncio, sys
from replication.transport import CurveKeys, PeerTransport, TransportConfig

async def main(name, secret, other, address, key):
    transport = PeerTransport(
        TransportConfig(name, "test", "127.0.0.1:0", CurveKeys.from_secret(secret)), 1,
        on_message=lambda peer, parts: transport.send(peer, [b"echo", parts[0][:8]]) and transport.flush(),
        on_up=lambda peer: transport.send(peer, [b"connected"]) and transport.flush(),
        on_down=lambda peer: None, on_gap=lambda peer: None,
    )
    transport.start(asyncio.get_running_loop())
    transport.add_peer(other, address, key.encode())
    print(transport.address, flush=True)
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


@contextmanager
def peer_process(name: str, other: Endpoint) -> Iterator[tuple[int, str]]:
    """A process with a transport that echoes the start of each message; its process id and address."""
    known = [other.name, other.transport.address, other.keys.public.decode()]
    command = [sys.executable, "-c", _PEER, name, KEYS.secret.decode(), *known]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        try:
            yield child.pid, child.stdout.readline().strip()
        finally:
            child.kill()


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@run
async def test_a_killed_peer_is_seen_at_once() -> None:
    a = Endpoint("a")
    with peer_process("b", a) as (pid, address):
        a.transport.add_peer("b", address, KEYS.public)
        await a.until_event("up", "b")
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        await a.until_event("down", "b")
        # Milliseconds when the machine is idle; far below any heartbeat even when it is not.
        assert time.monotonic() - killed < 0.5
    a.transport.close()


@run
async def test_a_stopped_peer_costs_bounded_memory_and_holds_no_other_peer_up() -> None:
    a, c = Endpoint("a", **SMALL), Endpoint("c")
    c.meet(a)
    with peer_process("b", a) as (pid, address):
        a.transport.add_peer("b", address, KEYS.public)
        a.meet(c)
        await a.until_event("up", "b")
        await a.until_event("up", "c")
        await a.until(lambda: ("b", [b"connected"]) in a.received)
        os.kill(pid, signal.SIGSTOP)
        before = resident_bytes()
        taken = 0
        for number in range(2000):
            taken += a.say("b", bytes(50_000))
            assert a.say("c", b"%d" % number)
        await c.until(lambda: len(c.received) == 2000)
        b = a.transport.peers["b"]
        assert b.outbox.queued <= SMALL["queue_bytes"]
        assert b.outbox.in_flight <= SMALL["window_bytes"]
        assert b.outbox.dropped_messages == 2000 - taken
        assert resident_bytes() - before < 50 << 20, "100 MB were sent to the stopped peer"
        os.kill(pid, signal.SIGCONT)
        await a.until(lambda: a.received.count(("b", [b"echo", bytes(8)])) == taken)
        assert b.outbox.queued == 0
    a.transport.close()
    c.transport.close()
