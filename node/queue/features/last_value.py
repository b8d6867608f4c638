"""The last value of each key (queue argument x-key, D16): a message replaces the one before it that has the
same key, as in the last-value queues of other brokers.

The owner decides the key of a message once, when the message is published, and logs a digest of the key. A
message that is replaced while a consumer has it stays with the consumer, and leaves the queue instead of
coming back. The log has that it is replaced, as the message that replaced it may leave the queue before.

A message with the header `x-delta` is a patch of the last value of its key (JSON Merge Patch, RFC 7396). The
owner merges it when it comes, and the log has the whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Final

from node.expressions.expression import Expression
from node.message.merge_patch import EMPTY_OBJECT, merged_body
from node.message.run import Run
from node.queue.argument import Argument, beside_none_of
from node.queue.argument_types import read_expression
from node.queue.decision_format import encode_annotate
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Feature, FeatureContext, Incoming, Notes, Rule
from node.queue.newest_by_key import NONE_NEWEST, NewestByKey
from node.queue.operations import Aspect
from node.queue.settings import QueueSettings
from node.queue.values import Values
from node.ranges.range_map import ABOVE_ALL, Span
from node.ranges.range_set import Range, RangeSet
from node.wire.formats import format_of

NO_KEY: Final = 0
"""Messages without a value of the expression have no key: they replace no message."""

REPLACED: Final = 1
"""Stands for the key of a message that is replaced while it is not ready."""

_FIRST_KEY: Final = 2

DELTA: Final = "x-delta"
"""The header, or the application property of AMQP 1.0, that makes a message a patch where it is true."""

_REMEMBERED: Final = 256
"""Whether a message is a patch is remembered for so many different headers."""

KEY: Final = Argument(
    "x-key",
    read_expression,
    "key",
    misfit=beside_none_of("x-key", ("x-barrier-expression", "x-target-queue-depth")),
)


def key_of(value: object) -> int:
    """The key for a value of the expression: 64 bits of a digest. Equal numbers have one key, whatever their
    types. NO_KEY for NULL, and for values that are no text, number, boolean or octets.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str):
        named = b"s" + value.encode("utf-8", "surrogateescape")
    elif isinstance(value, bytes):
        named = b"o" + value
    elif isinstance(value, bool | int | float):
        named = repr(value).encode()
    else:
        return NO_KEY
    return max(int.from_bytes(blake2b(named, digest_size=8).digest(), "little"), _FIRST_KEY)


class LastValues(Feature):
    """Knows the newest message of each key, and removes the messages that these replace."""

    def __init__(self, delivery: DeliveryState) -> None:
        super().__init__()
        self._delivery = delivery
        self._newest = NewestByKey()
        self._outdated = RangeSet()
        """Replaced messages that were not ready, and are in the queue until they are ready or settled."""
        self._unlogged = RangeSet()
        """Those of which the log does not have yet that they are replaced."""
        self._gone = RangeSet()
        """Replaced messages that were ready. Consumers and readers see these no more."""
        self._coming: deque[tuple[int, int, Run, list[Span]]] = deque()
        """Runs that entries bring which are not applied yet: (number of the last message, number of the first
        message, run, keys by index), in the order in which they come.
        """
        self._last_coming: dict[int, tuple[int, Run, int]] = {}
        """The newest message of each key in the first `_indexed` of these runs: its number, the run, and its
        index there. It is made when a patch asks for it.
        """
        self._indexed = 0
        # Before the first turn the owner does not know which ready messages are leased.
        self._served = False
        every = delivery.state.living(0, ABOVE_ALL)
        every.update(delivery.soft.numbers.ranges())
        for part in every.ranges():
            for first, last, key in delivery.annotations.cover(Aspect.KEY, *part):
                if key == REPLACED:
                    self._outdated.add(first, last)
                elif key:
                    for one in self._seen(first, last):
                        self._find(*one, key)

    def _seen(self, first: int, last: int) -> list[Range]:
        """The messages of a range that consumers could have got: not those that are delayed and not due."""
        scheduled = self._delivery.scheduled
        if scheduled is None:
            return [(first, last)]
        seen = RangeSet([(first, last)])
        for part in scheduled.intersection(first, last):
            seen.remove(*part)
            seen.update(self._delivery.redelivered.intersection(*part))
        return list(seen.ranges())

    def coming(self, first: int, run: Run, keys: list[Span]) -> None:
        """The next entry brings messages, numbered from `first` on, with these keys by index."""
        self._coming.append((first + run.count - 1, first, run, keys))

    def last_value(self, key: int, context: FeatureContext) -> Run | None:
        """The newest message of a key, also one that is coming; None without one.

        Raises DamagedEntryError.
        """
        for _, first, run, keys in islice(self._coming, self._indexed, None):
            for _, last, named in keys:
                self._last_coming[named] = first + last, run, last
        self._indexed = len(self._coming)
        newest = self._newest.get(key)
        found = self._last_coming.get(key)
        if found is not None and found[0] > newest:
            return found[1].slice(found[2], 1)
        if newest == NONE_NEWEST:
            return None
        soft = self._delivery.soft.runs(newest, newest)
        ((_, message),) = soft or context.contents(newest, newest)
        return message

    def note(self, spans: Sequence[Span]) -> None:
        ready, every = self._delivery.ready, (spans[0][0], spans[-1][1])
        self._came(every[1])
        all_ready = ready.intersection(*every) == [every]
        for first, last, key in spans:
            if all_ready:
                self._find(first, last, key)
                continue
            for part in ready.intersection(first, last):
                self._find(*part, key)

    def _came(self, upto: int) -> None:
        """Messages up to a number are applied."""
        coming = self._coming
        while coming and coming[0][0] <= upto:
            coming.popleft()
            self._indexed = 0
        if self._last_coming and not self._indexed:
            self._last_coming.clear()

    def ready(self, first: int, last: int, had: list[Range]) -> None:
        self._take_out(self._outdated.intersection(first, last))
        for start, end, key in self._delivery.annotations.cover(Aspect.KEY, first, last):
            if key > REPLACED:
                self._find(start, end, key)

    def _find(self, first: int, last: int, key: int) -> None:
        """The messages of a range have this key, and are in their places."""
        former = newest = self._newest.get(key)
        if former < last:
            newest = last
            self._newest.set(key, last)
            if NONE_NEWEST != former < first:
                self._replace(former, former)
            last -= 1
        last = min(last, newest - 1)
        if first <= last:
            self._replace(first, last)

    def _replace(self, first: int, last: int) -> None:
        """Newer messages have the key of these."""
        self._outdated.add(first, last)
        self._unlogged.add(first, last)
        if self._served:
            self._take_out(self._delivery.ready.intersection(first, last))

    def _take_out(self, ranges: list[Range]) -> None:
        """Take replaced messages out of the ready ones."""
        for one in ranges:
            self._delivery.ready.remove(*one)
            self._outdated.remove(*one)
            self._unlogged.remove(*one)
            self._gone.add(*one)

    def settle(self, ranges: list[Range]) -> None:
        newest = self._newest
        for one in ranges:
            for first, last, key in self._delivery.annotations.cover(Aspect.KEY, *one):
                if first <= newest.get(key) <= last:
                    newest.remove(key)
        self._outdated.remove_all(ranges)
        self._unlogged.remove_all(ranges)

    def serve(self, context: FeatureContext, now: int) -> None:
        delivery = self._delivery
        if not self._served:
            self._served = True
            for one in list(self._outdated.ranges()):
                self._take_out(delivery.ready.intersection(*one))
        if self._unlogged:
            spans = [(first, last, REPLACED) for first, last in self._unlogged.ranges()]
            self._unlogged.clear()
            context.log(encode_annotate(context.number, Aspect.KEY, spans))
            for first, last, _ in spans if delivery.soft.numbers else ():
                soft = delivery.soft.numbers.intersection(first, last)
                delivery.soft.annotate(Aspect.KEY, [(*part, REPLACED) for part in soft])
        if self._gone:
            gone = list(self._gone.ranges())
            self._gone.clear()
            context.remove_replaced(gone)


class Keys(Rule):
    """States the key of each message."""

    def __init__(self, expression: bytes) -> None:
        super().__init__()
        self._expression = expression
        self._values = Values(Expression(expression))
        self._deltas: dict[bytes, bool] = {}

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        spans = [(first + start, first + end, key) for start, end, key in self._keys(incoming)]
        if spans:
            notes[Aspect.KEY] = spans

    def _keys(self, incoming: Incoming) -> list[Span]:
        found = incoming.keys.get(self._expression)
        if found is None:
            found = incoming.keys[self._expression] = [
                (index, index + count - 1, key)
                for index, count, value in self._values.stretches(incoming.run)
                if (key := key_of(value)) != NO_KEY
            ]
        return found

    # -- deltas ---------------------------------------------------------------------------------

    def has_deltas(self, run: Run) -> bool:
        return any(delta for _, _, delta in self._stretches(run))

    def _stretches(self, run: Run) -> Iterator[tuple[int, int, bool]]:
        """(index, count, whether they are patches) for messages of a run in a row."""
        messages, known = format_of(run), self._deltas
        for index, count, headers in messages.header_keys(run, (DELTA,)):
            delta = known.get(headers)
            if delta is None:
                if len(known) >= _REMEMBERED:
                    known.clear()
                _, _, properties = next(messages.properties_in(run.slice(index, 1)))
                delta = known[headers] = messages.headers(properties).get(DELTA) is True
            yield index, count, delta

    def merge(self, share: Feature | None, context: FeatureContext, run: Run) -> list[tuple[Run, bool]]:
        found: list[tuple[Run, bool]] = []
        before: dict[int, Run] = {}
        for index, count, delta in self._stretches(run):
            piece = run.slice(index, count)
            if not delta:
                found.append((piece, False))
                for _, last, key in self._keys(Incoming(piece)):
                    before[key] = piece.slice(last, 1)
                continue
            for _, one in [one for at in range(count) for one in format_of(run).by_key(piece.slice(at, 1))]:
                whole = self._whole(share, context, one, before)
                found.append((one, True) if whole is None else (whole, False))
        return found

    def _whole(
        self, share: Feature | None, context: FeatureContext, delta: Run, before: dict[int, Run]
    ) -> Run | None:
        """A patch as the message that it makes of the last value of its key, which is in `before` where the
        same run brings it; None for a patch without a key, or that cannot be merged.
        """
        ((_, _, key),) = self._keys(Incoming(delta)) or [(0, 0, NO_KEY)]
        if key == NO_KEY or not isinstance(share, LastValues):
            return None
        former = before.get(key) or share.last_value(key, context)
        messages = format_of(delta)
        patch = messages.contents(delta)[1]
        body = merged_body(EMPTY_OBJECT if former is None else format_of(former).contents(former)[1], patch)
        if body is None:
            return None
        whole = before[key] = messages.with_body(delta, body)
        return whole

    def taken(self, share: Feature | None, incoming: Incoming, first: int) -> None:
        keys = self._keys(incoming)
        if keys and isinstance(share, LastValues):
            share.coming(first, incoming.run, keys)


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    return None if KEY.of(delivery.settings) is None else former or LastValues(delivery)


def _rule(settings: QueueSettings) -> Rule | None:
    expression = KEY.of(settings)
    return None if expression is None else Keys(expression)


FEATURE: Final[Declaration] = Declaration(KEY, make=_share, rule=_rule, aspect=Aspect.KEY)
