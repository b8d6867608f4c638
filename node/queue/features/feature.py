"""What a feature of queues is: what it is asked for with, and the moments at which it has a say.

A feature is one module of this package, with a `Declaration` that `registry` lists. A queue that asks for
the feature has a share of it, an object of a class derived from `Feature`, while its owner leads;
what must outlive the owner goes into the log, by `FeatureContext`. A hook is called with ranges or runs, once
for each range, run, or turn of the queue at most. A queue that asks for nothing has no shares, and calls no
hook.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from node.message.reason import Reason
from node.message.run import Run
from node.queue.consumers import Consumer
from node.queue.features.argument import Argument
from node.queue.operations import Aspect
from node.queue.places import Places
from node.ranges.range_map import Span
from node.ranges.range_set import Range


class FeatureContext(Protocol):
    """What a feature may ask of the owner of its queue. Nothing that is logged is committed on return."""

    @property
    def number(self) -> int:
        """The queue's, as operations name it."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""

    def log(self, operation: bytes) -> None:
        """Put an operation into the next entry, before the messages that it brings."""

    def wake(self, at_ms: int) -> None:
        """Have the queue served at a time, in milliseconds since the epoch; an earlier one counts."""

    def serve_again(self) -> None:
        """Have the queue served in the next turn."""

    def give_up(self, ranges: list[Range], reason: Reason) -> None:
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

    def given(self, consumer: Consumer, ranges: list[Range]) -> None:
        """The messages are leased to the consumer. No log says so; the mark in the log is above them."""

    def served(self, context: FeatureContext, *, complete: bool) -> None:
        """Consumers have been given what they may have; `complete`: all that they have credit for."""

    def settle(self, ranges: list[Range]) -> None:
        """The messages are gone: settled, purged or given up. The operation is about to be logged."""

    def return_(self, first: int, last: int) -> None:
        """A consumer has the messages no more, and has not settled them. They are about to be ready, or to
        rest; their RETURN is committed, or need not be.
        """

    def exhausted(self, front_end: int, ranges: Sequence[Range]) -> list[Range]:
        """The front end gives messages back whose delivery has failed once more: those that are given up. The
        failure is not counted yet.
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


Making = Callable[[Places, Feature | None], Feature | None]
"""(places, the queue's share so far) -> the queue's share as the settings ask for it now, None for none."""


class Declaration:
    """A feature, as `registry` lists it.

    `arguments` are what it is asked for with, `make` gives a queue its share. `aspect` is the annotation that
    `Feature.note` hears of. `by_message` makes a share for a queue that did not ask for it, and has a message
    with the aspect.
    """

    __slots__ = ("arguments", "aspect", "by_message", "make")

    def __init__(
        self,
        *arguments: Argument[Any],
        make: Making | None = None,
        aspect: Aspect | None = None,
        by_message: Callable[[Places], Feature] | None = None,
    ) -> None:
        self.arguments = arguments
        self.make = make
        self.aspect = aspect
        self.by_message = by_message
