"""Small histories to judge: a good one, and what the tests change in it."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.history import (
    Closed,
    Confirmed,
    ConsumerOpened,
    Delivered,
    Event,
    Faulted,
    Published,
    PublisherOpened,
    QueueDeclared,
    Recovered,
    Settled,
)


def opening(*, at_most_once: bool = False) -> list[Event]:
    """One queue; publisher p on n1, consumers a on n1 and b on n2."""
    return [
        QueueDeclared(0.0, "q", at_most_once),
        PublisherOpened(0.1, "p", "n1", "q"),
        ConsumerOpened(0.2, "a", "n1", "q"),
        ConsumerOpened(0.3, "b", "n2", "q"),
    ]


def published(count: int, *, time: float = 1.0, first: int = 1) -> list[Event]:
    """Messages of p, all confirmed 10 ms later."""
    last = first + count - 1
    events: list[Event] = [Published(time, "p", number) for number in range(first, last + 1)]
    return [*events, Confirmed(time + 0.01, "p", first, last)]


def delivered(
    consumer: str, *numbers: int, time: float, redelivered: bool = False, settled: float | None = None
) -> list[Event]:
    """Deliveries in the order of the numbers, 1 ms apart; `settled` is when all were acknowledged."""
    events: list[Event] = [
        Delivered(time + place / 1000, consumer, "p", number, redelivered)
        for place, number in enumerate(numbers)
    ]
    if settled is not None:
        events += [Settled(settled, consumer, "p", number) for number in numbers]
    return events


def closing(time: float = 20.0) -> list[Event]:
    return [Closed(time, name, broken=False) for name in ("p", "a", "b")]


def fault(node: str, start: float, end: float, kind: str = "killed") -> list[Event]:
    return [Faulted(start, node, kind, ("q",)), Recovered(end, node)]


def in_time(*parts: Iterable[Event]) -> list[Event]:
    """All events by their time, as a recorder would have them."""
    return sorted((event for part in parts for event in part), key=lambda event: event.time)
