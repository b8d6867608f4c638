"""The model of one queue and its log for the model of its owner: every message is an object."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from node.message.deaths import encode_death
from node.message.reason import Reason
from node.queue.barrier_values import BarrierState
from node.queue.features.file_backed import FILE_BACKED
from node.queue.life import Place
from node.queue.operations import OWNER, Annotate, Aspect, Semantics
from node.queue.queue import QueueState
from node.queue.settings import QueueSettings
from node.ranges.range_map import spans_of
from node.ranges.range_set import RangeSet
from tests.life import goes
from tests.queue.cold_octets import tiny_space

READY, HELD, GONE = "ready", "held", "gone"
SCHEDULED, WITHHELD, DEAD = "scheduled", "withheld", "dead"


def life_of(place: str | int) -> Place:
    """The place in the table of a message's life."""
    if isinstance(place, int):
        return Place.REMOVING if place == OWNER else Place.LEASED
    return Place(place)


@dataclass
class Message:
    """A message and its place, or the front end that leases it (OWNER: it is being removed).

    A message makes no transition that the table lacks. After each rule the owner's places must be the
    model's.
    """

    soft: bool
    place: str | int = "new"
    redelivered: bool = False
    logged_return: bool = False
    level: int = 0
    group: int = 0
    due: int = 0
    """The time at which the message is ready, by the owner's clock."""
    resting: bool = False
    """The message rests after a failed delivery, and its group waits for it."""
    consumer: tuple[int, int] | None = None
    """The consumer that has the message, as far as the owner knows."""
    barrier: bool = False
    key: int = 0
    replaced: bool = False
    """A message with the same key has come later."""

    def goes(self, place: str | int) -> None:
        """Move the message to another place. Raises AssertionError for a transition that the table lacks."""
        if self.soft and place == GONE:
            # A soft message is gone with its owner from every place.
            self.place = place
            return
        goes(life_of(self.place), life_of(place))
        self.place = place


@dataclass
class ModelConsumer:
    no_ack: bool
    priority: int
    sent: int = 0
    limit: int = 0


def ranges_of(numbers: list[int]) -> list[tuple[int, int]]:
    return list(RangeSet((number, number) for number in numbers).ranges())


class ModelQueue:
    """`messages` by number; `next` is the next number. `state` is the replicated state, by the log."""

    def __init__(self, semantics: Semantics, settings: QueueSettings) -> None:
        self.state = QueueState(semantics)
        if FILE_BACKED.of(settings):
            self.state.page(tiny_space())
        self.messages: dict[int, Message] = {}
        self.next = 1
        self._settings = settings

    def settle(self, parts: list[tuple[int, int]]) -> None:
        for first, last in parts:
            self.state.remove_all([(first, last)])

    def at(self, place: str | int) -> list[int]:
        return [number for number, message in self.messages.items() if message.place == place]

    def window(self, part: tuple[int, int]) -> tuple[int, int]:
        first = max(1, self.next - part[0])
        return first, first + part[1]

    def oldest(self, place: str | int) -> tuple[int, int]:
        """The oldest message of a place as a `window`."""
        return (self.next - min(self.at(place), default=self.next), 0)

    def numbered(
        self, count: int, gap: int, soft: bool, values: list[int], due: int
    ) -> tuple[int, dict[Aspect, list[tuple[int, int, int]]]]:
        """Number new messages; return the first number and their annotations."""
        first = self.next + gap
        self.next = first + count
        values = [values[i % len(values)] for i in range(count)]
        asked = self._settings.asked
        leveled = asked.get("max_priority") or asked.get("priority_expression")
        grouped = asked.get("group_by")
        notes = {}
        if leveled:
            notes[Aspect.PRIORITY] = spans_of(values, first)
        if grouped:
            notes[Aspect.GROUP] = spans_of(values, first)
        if asked.get("barrier_expression"):
            barriers = [n for n, value in zip(range(first, self.next), values, strict=True) if value % 3 == 2]
            if barriers:
                notes[Aspect.BARRIER] = [(n, n, BarrierState.PENDING) for n in barriers]
        keys = [span for span in spans_of([value + 2 for value in values], first) if span[2] > 2]
        if asked.get("key") and keys:
            notes[Aspect.KEY] = keys
        if due:
            notes[Aspect.DUE] = [(first, self.next - 1, due)]
        for number, value in zip(range(first, self.next), values, strict=True):
            level, group = value if leveled else 0, value if grouped else 0
            self.messages[number] = Message(soft, level=level, group=group, due=due)
            self.messages[number].key = value if asked.get("key") else 0
            self.messages[number].barrier = bool(asked.get("barrier_expression")) and value % 3 == 2
        return first, notes

    def append(self, first: int, count: int, notes: dict[Aspect, list[tuple[int, int, int]]]) -> None:
        self.state.append(first, first + count - 1)
        for aspect, spans in notes.items():
            self.annotate(aspect, spans)

    def annotate(self, aspect: Aspect, spans: list[tuple[int, int, int]]) -> None:
        columns = (array("Q", numbers) for numbers in zip(*spans, strict=True))
        self.state.annotate(Annotate(1, aspect, *columns))

    def kill(self, parts: list[tuple[int, int]]) -> None:
        """Move the messages to the dead ones, which wait for the dead-letter exchange."""
        if parts:
            value = encode_death(Reason.MAXLEN, 1)
            self.annotate(Aspect.DEATH, [(first, last, value) for first, last in sorted(parts)])

    @property
    def by_age(self) -> bool:
        asked = self._settings.asked
        plain = not asked.keys() & {"max_priority", "priority_expression", "group_by"}
        return plain and Aspect.DUE not in self.state.annotations

    def newest_delivered(self, given: list[int], granted: int) -> int:
        """The newest message that was delivered, none above `granted`, if the `given` ones were not since
        they were marked.
        """
        unmarked = {number for number in given if not self.messages[number].redelivered}
        return max(set(range(granted + 1)) - unmarked)
