"""A model of one queue with arguments: the ready messages at each time, and the places of all others.

A reader can check the model without knowledge of the broker. It uses only the table of a message's life,
which has the legal transitions. Messages are numbers, in the order of their publishes; times are in seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from node.queue.life import Place
from tests.life import goes

DROP_HEAD: Final = "drop-head"
REJECT: Final = "reject-publish"
REJECT_AS_DEAD_LETTER: Final = "reject-publish-dlx"


@dataclass(frozen=True)
class Terms:
    """The arguments of a queue; None for one that it lacks.

    `failures`: the number of deliveries of a message that may fail. `rest`: the rest of a message after its
    first failed delivery, twice as long after each further one, up to `longest_rest`. `without`: the queue's
    filter takes no multiples of it. `below`: the filter takes lower priorities alone. `keys`: the queue keeps
    the last message of each key, and so many numbers in a row have a key each.
    """

    ttl: float | None = None
    length: int | None = None
    octets: int | None = None
    overflow: str = DROP_HEAD
    levels: int | None = None
    failures: int | None = None
    window: float | None = None
    rest: float | None = None
    longest_rest: float = math.inf
    without: int | None = None
    below: int | None = None
    keys: int | None = None

    def takes(self, message: Message) -> bool:
        """Whether the queue's filter takes a message."""
        divided = self.without is not None and message.number % self.without == 0
        return not divided and (self.below is None or message.priority < self.below)


@dataclass(eq=False)
class Message:
    """A message. `due`: the end of its delay, from which on its time to live counts."""

    number: int
    size: int = 1
    priority: int = 0
    ttl: float | None = None
    name: str | None = None
    due: float = 0.0
    expires: float = math.inf
    failed: int = 0
    came_back: bool = False
    replaced: bool = False
    place: Place = Place.NEW

    def goes(self, to: Place) -> None:
        """Move the message. Raises AssertionError for a transition that the table lacks."""
        goes(self.place, to)
        self.place = to


@dataclass
class QueueModel:
    """`ready` is in the order of delivery. `dead` has (message, reason) of deaths since the test
    last looked.
    """

    terms: Terms
    ready: list[Message] = field(default_factory=list)
    scheduled: list[Message] = field(default_factory=list)
    held: list[Message] = field(default_factory=list)
    dead: list[tuple[int, str]] = field(default_factory=list)
    names: dict[str, float] = field(default_factory=dict)
    """The time of the first message with each id."""

    # -- time -----------------------------------------------------------------------------------

    def deadlines(self) -> list[float]:
        """The times at which an event happens by itself, or a decision changes."""
        window = self.terms.window or 0.0
        return [
            *(one.expires for one in (*self.ready, *self.scheduled, *self.held)),
            *(one.due for one in self.scheduled),
            *(first + window for first in self.names.values()),
        ]

    def advance(self, now: float) -> None:
        """Make due messages ready, and expire those that have waited too long, in the order of time."""
        due = sorted((one for one in self.scheduled if one.due <= now), key=lambda one: one.due)
        for time, together in groupby(due, key=lambda one: one.due):
            self._expire(time)
            alive = []
            for one in together:
                self.scheduled.remove(one)
                one.goes(Place.READY)
                if one.expires <= time:
                    self._dies(one, "expired")
                else:
                    alive.append(one)
            self._make_ready(*alive)
        self._expire(now)

    def _expire(self, now: float) -> None:
        for one in [one for one in self.ready if one.expires <= now]:
            self.ready.remove(one)
            self._dies(one, "expired")

    # -- what comes in --------------------------------------------------------------------------

    def publish(self, messages: list[Message], now: float) -> list[bool]:
        """Publish messages at once; return whether each is confirmed: the queue takes it, or it is a
        duplicate, or the queue's filter does not take it.
        """
        coming: list[Message] = []
        confirmed = [self._takes(one, coming, now) for one in messages]
        self._make_ready(*(one for one in coming if one.due <= now))
        return confirmed

    def _takes(self, message: Message, coming: list[Message], now: float) -> bool:
        """Whether a message is confirmed. One that the queue takes is added to those that are coming."""
        terms = self.terms
        if not terms.takes(message):
            return True
        named = message.name is not None and terms.window is not None
        if named and now < self.names.get(message.name, -math.inf) + terms.window:
            return True
        if terms.overflow != DROP_HEAD and self._too_much(
            [*self.ready, *(one for one in coming if one.due <= now), message]
        ):
            if terms.overflow == REJECT_AS_DEAD_LETTER:
                self._dies(message, "maxlen")
            return False
        if named:
            # A refused message does not count as seen: its publisher tries again.
            self.names[message.name] = now
        lives = [one for one in (message.ttl, terms.ttl) if one is not None]
        message.expires = max(now, message.due) + min(lives, default=math.inf)
        coming.append(message)
        if message.due > now:
            message.goes(Place.SCHEDULED)
            self.scheduled.append(message)
        return True

    def _too_much(self, messages: list[Message]) -> bool:
        length, octets = self.terms.length, self.terms.octets
        size = sum(one.size for one in messages)
        return (length is not None and len(messages) > length) or (octets is not None and size > octets)

    def _make_ready(self, *messages: Message) -> None:
        """Insert messages that are new, due or returned, in their places, unless a newer one has their
        key.
        """
        for message in messages:
            message.goes(Place.READY)
            if self._replaced(message):
                message.goes(Place.GONE)
            else:
                self.ready.append(message)
        self.ready.sort(key=lambda one: (-self._level(one), one.number))
        while self.terms.overflow == DROP_HEAD and self._too_much(self.ready):
            oldest = min(self.ready, key=lambda one: (self._level(one), one.number))
            self.ready.remove(oldest)
            self._dies(oldest, "maxlen")

    def _replaced(self, message: Message) -> bool:
        """Whether a message has been replaced. If not, the message replaces all earlier ones with its key."""
        keys = self.terms.keys
        if keys is None or message.replaced:
            return message.replaced
        resting = [one for one in self.scheduled if one.came_back]
        for one in [one for one in (*self.ready, *self.held, *resting) if one is not message]:
            if one.number % keys == message.number % keys:
                if one.number > message.number:
                    return True
                one.replaced = True
        for one in [one for one in self.ready if one.replaced]:
            self.ready.remove(one)
            one.goes(Place.GONE)
        return False

    def _level(self, message: Message) -> int:
        return 0 if self.terms.levels is None else min(message.priority, self.terms.levels)

    def _dies(self, message: Message, reason: str) -> None:
        message.goes(Place.DEAD)
        self.dead.append((message.number, reason))

    # -- what goes out --------------------------------------------------------------------------

    def take(self, *, keeps: bool) -> Message | None:
        """Take the next message. `keeps`: its consumer has to settle it."""
        if not self.ready:
            return None
        message = self.ready.pop(0)
        message.goes(Place.LEASED if keeps else Place.REMOVING)
        if keeps:
            self.held.append(message)
        return message

    def acknowledged(self, message: Message) -> None:
        self.held.remove(message)
        message.goes(Place.GONE)

    def rejected(self, message: Message) -> None:
        self.held.remove(message)
        self._dies(message, "rejected")

    def given_back(self, message: Message, now: float) -> None:
        """A delivery has failed."""
        self.held.remove(message)
        message.came_back = True
        message.failed += 1
        if self.terms.failures is not None and message.failed > self.terms.failures:
            self._dies(message, "delivery_limit")
        elif self.terms.rest is not None:
            # The message may have expired when its rest is over.
            message.due = now + self._rest(message.failed)
            message.goes(Place.SCHEDULED)
            self.scheduled.append(message)
        elif message.expires <= now:
            message.goes(Place.READY)
            self._dies(message, "expired")
        else:
            self._make_ready(message)

    def rest_of(self, message: Message) -> float:
        """The rest of the message if its present delivery fails."""
        return self._rest(message.failed + 1)

    def _rest(self, failed: int) -> float:
        first = self.terms.rest or 0.0
        return min(first * 2 ** (failed - 1), self.terms.longest_rest)

    def purge(self) -> int:
        """Purge; return the number of removed messages: ready and delayed ones, and none that a
        client has.
        """
        count = len(self.ready) + len(self.scheduled)
        for one in (*self.ready, *self.scheduled):
            one.goes(Place.GONE)
        self.ready.clear()
        self.scheduled.clear()
        return count
