"""The fate of each packet between nodes. Pure."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from chaos.faults import Conditions, Link


@dataclass(slots=True)
class Fabric:
    """All links: which are cut, the conditions of the others, and the late packets.

    Conditions and cuts are for nodes; a client's packets pass as they come. `now` is in seconds.
    """

    nodes: frozenset[str]
    chance: random.Random
    cut: set[Link] = field(default_factory=set)
    conditions: Conditions = field(default_factory=Conditions)
    _late: list[tuple[float, int, str, bytes]] = field(default_factory=list)
    _last: dict[Link, float] = field(default_factory=dict)
    _number: int = 0

    def send(self, source: str, destination: str, packet: bytes, now: float) -> Iterable[bytes]:
        """Send a packet; return the packets that reach the destination now. `due` has late ones."""
        link = (source, destination)
        if source not in self.nodes or destination not in self.nodes:
            return (packet,)
        if link in self.cut or self._happens(self.conditions.loss):
            return ()
        times = 2 if self._happens(self.conditions.duplicate) else 1
        arrival = self._arrival(link, now)
        if arrival <= now and not self._late:
            return (packet,) * times
        for _ in range(times):
            self._number += 1
            heapq.heappush(self._late, (arrival, self._number, destination, packet))
        return ()

    def due(self, now: float) -> Iterator[tuple[str, bytes]]:
        """(destination, packet) of the late packets whose time has come."""
        while self._late and self._late[0][0] <= now:
            _, _, destination, packet = heapq.heappop(self._late)
            yield destination, packet

    @property
    def next_due(self) -> float | None:
        return self._late[0][0] if self._late else None

    def _happens(self, share: float) -> bool:
        return share > 0 and self.chance.random() < share

    def _arrival(self, link: Link, now: float) -> float:
        """The time of a packet's arrival. A late packet delays later ones on its link, unless it is
        reordered.
        """
        now_is = self.conditions
        if self._happens(now_is.reorder):
            return now + now_is.delay_s + now_is.reorder_s
        delay = now_is.delay_s + now_is.jitter_s * self.chance.uniform(-1, 1)
        arrival = self._last[link] = max(now + delay, self._last.get(link, now), now)
        return arrival
