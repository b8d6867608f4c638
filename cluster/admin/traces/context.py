"""The traced messages: their header `traceparent` says that the trace is sampled. Pure.

https://www.w3.org/TR/trace-context/, §3.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from node.message.format import MessageFormat
from node.message.run import Run
from node.queue.entry_format import Buffer, EntryMessages, read_run
from node.wire.formats import format_of

HEADER: Final = "traceparent"

MOST_TRACES: Final = 16
"""Traces for which one batch records spans; further traces of the batch get none."""

SAMPLED: Final = 1

_NAME: Final = re.compile(HEADER.encode())
"""Searched for before any decoding, at the speed of a search through memory."""

_FORM: Final = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)


class TraceContext(NamedTuple):
    """The span that a message was published in."""

    trace: int
    span: int


class Stretch(NamedTuple):
    """Consecutive messages of one trace, the first of them counted from 0."""

    first: int
    messages: int
    context: TraceContext


Counts = dict[TraceContext, int]
"""How many messages of a batch belong to each trace."""

Records = Callable[[int], bool]
"""Whether spans of the trace with this id are recorded: all nodes must decide alike."""


def parse_traceparent(text: str) -> TraceContext | None:
    """The context in a header's text; None when it is malformed, or its trace is not sampled."""
    found = _FORM.fullmatch(text)
    # Later versions may append fields, this one may not (§3.2.2.1, §4.3).
    if found is None or found["version"] == "ff" or (found["version"] == "00" and found["more"]):
        return None
    trace, span, flags = (int(found[field], 16) for field in ("trace", "span", "flags"))
    return TraceContext(trace, span) if trace and span and flags & SAMPLED else None


def stretches_in(run: Run, records: Records) -> list[Stretch]:
    """The messages of a run that are traced."""
    if _NAME.search(run.raw) is None:
        return []
    found = []
    messages = format_of(run)
    for first, count, properties in messages.properties_in(run):
        context = _context_of(messages, properties) if _NAME.search(properties) else None
        if context is not None and records(context.trace):
            found.append(Stretch(first, count, context))
    return found


def _context_of(messages: MessageFormat, properties: bytes) -> TraceContext | None:
    value = messages.headers(properties).get(HEADER)
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    return parse_traceparent(value) if isinstance(value, str) else None


def counted(stretches: Iterable[Stretch]) -> Counts:
    """Messages by trace, of the first `MOST_TRACES`."""
    counts: Counts = {}
    for _, count, context in stretches:
        if context in counts or len(counts) < MOST_TRACES:
            counts[context] = counts.get(context, 0) + count
    return counts


def counted_in_entry(entry: Buffer, records: Records) -> Counts:
    """The messages of a log entry by trace, as `counted`. Raises EntryFormatError."""
    if _NAME.search(entry) is None:
        return {}
    publishes = EntryMessages(entry).publishes()
    runs = (read_run(entry, publish.position) for _, publish in publishes)
    return counted(stretch for run in runs for stretch in stretches_in(run, records))
