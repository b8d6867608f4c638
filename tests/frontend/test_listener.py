"""The AMQP port's timers, without sockets (`node.frontend.listener`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from node.frontend.client_memory import ClientMemory
from node.frontend.listener import TICKS_A_ROUND, Client, Listener
from node.wire.amqp091.limits import ConnectionLimits


@dataclass
class Ticked:
    """Stands for a client; counts the ticks of its session."""

    counts: Counter[int] = field(default_factory=Counter)
    number: int = 0

    @property
    def session(self) -> Ticked:
        return self

    def tick(self) -> None:
        self.counts[self.number] += 1


@pytest.mark.requirement("A8")
@pytest.mark.parametrize("clients", [1, 9, 10, 95, 1000])
def test_every_session_is_looked_at_once_a_round_and_no_tick_has_much_to_do(clients: int) -> None:
    absent = cast(Any, None)
    listener = Listener(
        absent, ConnectionLimits(), absent, ClientMemory(1), absent, lambda: 0.0, lambda: None
    )
    counts: Counter[int] = Counter()
    for number in range(clients):
        listener.clients[number] = cast(Client, Ticked(counts, number))
    rounds = 3
    for _ in range(rounds * TICKS_A_ROUND):
        before = counts.total()
        listener.tick()
        assert counts.total() - before <= -(-clients // TICKS_A_ROUND) + 1
    assert set(counts) == set(range(clients))
    assert min(counts.values()) >= rounds
