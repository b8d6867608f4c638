"""Limits on the ready messages of a queue and on the octets of their bodies (queue arguments x-max-length,
x-max-length-bytes, x-overflow).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from node.message.reason import Reason
from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import one_of, read_natural
from node.queue.decision_format import encode_annotate
from node.queue.delivery_state import DeliveryState
from node.queue.feature import (
    Declaration,
    Description,
    Feature,
    FeatureContext,
    Incoming,
    Notes,
    Repeats,
    Rule,
)
from node.queue.operations import Aspect
from node.queue.settings import QueueSettings
from node.queue.stream_settings import LOOK_AGAIN_MS, is_stream
from node.queue.weights import Weights
from node.ranges.range_map import ABOVE_ALL, RangeMap, Span
from node.ranges.range_set import Range, RangeSet
from node.wire.formats import format_of

WEIGHED_AT_ONCE: Final = 4096
"""The size of at most so many messages is looked up in one turn."""


class Overflow(StrEnum):
    """The reaction of a full queue: it drops its oldest messages, or refuses new ones, with or without making
    them dead letters.
    """

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


_OVERFLOWS: Final = {policy.value: policy for policy in Overflow}

MAX_LENGTH: Final = Argument("x-max-length", read_natural, "max_length", policy=PolicyUse.LIMIT)
MAX_LENGTH_BYTES: Final = Argument(
    "x-max-length-bytes", read_natural, "max_length_bytes", policy=PolicyUse.LIMIT
)
OVERFLOW: Final[Argument[Overflow]] = Argument(
    "x-overflow",
    one_of(_OVERFLOWS, "invalid_overflow"),
    "overflow",
    policy=PolicyUse.OPERATOR,
    default=Overflow.DROP_HEAD,
)


def refuses(settings: QueueSettings) -> bool:
    """Whether the queue, when it is full, refuses new messages instead of dropping old ones."""
    limited = MAX_LENGTH.of(settings) is not None or weighs(settings)
    return limited and OVERFLOW.of(settings) is not Overflow.DROP_HEAD


def weighs(settings: QueueSettings) -> bool:
    """Whether the queue has a limit on the octets of its messages."""
    return MAX_LENGTH_BYTES.of(settings) is not None


def refused(settings: QueueSettings, messages: int, octets: int, sizes: Iterable[Span]) -> list[Range]:
    """The new messages that a queue refuses, which has `messages` messages with `octets` octets already.
    `messages` is negative where consumers have credit for more than the queue has.

    `sizes` are spans of equal body size, in the order in which the messages come. As RabbitMQ does, the queue
    refuses a message that would exceed a limit, and takes a smaller message behind it that does not.
    """
    length, limit = MAX_LENGTH.of(settings), MAX_LENGTH_BYTES.of(settings)
    found = []
    for first, last, size in sizes:
        if length == 0 or (limit is not None and size > limit):
            found.append((first, last))
            continue
        passing = min(last - first + 1, max(0, -messages))
        room = last - first + 1 - passing
        if length is not None:
            room = min(room, length - max(0, messages))
        if limit is not None and size:
            room = min(room, (limit - octets) // size)
        room = max(room, 0)
        messages += passing + room
        octets += room * size
        if first + passing + room <= last:
            found.append((first + passing + room, last))
    return found


def surplus(settings: QueueSettings, messages: int, octets: int) -> tuple[int, int]:
    """How many messages, and how many octets, a queue that drops its oldest messages has over its limits."""
    if OVERFLOW.of(settings) is not Overflow.DROP_HEAD:
        return 0, 0
    length, size = MAX_LENGTH.of(settings), MAX_LENGTH_BYTES.of(settings)
    return (
        0 if length is None else max(0, messages - length),
        0 if size is None else max(0, octets - size),
    )


def enough(sizes: Sequence[Span], messages: int, octets: int) -> Range | None:
    """The beginning of a range that has to go so that the surplus of messages and that of octets are gone.

    `sizes` are the spans of the range by body size. The whole range where that is not enough; None where
    there is no surplus.
    """
    taken = None
    for first, last, size in sizes:
        if messages <= 0 and octets <= 0:
            break
        count = last - first + 1
        by_octets = -(-octets // size) if size and octets > 0 else (count if octets > 0 else 0)
        count = min(count, max(messages, by_octets))
        taken = (sizes[0][0], first + count - 1)
        messages -= count
        octets -= count * size
    return taken


class Limits(Feature):
    """Counts the octets of the queue's messages, and drops the oldest ready messages over the limits.

    `weights` is None unless the queue has a limit on octets.
    """

    def __init__(self, delivery: DeliveryState) -> None:
        super().__init__()
        self._delivery = delivery
        self.weights = _weighed(delivery) if weighs(delivery.settings) else None

    def note(self, spans: Sequence[Span]) -> None:
        """The values are the octets of the messages' bodies."""
        if self.weights is not None:
            for span in spans:
                self.weights.add(*span)

    def settle(self, ranges: list[Range]) -> None:
        if self.weights is not None:
            self.weights.remove_all(ranges)

    def serve(self, context: FeatureContext, now: int) -> None:
        if self.weights is not None and self.weights.unknown:
            self._weigh_some(context, self.weights)

    def served(self, context: FeatureContext, *, complete: bool) -> None:
        """Drop the ready messages over the limits, after consumers have got what they have credit for. A
        limit that a client has been told to be gone drops nothing.
        """
        ready, settings = self._delivery.ready, self._delivery.settings
        messages, octets = surplus(settings, len(ready), self.ready_octets()) if complete else (0, 0)
        if (messages or octets) and not context.settings_fresh():
            return
        while messages or octets:
            victims = ready.lowest()
            gone = None if victims is None else enough(self._sizes(*victims), messages, octets)
            if gone is None:
                break
            if is_stream(settings) and gone[1] >= (held := context.held_from()):
                context.wake(context.wall_ms() + LOOK_AGAIN_MS)
                if gone[0] < held:
                    context.discard([(gone[0], held - 1)], Reason.MAXLEN)
                break
            context.discard([gone], Reason.MAXLEN)
            messages, octets = surplus(settings, len(ready), self.ready_octets())

    def ready_octets(self) -> int:
        """The octets of the bodies of ready messages; 0 unless the queue has a limit on octets."""
        delivery, weights = self._delivery, self.weights
        if weights is None:
            return 0
        others = [part for place in (delivery.held, *delivery.leases.values()) for part in place.ranges()]
        if delivery.scheduled:
            others += delivery.scheduled.intersection(0, ABOVE_ALL)
        return weights.octets - sum(weights.weigh(*part) for part in others)

    def _sizes(self, first: int, last: int) -> list[Span]:
        """The range as spans of equal body size; of size 0 unless the queue has a limit on octets."""
        return [(first, last, 0)] if self.weights is None else self.weights.cover(first, last)

    def _weigh_some(self, context: FeatureContext, weights: Weights) -> None:
        """Look up and log the sizes of some messages that came in while the queue had no limit on octets."""
        delivery, unknown = self._delivery, weights.unknown
        first, last = unknown.front() or (0, 0)
        last = min(last, first + WEIGHED_AT_ONCE - 1)
        unknown.remove(first, last)
        durable: list[Span] = []
        for part in delivery.state.alive.intersection(first, last):
            for position, run in context.contents(*part):
                durable += [
                    (position + low, position + high, size)
                    for low, high, size in format_of(run).size_spans(run)
                ]
        if durable:
            context.log(encode_annotate(context.number, Aspect.SIZE, durable))
        soft = [
            (position + low, position + high, size)
            for position, run in delivery.soft.runs(first, last)
            for low, high, size in format_of(run).size_spans(run)
        ]
        delivery.soft.annotate(Aspect.SIZE, soft)
        for span in (*durable, *soft):
            weights.add(*span)
        if unknown:
            context.serve_again()


def _weighed(delivery: DeliveryState) -> Weights:
    """The weights of the queue's messages. Those whose size has not been logged are `unknown`."""
    every = delivery.state.living(0, ABOVE_ALL)
    every.update(delivery.soft.numbers.ranges())
    soft = delivery.soft.values.get(Aspect.SIZE, RangeMap())
    return Weights.of(every, (*delivery.annotations.logged(Aspect.SIZE).all(), *soft.all()))


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    """Makes a new share whenever the settings change: without a limit on octets no sizes were logged."""
    limited = MAX_LENGTH.of(delivery.settings) is not None or weighs(delivery.settings)
    return Limits(delivery) if limited else None


class Weighing(Rule):
    """States the number of octets of each message's body."""

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        sizes = incoming.size_spans()
        notes[Aspect.SIZE] = [(first + start, first + end, size) for start, end, size in sizes]


class Refusing(Weighing):
    """Refuses messages over the queue's limits."""

    def __init__(self, settings: QueueSettings) -> None:
        super().__init__()
        self._settings = settings
        self._weighs = weighs(settings)

    def describe(self, description: Description) -> None:
        description.refused_too = OVERFLOW.of(self._settings) is Overflow.REJECT_PUBLISH_DLX

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        if self._weighs:
            super().decide(incoming, first, now, notes)

    def expect(self, upcoming: Weights, incoming: Incoming, first: int) -> None:
        for start, end, size in self._sizes(incoming):
            upcoming.add(first + start, first + end, size)

    def _sizes(self, incoming: Incoming) -> list[Span]:
        """Spans of equal body size; of size 0 unless the queue has a limit on octets."""
        return incoming.size_spans() if self._weighs else [(0, incoming.run.count - 1, 0)]

    def refuse(
        self,
        queue: DeliveryState,
        share: Feature | None,
        upcoming: Weights | None,
        incoming: Incoming,
        repeats: Repeats,
    ) -> list[Range]:
        # Messages that consumers have credit for leave the queue at once, so they do not count.
        messages = len(queue.ready) - queue.consumers.credit_left
        octets = 0
        if upcoming is not None:
            messages += len(upcoming)
        if messages > 0 and self._weighs:
            octets = share.ready_octets() if isinstance(share, Limits) else 0
            octets += upcoming.octets if upcoming is not None else 0
        sizes = self._sizes(incoming)
        delayed = RangeSet((first, last) for first, last, delay, _, _ in incoming.asked() if delay)
        if not (repeats or delayed):
            return refused(self._settings, messages, octets, sizes)
        return self._refused_singly(messages, octets, sizes, repeats, delayed)

    def _refused_singly(
        self, messages: int, octets: int, sizes: list[Span], repeats: Repeats, delayed: RangeSet
    ) -> list[Range]:
        """As `refused`, message by message. Duplicates and delayed messages take no room. A duplicate of
        another message of the run is refused exactly where that one is.
        """
        settings, found = self._settings, RangeSet()
        for at, size in ((at, size) for first, last, size in sizes for at in range(first, last + 1)):
            if at in repeats.had:
                continue
            if at in repeats.again:
                if repeats.again[at] in found:
                    found.add(at, at)
            elif refused(settings, messages, octets, [(at, at, size)]):
                found.add(at, at)
            elif at not in delayed:
                octets += size if messages >= 0 else 0
                messages += 1
        return list(found.ranges())


def _rule(settings: QueueSettings) -> Rule | None:
    if refuses(settings):
        return Refusing(settings)
    return Weighing() if weighs(settings) else None


FEATURE: Final[Declaration] = Declaration(
    MAX_LENGTH, MAX_LENGTH_BYTES, OVERFLOW, make=_share, rule=_rule, aspect=Aspect.SIZE
)
