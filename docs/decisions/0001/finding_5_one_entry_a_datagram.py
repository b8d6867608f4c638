"""raftos sends one entry a round trip, as a UDP datagram: more than 64 KiB cannot be sent at all."""

from __future__ import annotations

import asyncio
from typing import Any

from evidence import Wire, raftos_directory, settle, verdict

FOLLOWER = "127.0.0.1:8001"


async def entries_until_answered() -> list[int]:
    """How many entries each message to one follower carries while five wait, until it answers."""
    from raftos.state import State

    wire = Wire(0)
    state: Any = State(wire)
    state.start()
    state.to_candidate()
    state.to_leader()
    for number in range(5):
        state.log.write(state.storage.term, {"key": number})
    await settle()
    wire.sent.clear()
    for _ in range(3):
        await state.state.append_entries(destination=FOLLOWER)
        await settle()
    carried = [message["entries"] for message in wire.sent]
    state.stop()
    assert all(entries == carried[0] for entries in carried), "it moved on without an answer"
    return [len(entries) for entries in carried]


async def send_large() -> list[str]:
    """What the transport reports for an entry of 70,000 bytes."""
    from raftos.cryptors import DummyCryptor
    from raftos.network import UDPProtocol

    errors: list[str] = []

    class Watched(UDPProtocol):  # type: ignore[misc]  # raftos has no types
        def error_received(self, exc: Exception) -> None:
            errors.append(str(exc))

    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    protocol = Watched(queue, lambda data: None, loop, cryptor=DummyCryptor(None))
    transport, _ = await loop.create_datagram_endpoint(protocol, local_addr=("127.0.0.1", 0))
    await queue.put({"data": {"entries": ["x" * 70_000]}, "destination": ("127.0.0.1", 9)})
    await settle()
    transport.close()
    return errors


with raftos_directory():
    sent = asyncio.run(entries_until_answered())
    refused = asyncio.run(send_large())

verdict(
    "raftos replicates one entry a round trip over UDP datagrams",
    sent == [1, 1, 1] and bool(refused),
    f"five entries waiting, three messages to one follower: {sent} entries, the same one each time",
    f"an entry of 70,000 bytes: {refused}, logged and forgotten",
)
