"""One queue and its arguments: what is ready at what time, and where everything else goes.

It is for anybody to check by reading, and knows nothing of a broker but the table of a message's life, which
says where a message may go. Messages are numbers, in the order in
which they are published; times are seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from node.queue.life import Place
from tests.life import goes

DROP_HEAD: Final = "drop-head"
REJECT: Final = "reject-publish"
REJECT_AS_DEAD_LETTER: Final = "reject-publish-dlx"


@dataclass(frozen=True)
class Terms:
    """What a queue is declared with; None for what it is declared without.

    `failures`: deliveries of a message that may fail. `rest`: how long a message rests when its first
    delivery has failed; twice as long after each further one, up to `longest_rest`.
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


@dataclass(eq=False)
class Message:
    """`due`: when its delay is over, from which on its time to live counts."""

    number: int
    size: int = 1
    priority: int = 0
    ttl: float | None = None
    name: str | None = None
    due: float = 0.0
    expires: float = math.inf
    failed: int = 0
    came_back: bool = False
    place: Place = Place.NEW

    def goes(self, to: Place) -> None:
        """The message is somewhere else. Raises AssertionError where the table lacks the way."""
        goes(self.place, to)
        self.place = to


@dataclass
class QueueModel:
    """`ready` in the order of delivery. `dead` has who died since somebody looked, and what of."""

    terms: Terms
    ready: list[Message] = field(default_factory=list)
    scheduled: list[Message] = field(default_factory=list)
    held: list[Message] = field(default_factory=list)
    dead: list[tuple[int, str]] = field(default_factory=list)
    names: dict[str, float] = field(default_factory=dict)
    """When the first message of each name came."""

    # -- time -----------------------------------------------------------------------------------

    def deadlines(self) -> list[float]:
        """When something happens by itself, or is decided otherwise than before."""
        window = self.terms.window or 0.0
        return [
            *(one.expires for one in (*self.ready, *self.scheduled, *self.held)),
            *(one.due for one in self.scheduled),
            *(first + window for first in self.names.values()),
        ]

    def advance(self, now: float) -> None:
        """Let pass what was due, and expire what has waited too long, in the order of time."""
        for one in sorted(self.scheduled, key=lambda one: one.due):
            if one.due <= now:
                self.scheduled.remove(one)
                self._expire(one.due)
                one.goes(Place.READY)
                if one.expires <= one.due:
                    self._dies(one, "expired")
                else:
                    self._make_ready(one)
        self._expire(now)

    def _expire(self, now: float) -> None:
        for one in [one for one in self.ready if one.expires <= now]:
            self.ready.remove(one)
            self._dies(one, "expired")

    # -- what comes in --------------------------------------------------------------------------

    def publish(self, message: Message, now: float) -> bool:
        """Whether the queue takes the message, or has one of that name already."""
        terms = self.terms
        named = message.name is not None and terms.window is not None
        if named and now < self.names.get(message.name, -math.inf) + terms.window:
            return True
        if terms.overflow != DROP_HEAD and self._too_much([*self.ready, message]):
            if terms.overflow == REJECT_AS_DEAD_LETTER:
                self._dies(message, "maxlen")
            return False
        if named:
            # One that was refused has not come: its publisher tries again.
            self.names[message.name] = now
        lives = [one for one in (message.ttl, terms.ttl) if one is not None]
        message.expires = max(now, message.due) + min(lives, default=math.inf)
        if message.due > now:
            message.goes(Place.SCHEDULED)
            self.scheduled.append(message)
        else:
            self._make_ready(message)
        return True

    def _too_much(self, messages: list[Message]) -> bool:
        length, octets = self.terms.length, self.terms.octets
        size = sum(one.size for one in messages)
        return (length is not None and len(messages) > length) or (octets is not None and size > octets)

    def _make_ready(self, message: Message) -> None:
        """In its place, whether it is new, due or back."""
        message.goes(Place.READY)
        self.ready.append(message)
        self.ready.sort(key=lambda one: (-self._level(one), one.number))
        while self.terms.overflow == DROP_HEAD and self._too_much(self.ready):
            oldest = min(self.ready, key=lambda one: (self._level(one), one.number))
            self.ready.remove(oldest)
            self._dies(oldest, "maxlen")

    def _level(self, message: Message) -> int:
        return 0 if self.terms.levels is None else min(message.priority, self.terms.levels)

    def _dies(self, message: Message, reason: str) -> None:
        message.goes(Place.DEAD)
        self.dead.append((message.number, reason))

    # -- what goes out --------------------------------------------------------------------------

    def take(self, *, keeps: bool) -> Message | None:
        """The next one; `keeps`: whoever took it has to settle it."""
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
            # It may be over its time when it has rested.
            rest = self.terms.rest * 2 ** (message.failed - 1)
            message.due = now + min(rest, self.terms.longest_rest)
            message.goes(Place.SCHEDULED)
            self.scheduled.append(message)
        elif message.expires <= now:
            message.goes(Place.READY)
            self._dies(message, "expired")
        else:
            self._make_ready(message)

    def purge(self) -> int:
        """How many went: those that are delayed too, and none that a client has."""
        count = len(self.ready) + len(self.scheduled)
        for one in (*self.ready, *self.scheduled):
            one.goes(Place.GONE)
        self.ready.clear()
        self.scheduled.clear()
        return count
