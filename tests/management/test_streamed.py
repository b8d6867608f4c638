"""Clients of streamed answers have so much time as they read octets (F8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.admin.api.streamed import LEAST_PACE, WRITTEN_OCTETS, ClientPace

pytestmark = pytest.mark.requirement("F8.3")

PIECE_S = 10.0


class Client:
    """Takes so many seconds for each write."""

    def __init__(self, seconds: float) -> None:
        self.now, self._seconds, self.written = 0.0, seconds, list[int]()

    async def write(self, octets: memoryview) -> None:
        self.now += self._seconds
        self.written.append(len(octets))


def pieces_taken(seconds: float, octets: int, most: int = 50) -> int:
    """How many pieces a client gets that takes so many seconds for each."""
    client: Any = Client(seconds)
    pace = ClientPace(PIECE_S, lambda: client.now)

    async def write() -> int:
        for number in range(most):
            try:
                await pace.write(client, bytes(octets))
            except TimeoutError:
                return number
        return most

    return asyncio.run(write())


def test_a_client_that_is_slower_than_the_least_pace_loses_its_place() -> None:
    assert pieces_taken(1.0, LEAST_PACE) == 50
    assert pieces_taken(3.0, LEAST_PACE) == 6
    assert pieces_taken(3.0, LEAST_PACE // 2) < 6


def test_a_client_that_was_quick_has_no_more_time_for_a_piece() -> None:
    client: Any = Client(0.0)
    pace = ClientPace(PIECE_S, lambda: client.now)
    asyncio.run(pace.write(client, bytes(100 * LEAST_PACE)))
    assert pace.left == PIECE_S


def test_the_connection_buffers_a_part_of_a_large_piece() -> None:
    client: Any = Client(0.0)
    asyncio.run(ClientPace(PIECE_S, lambda: 0.0).write(client, bytes(2 * WRITTEN_OCTETS + 1)))
    assert client.written == [WRITTEN_OCTETS, WRITTEN_OCTETS, 1]
