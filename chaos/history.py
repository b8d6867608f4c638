"""The history of a run: the clients' actions and observations as events, and their form as lines of JSON.

Times are in seconds of the machine's monotonic clock, which all processes of the machine share. A *publisher*
is one channel that publishes, a *consumer* is one subscription of one channel. A client that connects again
is another publisher or consumer. The name of a message is its publisher and its number there, from 1 on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class RunBegan:
    """The settings of a run: the first event of its history. `seconds` of load, `rate` in messages a
    second.
    """

    time: float
    scenario: str
    broker: str
    target: str
    seed: int
    seconds: float
    rate: float


@dataclass(frozen=True, slots=True)
class LoadEnded:
    """Publishers stop, and consumers drain the queues from now on."""

    time: float


@dataclass(frozen=True, slots=True)
class QueueDeclared:
    """`at_most_once`: the queue gives each message to one consumer, once, or to none."""

    time: float
    queue: str
    at_most_once: bool


@dataclass(frozen=True, slots=True)
class PublisherOpened:
    """A publisher begins to publish to one queue, through a node."""

    time: float
    publisher: str
    node: str
    queue: str


@dataclass(frozen=True, slots=True)
class ConsumerOpened:
    time: float
    consumer: str
    node: str
    queue: str


@dataclass(frozen=True, slots=True)
class Closed:
    """A publisher or consumer ends. `broken`: the client did not ask for it."""

    time: float
    client: str
    broken: bool


@dataclass(frozen=True, slots=True)
class Published:
    """The publisher is about to write the message to its socket: the broker cannot have it earlier."""

    time: float
    publisher: str
    number: int


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The broker confirms a range of messages (basic.ack to a publisher)."""

    time: float
    publisher: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker refuses a range of messages (basic.nack to a publisher)."""

    time: float
    publisher: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Delivered:
    time: float
    consumer: str
    publisher: str
    number: int
    redelivered: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """The consumer acknowledges the message that it has from this publisher."""

    time: float
    consumer: str
    publisher: str
    number: int


@dataclass(frozen=True, slots=True)
class Returned:
    """The consumer returns the message to the queue."""

    time: float
    consumer: str
    publisher: str
    number: int


@dataclass(frozen=True, slots=True)
class Faulted:
    """The run is about to inject a fault into a node. `kind` groups faults in reports; `queues` are those
    that the node owns.

    `excused`: the node's clients may notice, by broken connections and redelivered messages.
    """

    time: float
    node: str
    kind: str
    queues: tuple[str, ...]
    excused: bool = True


@dataclass(frozen=True, slots=True)
class Healed:
    """The run has healed the fault. The nodes may take a while to recover."""

    time: float
    kind: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A node's process ended although the run had not stopped it. `code`: its exit code, negative for a
    signal.
    """

    time: float
    node: str
    code: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The node takes clients again."""

    time: float
    node: str


Event = (
    RunBegan | QueueDeclared | PublisherOpened | ConsumerOpened | Closed | Published | Confirmed | Refused
    | Delivered | Settled | Returned | Faulted | Healed | Ended | Recovered | LoadEnded
)  # fmt: skip

_KINDS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        RunBegan, QueueDeclared, PublisherOpened, ConsumerOpened, Closed, Published, Confirmed, Refused,
        Delivered, Settled, Returned, Faulted, Healed, Ended, Recovered, LoadEnded,
    )
}  # fmt: skip


class Recorder:
    """Collects the events of one run; threads may record at the same time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.events: list[Event] = []
        self.clock = clock

    def record(self, event: Event) -> None:
        self.events.append(event)


def to_lines(events: Iterable[Event]) -> Iterator[str]:
    """One JSON object a line."""
    for event in events:
        fields = {name: getattr(event, name) for name in event.__slots__}
        yield json.dumps({"event": type(event).__name__, **fields}) + "\n"


def from_lines(lines: Iterable[str]) -> list[Event]:
    """Raises ValueError, with the line's number, for a line that is no event."""
    events = []
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
            kind = _KINDS[fields.pop("event")]
            if "queues" in fields:
                fields["queues"] = tuple(fields["queues"])
            events.append(kind(**fields))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"line {number} is no event of a history: {error}") from error
    return events
