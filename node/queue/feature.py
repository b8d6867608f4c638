"""The interface of a feature of queues: its declaration, and the hooks that the owner calls.

A feature is one module of `node.queue.features`, with a `Declaration` that the `registry` there lists. A
queue that asks for the feature has a share of it while its owner leads: an object of a class derived from
`Feature`. State that must outlive the owner goes into the log (`FeatureContext.log`). About incoming messages
the owner decides by the queue's settings alone, with a `Rule`, which is made once for each settings. The
owner calls a hook with ranges or runs, at most once for each range, run, or turn of the queue. A queue that
asks for nothing has no shares, and calls no hook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from node.delivery.backlog import NO_BACKLOG
from node.message.format import Asked
from node.message.reason import Reason
from node.message.run import Run
from node.message.streams import StreamOffset
from node.message.template import Template
from node.queue.argument import Argument
from node.queue.consumers import Consumer
from node.queue.delivery_state import DeliveryState
from node.queue.leases import NO_DEADLINE
from node.queue.operations import Aspect, Semantics
from node.queue.settings import QueueSettings
from node.queue.weights import Weights
from node.ranges.range_map import Span
from node.ranges.range_set import Range
from node.wire.formats import format_of

ToldRun = tuple[list[Range], Run]
"""Messages with the ranges of their numbers in the queue."""


class FeatureContext(Protocol):
    """The owner of a queue, as features call it. An operation is not committed when the call returns."""

    @property
    def number(self) -> int:
        """The queue's id, for operations."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""

    def settings_fresh(self) -> bool:
        """Whether the queue's settings show every change of a policy of which any client has been told. Where
        they do not, the owner serves the queue again later.
        """

    def log(self, operation: bytes) -> None:
        """Put an operation into the next entry, before the entry's messages."""

    def log_behind(self, operation: bytes) -> None:
        """Put an operation into the next entry, behind the entry's messages."""

    def wake(self, at_ms: int) -> None:
        """Serve the queue at this time, in milliseconds since the epoch, or at an earlier time asked for."""

    def serve_again(self) -> None:
        """Serve the queue in the next turn."""

    def discard(self, ranges: list[Range], reason: Reason) -> None:
        """Discard ready messages, as dead letters or for good."""

    def held_from(self) -> int:
        """The first message of a stream that retention has to leave, with all behind it."""

    def remove_replaced(self, ranges: list[Range]) -> None:
        """Remove ready messages for good, as newer ones have their keys."""

    def contents(self, first: int, last: int) -> list[tuple[int, Run]]:
        """The messages of the range that the log has, as runs with their first sequence number."""

    def release_barrier(self, number: int) -> None:
        """Every message before a barrier is settled: log its release, and deliver it to all consumers."""

    def show_to_all(self, number: int) -> None:
        """Deliver a released barrier to all consumers, unless that is under way."""

    def lend(self) -> None:
        """Lend the ready messages, which consumers have left, to other owners of the queue that have room; or
        ask these for messages.
        """

    def feed(self) -> None:
        """Go on with the rows of the view that feeds the stream."""

    def tell_activity(self, consumer: Consumer) -> None:
        """Send `joined` and `activated` of a consumer to its front end, which keeps them for the
        next owner.
        """


class Feature:
    """One queue's share of a feature. The hooks of the base class do nothing."""

    def __init__(self, *, passes_on: bool = False) -> None:
        """`passes_on`: a consumer's settlement may let another consumer get more."""
        self.passes_on = passes_on
        self.reason = Reason.DELIVERY_LIMIT
        """See `exhausted`."""

    def take_over(self, context: FeatureContext) -> None:
        """The queue has a new owner, or other settings. The log is applied up to the owner's first entry.
        Messages of a time when the queue did not ask for the feature lack its annotations.
        """

    def note(self, spans: Sequence[Span]) -> None:
        """New messages have these values of the declared aspect, as spans (first, last, value), ascending and
        disjoint. The annotation is committed, or the messages are in no log.
        """

    def serve(self, context: FeatureContext, now: int) -> None:
        """The owner is about to dispatch the queue's messages, all of which are committed or in no log. `now`
        is in milliseconds since the epoch.
        """

    def room(self, consumer: Consumer, wanted: int) -> int:
        """The number of messages, at most `wanted`, that a consumer which settles its messages may
        get now.
        """
        return wanted

    def lease_until(self, consumer: Consumer | None, now: int) -> int:
        """The deadline of leases that begin now, in milliseconds since the epoch, or `leases.NO_DEADLINE`.

        The earliest deadline of all features counts. `consumer` is None where a new owner learns of the
        leases from their front end. A queue with a feature that overrides this hook has leases with tokens.
        """
        return NO_DEADLINE

    def given(self, consumer: Consumer, ranges: list[Range]) -> None:
        """The messages are leased to the consumer. The log has no leases; its mark is above the messages."""

    def served(self, context: FeatureContext, *, complete: bool) -> None:
        """The owner has dispatched. `complete`: consumers have got all that they have credit for."""

    def settle(self, ranges: list[Range]) -> None:
        """The messages are settled, purged or discarded. The operation is about to be proposed, and the
        queue still has their annotations.
        """

    def return_(self, first: int, last: int) -> None:
        """The messages are given back, and are about to be ready or to rest. A RETURN that the log needs is
        committed.
        """

    def exhausted(self, front_end: int, ranges: Sequence[Range], cancelled: bool) -> list[Range]:
        """The messages to discard, for `reason`, among those that the front end returns after a failed
        delivery. The failure is not counted yet. `cancelled`: a client has said that the delivery failed.
        """
        return []

    def cancelled(self, front_end: int, ranges: Sequence[Range]) -> list[Span]:
        """How many times clients have said of each message that its delivery failed, this time included. The
        counts go into the log with the RETURN, as the aspect CANCELS.
        """
        return []

    def rest(self, front_end: int, ranges: Sequence[Range], now: int) -> list[Span]:
        """The messages to rest among those that the front end returns after a failed delivery, each with the
        end of its rest in milliseconds since the epoch. The times go into the log with the RETURN. The
        failure is not counted yet.
        """
        return []

    def ready(self, first: int, last: int, had: list[Range]) -> None:
        """Messages are ready that were not new. `had` are those that a consumer may have had."""

    def as_told(self, ranges: list[Range], run: Run, now: int) -> Iterable[ToldRun]:
        """The messages of a run, with the numbers in `ranges`, as consumers get them.

        `now` is in milliseconds since the epoch.
        """
        return ((ranges, run),)


Notes = dict[Aspect, list[Span]]
"""Annotations of one queue's messages for the log: by aspect, spans (first, last, value), ascending."""


class Incoming:
    """A run of incoming messages, with what the rules of its queues have found out about it."""

    __slots__ = ("_asked", "_stretches", "format", "ids", "keys", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.format = format_of(run)
        self._stretches: list[tuple[int, int, bytes]] | None = None
        self._asked: list[Asked] | None = None
        self.ids: list[tuple[int, bytes]] | None = None
        """(index, digest) of each message with an id; None before a rule has looked them up."""
        self.keys: dict[bytes, list[Span]] = {}
        """(first, last, key) for messages in a row with one key, by the expression, as far as rules have
        asked.
        """

    def stretches(self) -> list[tuple[int, int, bytes]]:
        """(first, last, properties) for messages in a row with the same properties, counted from 0."""
        found = self._stretches
        if found is None:
            stretches = self.format.properties_in(self.run)
            found = self._stretches = [(index, index + count - 1, each) for index, count, each in stretches]
        return found

    def asked(self) -> list[Asked]:
        """The wishes of the messages. Empty where no message asks for anything."""
        found = self._asked
        if found is None:
            found = self._asked = self.format.asked_in(self.run) if self.run.special else []
        return found

    def size_spans(self) -> list[Span]:
        """(first, last, octets) for messages in a row with bodies of one size, counted from 0."""
        return self.format.size_spans(self.run)


@dataclass(frozen=True, slots=True)
class Repeats:
    """The duplicates in a run, counted from 0: `had` repeat messages that the queue has seen, `again` repeat
    other messages of the run, whose index is the value.
    """

    had: frozenset[int] = frozenset()
    again: dict[int, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.had or self.again)


NO_REPEATS: Final = Repeats()


class KeptOut(NamedTuple):
    """The messages of a run, counted from 0, that a filter keeps out of a queue. `unreadable` counts those of
    the run whose body the filter asks for, and cannot read.
    """

    ranges: list[Range]
    unreadable: int


@dataclass(frozen=True, slots=True)
class DeadLetterTarget:
    """The exchange for a queue's dead letters, and their routing key; None: each keeps its own key. With a
    `template` they have bodies that are made of it.
    """

    exchange: str
    routing_key: str | None
    template: Template | None = None


@dataclass(slots=True)
class Description:
    """The properties of a queue that modules outside of the features read.

    `dead_letters`: the target of discarded messages; None without one. `refused_too`: messages that the full
    queue refuses are dead letters, too. `unused_ms`: the queue is deleted after so many milliseconds without
    use by a client; None for never. `by_consumer`: front ends must tell a new owner which of their consumers
    has which message. `takes_turns`: one consumer at a time is active, and front ends must tell a new owner
    which one. `backlog_cap`: the most that the backlog of a consumer may be (`node.delivery.backlog`).
    `strict_leases`: a consumer alone settles the messages that it has. `leases_end`: leases lapse after a
    period. `stream`: the queue keeps its messages for all readers. `recovery_point`: where in the stream
    under it the past begins that the new queue has; None for no past. `decides_past`: the queue decides about
    each message of the past. `history`: a stream of its own keeps the queue's messages. `shared`: several
    owners have parts of the queue, and lend each other messages. `barriers`: some messages are barriers.
    `file_backed`: replicas keep ranges and annotations outside of memory. `view`: the view that feeds the
    stream; empty for none.
    """

    dead_letters: DeadLetterTarget | None = None
    refused_too: bool = False
    unused_ms: int | None = None
    by_consumer: bool = False
    takes_turns: bool = False
    backlog_cap: int = NO_BACKLOG
    strict_leases: bool = False
    leases_end: bool = False
    stream: bool = False
    recovery_point: StreamOffset | None = None
    decides_past: bool = False
    history: bool = False
    shared: bool = False
    barriers: bool = False
    file_backed: bool = False
    view: str = ""

    @property
    def logs_all(self) -> bool:
        """Whether transient messages go into the log, too: readers of a stream, and other owners, get
        messages out of the log.
        """
        return self.stream or self.shared

    def keeps_for_links(self, semantics: Semantics) -> bool:
        """Whether a queue that is not in memory keeps messages for links that are not attached
        (docs/decisions/0047-leases-of-links.md): one that removes a message when it is settled, whose
        order is not by consumer, whose leases do not lapse, and that has one owner.
        """
        by_itself = self.by_consumer or self.takes_turns or self.leases_end or self.shared
        return semantics is Semantics.AT_LEAST_ONCE and not by_itself


class Rule:
    """A feature's decisions about incoming messages, by a queue's settings. The queue may not have its share
    of the feature yet: then `share` is None. The hooks of the base class do nothing.
    """

    def __init__(self, *, special_only: bool = False) -> None:
        """`special_only`: `decide` is called only for runs whose messages ask for something
        (`Run.special`).
        """
        self.special_only = special_only

    def describe(self, description: Description) -> None:
        """Set the feature's fields of the description."""

    def leave(self, incoming: Incoming) -> KeptOut:
        """The messages of a run that never enter the queue. No other hook of the queue's rules sees them. The
        answer for a message is always the same.
        """
        return KeptOut([], 0)

    def repeats(self, share: Feature | None, incoming: Incoming, now: int) -> Repeats:
        """The duplicates in a run. The share remembers no id, as the queue may refuse the messages."""
        return NO_REPEATS

    def refuse(
        self,
        queue: DeliveryState,
        share: Feature | None,
        upcoming: Weights | None,
        incoming: Incoming,
        repeats: Repeats,
    ) -> list[Range]:
        """The messages of a run, counted from 0, that the queue refuses. `upcoming` are messages that the
        owner has accepted for the queue in entries that are not applied yet.
        """
        return []

    def omit(self, share: Feature | None, context: FeatureContext, incoming: Incoming) -> list[Range]:
        """The messages of a run, counted from 0, that the queue does not refuse and yet leaves out:
        duplicates. The share remembers the ids of the others, which the queue takes.
        """
        return []

    def has_deltas(self, run: Run) -> bool:
        """Whether a message of the run is to be merged into an earlier one."""
        return False

    def merge(self, share: Feature | None, context: FeatureContext, run: Run) -> list[tuple[Run, bool]]:
        """The messages of a run that has deltas, in order: deltas are whole. True: the queue refuses the
        messages, which are deltas that cannot be merged. Raises DamagedEntryError.
        """
        return [(run, False)]

    def taken(self, share: Feature | None, incoming: Incoming, first: int) -> None:
        """The next entry brings messages, numbered from `first` on. Of rules that merge."""

    def expect(self, upcoming: Weights, incoming: Incoming, first: int) -> None:
        """Add accepted messages, numbered from `first` on, to those in entries that are not applied yet."""

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        """Add annotations of messages, numbered from `first` on. The log has them behind the messages in
        their entry; messages that are in no log have theirs with the owner. `now` is in milliseconds since
        the epoch.
        """


Making = Callable[[DeliveryState, Feature | None], Feature | None]
"""(delivery, the queue's former share) -> the share that the queue's settings ask for now; None for none."""


class Declaration:
    """A feature, as `registry` lists it.

    `arguments` ask for it. `make` makes or keeps a queue's share, `rule` makes the rule for settings; both
    may be None. `Feature.note` is called for annotations of `aspect`. `by_message` makes a share for a queue
    that does not ask for the feature and has a message with the aspect; `by_filter` makes one for a queue
    that has a consumer with a filter.
    """

    __slots__ = ("arguments", "aspect", "by_filter", "by_message", "make", "rule")

    def __init__(
        self,
        *arguments: Argument[Any],
        make: Making | None = None,
        rule: Callable[[QueueSettings], Rule | None] | None = None,
        aspect: Aspect | None = None,
        by_message: Callable[[DeliveryState], Feature] | None = None,
        by_filter: Callable[[DeliveryState], Feature] | None = None,
    ) -> None:
        self.arguments = arguments
        self.make = make
        self.rule = rule
        self.aspect = aspect
        self.by_message = by_message
        self.by_filter = by_filter
