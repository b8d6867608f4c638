"""Stand-ins for the two ends of a link, which only record their calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cluster.peers.consumer_terms import ConsumerTerms
from cluster.peers.held_leases import HeldLeases
from cluster.peers.link_messages import Delivery, Ranges
from node.message.run import Run
from node.ranges.range_set import Numbers


class Silence:
    """Accepts every call, and does nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class RecordedOwner:
    """An `OwnerPort` that records every call as (name, arguments without front end)."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]

    def hello(
        self, front_end: int, epoch: int, node: str, consumers: list[ConsumerTerms], tried: int
    ) -> None:
        self.calls.append(("hello", epoch, node, consumers, tried))

    def operations(self, front_end: int, epoch: int, number: int, data: bytes) -> None:
        self.calls.append(("operations", epoch, number, data))

    def held(self, front_end: int, epoch: int, held: HeldLeases) -> None:
        self.calls.append(("held", epoch, held))

    def attach(self, front_end: int, epoch: int, request: int, terms: ConsumerTerms) -> None:
        self.calls.append(("attach", epoch, request, terms))

    def detach(self, front_end: int, epoch: int, consumer: int) -> None:
        self.calls.append(("detach", epoch, consumer))

    def credit(self, front_end: int, epoch: int, limits: list[tuple[int, int]]) -> None:
        self.calls.append(("credit", epoch, limits))

    def request(self, front_end: int, epoch: int, request: int, name: str, arguments: list[Any]) -> None:
        self.calls.append(("request", epoch, request, name, arguments))


class RecordedFrontEnd:
    """A `FrontEndPort` that records every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]

    def room(self) -> None:
        """No limit."""

    def acknowledged(self, epoch: int, number: int, refused: Sequence[tuple[int, Ranges]] = ()) -> None:
        self.calls.append(("acknowledged", epoch, number, *([list(refused)] if refused else [])))

    def delivered(self, epoch: int, deliveries: list[Delivery]) -> None:
        self.calls.append(("delivered", epoch, deliveries))

    def result(self, epoch: int, request: int, value: Any, delivery: Delivery | None) -> None:
        self.calls.append(("result", epoch, request, value, delivery))

    def consumer_cancelled(self, epoch: int, consumer: int, stolen: bool = False) -> None:
        self.calls.append(("consumer_cancelled", epoch, consumer, *([stolen] if stolen else [])))

    def activity(self, epoch: int, consumer: int, joined: int, activated: int) -> None:
        self.calls.append(("activity", epoch, consumer, joined, activated))

    def resync(self) -> None:
        self.calls.append(("resync",))


class RecordedSubscriber:
    """A `Subscriber` that records the calls of a link."""

    channel_count = 1

    def __init__(self) -> None:
        self.delivered: list[tuple[int, int, int, bool]] = []
        self.leases: list[int] = []
        self.confirmed: list[tuple[int, int, int]] = []
        self.rejected: list[tuple[int, int, int]] = []
        self.cancelled: list[int] = []
        self.backlogs: list[tuple[int, int]] = []
        self.times_unblocked = 0
        self.closed_for: list[str] = []

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool, lease: int) -> None:
        self.delivered.append((consumer, numbers[0], run.count, redelivered))
        self.leases.append(lease)

    def confirm(self, channel: int, first: int, last: int) -> None:
        self.confirmed.append((channel, first, last))

    def reject(self, channel: int, first: int, last: int) -> None:
        self.rejected.append((channel, first, last))

    def consumer_cancelled(self, consumer: int, stolen: bool = False) -> None:
        self.cancelled.append(consumer)

    def backlog_changed(self, consumer: int, backlog: int) -> None:
        self.backlogs.append((consumer, backlog))

    def unblocked(self) -> None:
        self.times_unblocked += 1

    def force_close(self, reason: str) -> None:
        self.closed_for.append(reason)


def run_of(count: int, size: int = 64, *, persistent: bool = True) -> Run:
    """A run of `count` messages whose frames are never decoded."""
    return Run("", "q", 1, persistent, count, 0, size, None, size, b"m" * (size * count))
