"""The confirmed messages that no consumer has settled yet, kept up to date with each event. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.history import Confirmed, Event, PublisherOpened, QueueDeclared, Settled
from chaos.ledger import Message


class Unsettled:
    """The unsettled messages of the queues that keep messages until they are settled. `len()` is their
    number.
    """

    def __init__(self) -> None:
        self._removing: set[str] = set()
        self._keeping: set[str] = set()
        self._settled: set[Message] = set()
        self._open: set[Message] = set()

    def __len__(self) -> int:
        return len(self._open)

    def take(self, events: Iterable[Event]) -> None:
        """Add further events, in the order in which they were recorded."""
        for event in events:
            if isinstance(event, Confirmed):
                if event.publisher in self._keeping:
                    numbers = range(event.first, event.last + 1)
                    confirmed = {Message(event.publisher, number) for number in numbers}
                    self._open |= confirmed - self._settled
            elif isinstance(event, Settled):
                message = Message(event.publisher, event.number)
                self._settled.add(message)
                self._open.discard(message)
            elif isinstance(event, QueueDeclared):
                if event.at_most_once:
                    self._removing.add(event.queue)
            elif isinstance(event, PublisherOpened) and event.queue not in self._removing:
                self._keeping.add(event.publisher)
