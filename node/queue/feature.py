"""What a feature of queues is: what it is asked for with, and the moments at which it has a say.

A feature is one module of `node.queue.features`, with a `Declaration` that the `registry` there lists. A
queue that asks for the feature has a share of it, an object of a class derived from `Feature`, while its
owner leads; what must outlive the owner goes into the log, by `FeatureContext`. About messages that come in
the owner decides by the queue's settings alone: a `Rule` is made once for each settings. A hook is called
with ranges or runs, once for each range, run, or turn of the queue at most. A queue that asks for nothing
has no shares, and calls no hook.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from node.message.format import Asked
from node.message.reason import Reason
from node.message.run import Run
from node.queue.argument import Argument
from node.queue.consumers import Consumer
from node.queue.delivery_state import DeliveryState
from node.queue.leases import NO_DEADLINE
from node.queue.operations import Aspect
from node.queue.settings import QueueSettings
from node.queue.weights import Weights
from node.ranges.range_map import Span
from node.ranges.range_set import Range
from node.wire.formats import format_of


class FeatureContext(Protocol):
    """What a feature may ask of the owner of its queue. Nothing that is logged is committed on return."""

    @property
    def number(self) -> int:
        """The queue's, as operations name it."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""

    def log(self, operation: bytes) -> None:
        """Put an operation into the next entry, before the messages that it brings."""

    def log_behind(self, operation: bytes) -> None:
        """Put an operation into the next entry, behind the messages that it brings."""

    def wake(self, at_ms: int) -> None:
        """Have the queue served at a time, in milliseconds since the epoch; an earlier one counts."""

    def serve_again(self) -> None:
        """Have the queue served in the next turn."""

    def discard(self, ranges: list[Range], reason: Reason) -> None:
        """Ready messages leave the queue for good: they are dead letters, or gone."""

    def contents(self, first: int, last: int) -> list[tuple[int, Run]]:
        """Messages that the log has, as runs with their first number."""

    def tell_activity(self, consumer: Consumer) -> None:
        """Let the consumer's front end keep, for the next owner, when it joined and became the active one."""


class Feature:
    """One queue's share of a feature. The base class does nothing at any moment."""

    def __init__(self, *, passes_on: bool = False) -> None:
        """`passes_on`: what one consumer settles may let another one have more."""
        self.passes_on = passes_on

    def take_over(self, context: FeatureContext) -> None:
        """The queue has a new owner, or is asked for something else than before. The log is applied up to the
        owner's first entry; messages in the log may lack what the feature notes of messages that come in.
        """

    def note(self, first: int, last: int, value: int) -> None:
        """Messages are new here whose annotation, of the declared aspect, has a value. It is committed, or
        the messages are in no log.
        """

    def serve(self, context: FeatureContext, now: int) -> None:
        """The queue is about to hand out messages; `now` is wall clock. Everything that the queue holds is
        committed, or is in no log.
        """

    def room(self, consumer: Consumer, wanted: int) -> int:
        """How many messages the consumer, who settles what it gets, may be given now, up to `wanted`."""
        return wanted

    def lease_until(self, consumer: Consumer | None, now: int) -> int:
        """The deadline of leases that begin now, in milliseconds since the epoch, or `leases.NO_DEADLINE`.

        The earliest of several features' deadlines counts. `consumer` is None where a new owner hears of the
        leases from their front end. A queue with a feature that has this hook keeps leases with tokens.
        """
        return NO_DEADLINE

    def given(self, consumer: Consumer, ranges: list[Range]) -> None:
        """The messages are leased to the consumer. No log says so; the mark in the log is above them."""

    def served(self, context: FeatureContext, *, complete: bool) -> None:
        """Consumers have been given what they may have; `complete`: all that they have credit for."""

    def settle(self, ranges: list[Range]) -> None:
        """The messages are gone: settled, purged or discarded. The operation is about to be logged."""

    def return_(self, first: int, last: int) -> None:
        """A consumer has the messages no more, and has not settled them. They are about to be ready, or to
        rest; their RETURN is committed, or need not be.
        """

    def exhausted(self, front_end: int, ranges: Sequence[Range]) -> list[Range]:
        """The front end gives messages back whose delivery has failed once more: those that are discarded.
        The failure is not counted yet.
        """
        return []

    def rest(self, front_end: int, ranges: Sequence[Range], now: int) -> list[Span]:
        """The front end gives messages back whose delivery has failed once more: until when those rest that
        do, in milliseconds since the epoch. The times go into the log with the RETURN; the failure is not
        counted yet.
        """
        return []

    def ready(self, first: int, last: int, had: list[Range]) -> None:
        """Messages are ready that have been elsewhere; `had` are those that a consumer may have had."""


Notes = dict[Aspect, list[Span]]
"""Decisions about messages of one queue that the log is to have: by aspect, spans of numbers, ascending."""


class Incoming:
    """A run of messages that come in, as the rules of their queues look at it."""

    __slots__ = ("_asked", "_stretches", "format", "ids", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.format = format_of(run)
        self._stretches: list[tuple[int, int, bytes]] | None = None
        self._asked: list[tuple[int, int, Asked]] | None = None
        self.ids: list[tuple[int, bytes]] | None = None
        """Index and digest of each message that has an id; None while no rule has asked."""

    def stretches(self) -> list[tuple[int, int, bytes]]:
        """Messages in a row with the same properties: the first and the last, counted from 0, and those."""
        found = self._stretches
        if found is None:
            stretches = self.format.properties_in(self.run)
            found = self._stretches = [(index, index + count - 1, each) for index, count, each in stretches]
        return found

    def asked(self) -> list[tuple[int, int, Asked]]:
        """Messages in a row with the same wishes: the first and the last, counted from 0, and those. Empty
        where no message asks for anything.
        """
        found = self._asked
        if found is None:
            stretches = self.stretches() if self.run.special else []
            found = self._asked = [(first, last, self.format.asked(each)) for first, last, each in stretches]
        return found

    def size_spans(self) -> list[Span]:
        """Messages in a row, counted from 0, whose bodies have as many octets."""
        return self.format.size_spans(self.run)


@dataclass(frozen=True, slots=True)
class Repeats:
    """Messages of a run, counted from 0, that repeat others: those that the queue `had` before, and those
    that come `again` in the run, with the message that each repeats.
    """

    had: frozenset[int] = frozenset()
    again: dict[int, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.had or self.again)


NO_REPEATS: Final = Repeats()


@dataclass(frozen=True, slots=True)
class DeadLetterTarget:
    """The exchange that takes a queue's dead letters, and their routing key; None: each keeps its own."""

    exchange: str
    routing_key: str | None


@dataclass(slots=True)
class Description:
    """A queue as its settings ask for it, in words that no feature owns.

    `dead_letters`: where messages go that the queue discards, None for nowhere; `refused_too`: also those
    that the queue has no room for. `unused_ms`: how long the queue stays that no client uses; None for ever.
    `by_consumer`: front ends must tell a new owner which of their consumers has which message. `takes_turns`:
    one consumer at a time is active, and front ends must tell a new owner who was. `lapses`: a message may be
    given to another consumer before the first one has answered, whose late answer then counts no more.
    """

    dead_letters: DeadLetterTarget | None = None
    refused_too: bool = False
    unused_ms: int | None = None
    by_consumer: bool = False
    takes_turns: bool = False
    lapses: bool = False


class Rule:
    """The part of one feature in what the owner does by a queue's settings, whether the queue has its share
    of the feature yet or not. The base class does nothing at any moment.
    """

    def __init__(self, *, special_only: bool = False) -> None:
        """`special_only`: `decide` is for runs only whose messages ask for something with properties."""
        self.special_only = special_only

    def describe(self, description: Description) -> None:
        """Fill in the fields that are the feature's."""

    def repeats(self, share: Feature | None, incoming: Incoming, now: int) -> Repeats:
        """Which messages repeat others. Nothing is remembered: the queue may refuse them."""
        return NO_REPEATS

    def refuse(
        self,
        queue: DeliveryState,
        share: Feature | None,
        upcoming: Weights | None,
        incoming: Incoming,
        repeats: Repeats,
    ) -> list[Range]:
        """Which messages of a run, counted from 0, the queue refuses. `upcoming` are those that the queue has
        taken and not got yet.
        """
        return []

    def omit(self, share: Feature | None, context: FeatureContext, incoming: Incoming) -> list[Range]:
        """Which messages of a run, counted from 0, the queue leaves out of those that it does not refuse. The
        others are taken, and remembered.
        """
        return []

    def expect(self, upcoming: Weights, incoming: Incoming, first: int) -> None:
        """Count messages, numbered from `first` on, with those that the queue has taken and not got yet."""

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        """Add what the log is to say of messages, numbered from `first` on, behind them in their entry. Of
        messages that are in no log the queue alone hears. `now` is wall clock, in milliseconds.
        """


Making = Callable[[DeliveryState, Feature | None], Feature | None]
"""(delivery, the queue's share so far) -> the queue's share as the settings ask for it now, None for none."""


class Declaration:
    """A feature, as `registry` lists it.

    `arguments` are what it is asked for with, `make` gives a queue its share, `rule` says what its owner
    does by its settings; None for nothing. `aspect` is the annotation that `Feature.note` hears of.
    `by_message` makes a share for a queue that did not ask for it, and has a message with the aspect.
    """

    __slots__ = ("arguments", "aspect", "by_message", "make", "rule")

    def __init__(
        self,
        *arguments: Argument[Any],
        make: Making | None = None,
        rule: Callable[[QueueSettings], Rule | None] | None = None,
        aspect: Aspect | None = None,
        by_message: Callable[[DeliveryState], Feature] | None = None,
    ) -> None:
        self.arguments = arguments
        self.make = make
        self.rule = rule
        self.aspect = aspect
        self.by_message = by_message
