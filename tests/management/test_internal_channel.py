"""A message for a request of the management API that does not wait any more goes back to its queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cluster.admin.api.internal_channel import InternalChannel
from node.delivery.settlements import Outcome
from node.session.permissions import Scope
from node.session.ports import Got, Identity, QueueRef, VhostConnection
from tests.cluster.recorders import Silence, run_of

GET_LINK = 20


class Allowing(Silence):
    """Refuses nothing to a user."""

    def read_filter(self, _: Scope) -> bytes:
        return b""


class LateBroker:
    """Answers a basic.get when it is told to."""

    permissions = Allowing()

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answers: list[Callable[[Got | None, None], None]] = []
        self.given_back: list[tuple[int, list[tuple[int, int]], bool]] = []

    def enter(self, *_: Any) -> VhostConnection:
        return VhostConnection(Scope("guest", "/"), 1)

    def queue(self, vhost: str, name: str, holder: int) -> QueueRef:
        return QueueRef(name, 1, 1, vhost)

    def get(
        self, queue: QueueRef, no_ack: bool, answer: Callable[[Got | None, None], None], filter: bytes = b""
    ) -> None:
        self.answers.append(answer)
        self.asked.set()

    def give_back(
        self, consumer: int, ranges: list[tuple[int, int]], outcome: Outcome, change: Any = None
    ) -> None:
        self.given_back.append((consumer, ranges, outcome.failed))

    def abandon(self, consumer: int, ranges: list[tuple[int, int]]) -> None:
        self.give_back(consumer, ranges, Outcome.LOST)

    def release_holder(self, holder: int, released: Callable[[], None]) -> None:
        released()


def test_a_message_that_comes_when_no_request_waits_goes_back() -> None:
    async def given_up() -> LateBroker:
        broker: Any = LateBroker()
        channel = InternalChannel(broker, Identity("guest"), "/")
        request = asyncio.ensure_future(channel.get("q", False))
        await broker.asked.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        channel.close()
        for sequence, answer in enumerate(broker.answers, 1):
            answer(Got(GET_LINK, run_of(1), sequence, False, 0), None)
        found: LateBroker = broker
        return found

    broker = asyncio.run(given_up())
    assert len(broker.answers) == 1
    assert broker.given_back == [
        (GET_LINK, [(sequence, sequence)], False) for sequence in range(1, len(broker.answers) + 1)
    ]
