"""Delivery in the order of groups (queue argument x-group-by, X3).

Messages of one group go to one consumer at a time, in order. A consumer with unsettled messages of a group
holds the group. A free group, which no consumer holds, goes to any consumer with credit. `ReadyByGroup` has
that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Final

from node.message.format import MessageFormat
from node.message.run import Run
from node.queue.annotations import Annotations
from node.queue.argument import Argument
from node.queue.argument_types import read_text
from node.queue.feature import Declaration, Description, Incoming, Notes, Rule
from node.queue.group_table import NO_GROUP
from node.queue.operations import Aspect
from node.queue.order import Order
from node.queue.ready_by_group import ReadyByGroup
from node.queue.settings import QueueSettings
from node.ranges.range_map import Span, spans_of
from node.ranges.range_set import RangeSet

GROUP_BY: Final = Argument("x-group-by", read_text, "group_by")

ROUTING_KEY: Final = "routing_key"

PROPERTIES: Final = frozenset(("message_id", "correlation_id", "type", "app_id", "user_id", "reply_to"))
"""The properties that can be a key. Any other name is the name of a header."""

GROUP_ID: Final = "group_id"
"""A property of AMQP 1.0. A message of AMQP 0-9-1 may have a header with this name."""

_CACHED: Final = 4096


def by_group(settings: QueueSettings, known: Annotations, ready: RangeSet) -> Order | None:
    """The order of a queue with groups; None where the settings ask for no groups."""
    if GROUP_BY.of(settings) is None:
        return None
    return ReadyByGroup(partial(known.covered, Aspect.GROUP), ready)


def named(argument: str) -> str:
    """The name that an argument x-group-by states. A property may be spelled with hyphens
    (`correlation-id`).
    """
    name = argument.replace("-", "_")
    return name if name in PROPERTIES or name == ROUTING_KEY else argument


@lru_cache(_CACHED)
def group_of(messages: MessageFormat, properties: bytes, name: str) -> int:
    """The group of messages with these properties, by a header, or the group-id of AMQP 1.0; NO_GROUP without
    a value.
    """
    if name.replace("-", "_") == GROUP_ID:
        value = messages.text(properties, GROUP_ID)
        if value is not None:
            return group_named(value)
    header = messages.headers(properties).get(name)
    if header is None:
        return NO_GROUP
    return group_named(header.encode() if isinstance(header, str) else repr(header).encode())


def group_named(key: bytes) -> int:
    """The group of a key: 64 bits of a digest. Two keys with one digest share a group, and lose
    only speed.
    """
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little") or 1


class Groups(Rule):
    """States the group of each message, which the log has as a number."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self._name = named(key)
        self._known: dict[bytes, int] = {}
        """Groups by the octets of the header (`MessageFormat.header_keys`)."""

    def describe(self, description: Description) -> None:
        description.by_consumer = True

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        groups = [
            (first + start, first + end, group)
            for start, end, group in self._groups(incoming)
            if group != NO_GROUP
        ]
        if groups:
            notes[Aspect.GROUP] = groups

    def _groups(self, incoming: Incoming) -> Iterable[Span]:
        """(first, last, group) for messages of the run in a row, counted from 0."""
        run, messages, name = incoming.run, incoming.format, self._name
        if name == ROUTING_KEY:
            keys = messages.routing_keys(run) if run.routing_key is None else [run.routing_key]
            if len(keys) == 1:
                return [(0, run.count - 1, _of_text(keys[0]))]
            return spans_of([_of_text(key) for key in keys], 0)
        if name in PROPERTIES:
            texts = messages.texts_in(run, name)
            return [(start, end, NO_GROUP if one is None else group_named(one)) for start, end, one in texts]
        if name.replace("-", "_") == GROUP_ID:
            return [(start, end, group_of(messages, one, name)) for start, end, one in incoming.stretches()]
        return self._by_header(run, messages)

    def _by_header(self, run: Run, messages: MessageFormat) -> Iterator[Span]:
        """As `_groups`, by a header. Groups are remembered by the octets of the header alone."""
        known = self._known
        for index, count, key in messages.header_keys(run, (self._name,)):
            group = known.get(key)
            if group is None:
                if len(known) >= _CACHED:
                    known.clear()
                _, _, properties = next(messages.properties_in(run.slice(index, 1)))
                group = known[key] = group_of(messages, properties, self._name)
            yield index, index + count - 1, group


@lru_cache(_CACHED)
def _of_text(key: str) -> int:
    return group_named(key.encode("utf-8", "surrogateescape"))


def _rule(settings: QueueSettings) -> Rule | None:
    key = GROUP_BY.of(settings)
    return None if key is None else Groups(key)


FEATURE: Final[Declaration] = Declaration(GROUP_BY, rule=_rule)
