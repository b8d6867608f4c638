"""The messages of runs as columns, many runs at a time. Needs numpy and pyarrow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from pipeline.arrow.property_lists import property_columns
from pipeline.arrow.slices import SlicedOctets, repeated, texts_of
from pipeline.message.runs import AMQP_0_9_1, OWN_METHODS, Run
from pipeline.message.text import shown_text

FRAMED: Final = frozenset(("properties", "headers", "body"))
"""The columns for which the frames of messages are read."""

LISTED: Final = frozenset(("properties", "headers"))
"""The columns that property lists tell."""

_STORED: Final = FRAMED | {"raw", "routing_key"}
"""The columns that the octets of messages tell."""

_METHOD, _HEADER_FRAME, _BODY_FRAME, _END = 1, 2, 3, 0xCE
_FRAME_HEAD, _OVERHEAD = 7, 8
"""The octets of a frame in front of its payload, and around it."""

_SIZE_AT: Final = _FRAME_HEAD + 4
_PROPERTIES_AT: Final = _FRAME_HEAD + 12
_LEAST: Final = _PROPERTIES_AT + 3
"""In a header frame: where the size of the body and the property list stand, and the octets without any
property.
"""

_KEY_AT: Final = _FRAME_HEAD + 6
"""In a frame of basic.publish: the exchange, and behind it the routing key."""

PARTS_IN_THEIR_ORDER: Final = 8
"""Runs in so many parts at most, regular and not, become a batch for each part. Rows of more parts are copied
once more, and a batch for each part would take longer than that.
"""

_NUMBERS: Final = 1 << 64
_Part = TypeVar("_Part")


class StoredRun(NamedTuple):
    """A run, and the data in which its messages stand. The first message has the number `first`."""

    data: bytes
    run: Run
    first: int


@dataclass(frozen=True, slots=True)
class LocatedMessages:
    """Where the messages of runs stand, by message: `runs` has the number of its run, `numbers` its own.
    `starts` and `ends`: of the message as `raw` has it. `heads`: where its header frame ends. `keys` and
    `key_ends`: of its own routing key. `regular` is by run: of others each message is looked at by itself.
    """

    octets: SlicedOctets
    runs: Any
    numbers: Any
    starts: Any
    ends: Any
    heads: Any
    keys: Any
    key_ends: Any
    regular: Any

    def columns(self, names: Collection[str], stored: Sequence[StoredRun]) -> dict[str, Any]:
        """Of the named columns those that the octets tell, where all runs are regular. Raises MalformedError,
        pyarrow.ArrowInvalid.
        """
        found: dict[str, Any] = {}
        if "raw" in names:
            found["raw"] = self.octets.parts(self.starts, self.ends)
        if "body" in names:
            begins = np.minimum(self.heads + _FRAME_HEAD, self.ends)
            found["body"] = self.octets.parts(begins, np.maximum(self.ends - 1, begins))
        if not LISTED.isdisjoint(names):
            lists = property_columns(self.octets, self.starts + _PROPERTIES_AT, self.heads - 1)
            found |= lists._asdict()
        if "routing_key" in names:
            found["routing_key"] = self._routing_keys(stored)
        return {name: one for name, one in found.items() if name in names}

    def _routing_keys(self, stored: Sequence[StoredRun]) -> Any:
        shared = [shown_text(one.run.routing_key) for one in stored]
        texts = repeated(shared, pa.string(), self.runs, len(self.runs))
        own = np.array([bool(one.run.flags & OWN_METHODS) for one in stored])[self.runs]
        if not own.any():
            return texts
        places = np.flatnonzero(own)
        both = [texts, texts_of(self.octets.parts(self.keys[places], self.key_ends[places]))]
        order = np.arange(len(texts))
        order[places] = len(texts) + np.arange(len(places))
        return pa.concat_arrays(both).take(pa.array(order))


def locate_messages(stored: Sequence[StoredRun], names: Collection[str]) -> LocatedMessages:
    """The messages of one run or more, for the named columns. Raises OverflowError for too many octets."""
    octets, runs, numbers, lengths = _laid_out(stored)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    regular = np.array([one.first + one.run.messages <= _NUMBERS for one in stored])[runs]
    none = np.zeros(len(runs), np.int64)
    heads = keys = key_ends = none
    if not _STORED.isdisjoint(names):
        skips = np.array([one.run.skip for one in stored], np.int64)[runs]
        own = np.array([bool(one.run.flags & OWN_METHODS) for one in stored])[runs]
        if own.any():
            keys, key_ends, behind, right = _own_keys(octets, starts, ends)
            regular &= right | ~own
            skips = np.where(own, behind - starts, skips)
        starts = starts + skips
        regular &= starts <= ends
    if not FRAMED.isdisjoint(names):
        heads, right = _framed(octets, starts, ends)
        regular &= right & np.array([one.run.format == AMQP_0_9_1 for one in stored])[runs]
    firsts = np.searchsorted(runs, np.arange(len(stored)))
    by_run = np.logical_and.reduceat(regular, firsts)
    return LocatedMessages(octets, runs, numbers, starts, ends, heads, keys, key_ends, by_run)


def _laid_out(stored: Sequence[StoredRun]) -> tuple[SlicedOctets, Any, Any, Any]:
    """The octets of the messages one behind the other; by message its run, its number, and its length."""
    octets = SlicedOctets(
        *(memoryview(one.data)[one.run.content : one.run.content + one.run.size] for one in stored)
    )
    counts = np.array([one.run.messages for one in stored])
    runs = np.repeat(np.arange(len(stored)), counts)
    firsts = np.array([one.first for one in stored], np.uint64) - (np.cumsum(counts) - counts).astype(
        np.uint64
    )
    numbers = np.repeat(firsts, counts) + np.arange(len(runs), dtype=np.uint64)
    lengths = [
        np.full(one.run.messages, one.run.stride, np.int64)
        if one.run.lengths is None
        else np.frombuffer(one.run.lengths, np.uint32).astype(np.int64)
        for one in stored
    ]
    return octets, runs, numbers, np.concatenate(lengths)


def _own_keys(octets: SlicedOctets, starts: Any, ends: Any) -> tuple[Any, Any, Any, Any]:
    """The begins and ends of routing keys in frames of basic.publish, where these frames end, and of which
    messages that is right.
    """
    last = starts + _OVERHEAD + octets.numbers(octets.inside(starts + 3), 4) - 1
    right = (last < ends) & (octets.numbers(starts) == _METHOD)
    right &= octets.numbers(octets.inside(last)) == _END
    exchange = octets.inside(starts + _KEY_AT)
    key = octets.inside(exchange + 1 + octets.numbers(exchange))
    key_ends = key + 1 + octets.numbers(key)
    right &= (exchange < last) & (key < last) & (key_ends <= last)
    return key + 1, key_ends, last + 1, right


def _framed(octets: SlicedOctets, starts: Any, ends: Any) -> tuple[Any, Any]:
    """Where header frames end, and of which messages they and one body frame, or none, are all."""
    starts = octets.inside(starts)
    heads = starts + _OVERHEAD + octets.numbers(octets.inside(starts + 3), 4)
    right = (heads >= starts + _LEAST) & (heads <= ends) & (octets.numbers(starts) == _HEADER_FRAME)
    right &= octets.numbers(octets.inside(heads - 1)) == _END
    size = octets.numbers(octets.inside(starts + _SIZE_AT), 8)
    at = octets.inside(heads)
    # A size of 64 bits is negative here: no message is so long.
    whole = (size >= 0) & (size <= octets.size) & (ends == heads + _OVERHEAD + size)
    whole &= (octets.numbers(at) == _BODY_FRAME) & (octets.numbers(octets.inside(at + 3), 4) == size)
    whole &= octets.numbers(np.maximum(ends - 1, 0)) == _END
    return heads, right & (whole | ((size == 0) & (heads == ends)))


def alike(parts: Sequence[_Part], regular: Any) -> list[tuple[bool, list[_Part]]]:
    """Parts that follow each other and of which all, or none, are regular, together."""
    pairs = zip(regular, parts, strict=True)
    return [(bool(kind), [part for _, part in those]) for kind, those in groupby(pairs, lambda pair: pair[0])]


def order_of_rows(counts: Any, regular: Any) -> Any:
    """Where the rows of runs, each of which has so many, stand once those of the regular runs are in front of
    all others.
    """
    by_kind = np.argsort(~regular, kind="stable")
    places = np.empty_like(counts)
    places[by_kind] = np.cumsum(counts[by_kind]) - counts[by_kind]
    return pa.array(np.repeat(places - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum()))


def joined(batches: Sequence[Any]) -> Any:
    """Batches of the same columns as one."""
    return (
        batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    )


def gathered(batches: Iterable[Any], rows: int, octets: int) -> Iterator[Any]:
    """Batches of the same columns, joined up to so many rows or octets."""
    waiting, total, size = list[Any](), 0, 0
    for one in batches:
        if waiting and (total + len(one) > rows or size + one.nbytes > octets):
            yield joined(waiting)
            waiting, total, size = [], 0, 0
        waiting.append(one)
        total, size = total + len(one), size + one.nbytes
    if waiting:
        yield joined(waiting)
