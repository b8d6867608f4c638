"""Makes dead letters of messages that a queue discards.

The headers are RabbitMQ's (rabbit_dead_letter.erl). `x-death` is an array of tables, the latest death first,
with one table for each queue and reason, which counts its deaths. `x-first-death-*` have the first death. The
expiration is taken out.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from node.message.deaths import REASON_NAMES, Death, FirstPublish
from node.message.reason import Reason
from node.wire.amqp091.errors import FieldSyntaxError
from node.wire.amqp091.fields import (
    encode_value,
    join_array,
    join_table,
    read_headers,
    split_array,
    split_table,
)
from node.wire.amqp091.properties import property_places
from node.wire.amqp091.rewriting import Headers, edit_properties
from node.wire.amqp091.sender_selected import CC, keys_in

X_DEATH: Final = b"x-death"
X_DELAY: Final = b"x-delay"
FIRST_DEATH: Final = b"x-first-death-"
LAST_DEATH: Final = b"x-last-death-"
EXPIRATION: Final = "expiration"

_COUNT = Struct(">cq")
_COUNT_MAX: Final = 2**63 - 1
"""The largest count on the wire; a client may have sent it."""
_TIME = Struct(">cQ")
_LENGTH = Struct(">cI")


def dead_properties(properties: bytes, death: Death, *, routed_anew: bool) -> bytes:
    """The property list of the dead letter. `routed_anew`: it gets another routing key, so CC is taken out.

    Raises FieldSyntaxError.
    """
    expiration = property_places(properties).get(EXPIRATION)
    lived = None if expiration is None else properties[expiration[0] + 1 : expiration[1]]

    def edit(headers: Headers) -> Headers:
        headers = _with_death(headers, death, [death.routing_key, *copied_to(headers)], lived)
        if routed_anew:
            headers.pop(CC, None)
        if X_DELAY in headers:
            headers[X_DELAY] = _done(headers[X_DELAY])
        return headers

    return edit_properties(properties, edit, without=(EXPIRATION,))


def copied_to(headers: Headers) -> list[str]:
    """The routing keys in the header CC (sender-selected distribution)."""
    return keys_in(headers.get(CC, b""))


def copied_keys(properties: bytes) -> list[str]:
    """The routing keys in the header CC of a property list. Raises FieldSyntaxError."""
    return copied_to(_headers_of(properties))


def cycles(deaths: bytes | None, queue: str) -> bool:
    """Whether the message has died in the queue before, and no client has rejected it since.

    `deaths` is the encoded value of the message's x-death; None without one.
    """
    for table in _tables(deaths):
        if _text_of(table.get(b"reason", b"")) == REASON_NAMES[Reason.REJECTED]:
            return False
        if _text_of(table.get(b"queue", b"")) == queue:
            return True
    return False


def count_in(deaths: bytes | None) -> int:
    """How often queues have given the message up. `deaths` as in `cycles`."""
    return sum(_count_of(table.get(b"count", b"")) or 1 for table in _tables(deaths))


def deaths_in(properties: bytes) -> bytes | None:
    """The encoded value of the header x-death in a property list; None without one. Raises
    FieldSyntaxError.
    """
    return _headers_of(properties).get(X_DEATH)


def first_publish(properties: bytes) -> FirstPublish | None:
    """The exchange and routing keys of the first death; None for a message that has not died.

    Raises FieldSyntaxError.
    """
    headers = _headers_of(properties)
    tables = _tables(headers.get(X_DEATH))
    if not tables:
        return None
    first = [headers.get(FIRST_DEATH + name) for name in (b"queue", b"reason")]
    # The table of a queue moves to the front when the message dies there again.
    table = next((one for one in tables if [one.get(b"queue"), one.get(b"reason")] == first), tables[-1])
    keys = _elements(table.get(b"routing-keys"))
    return FirstPublish(_text_of(table.get(b"exchange", b"")), tuple(map(_text_of, keys))) if keys else None


def without_deaths(properties: bytes) -> bytes:
    """The property list without the headers that brokers give to dead letters. Raises FieldSyntaxError."""

    def edit(headers: Headers) -> Headers:
        told = (FIRST_DEATH, LAST_DEATH)
        return {name: one for name, one in headers.items() if name != X_DEATH and not name.startswith(told)}

    return edit_properties(properties, edit)


def _headers_of(properties: bytes) -> Headers:
    """The encoded values of the headers in a property list. Raises FieldSyntaxError."""
    place = property_places(properties).get("headers")
    return {} if place is None else dict(split_table(properties, place[0]))


def _with_death(headers: Headers, death: Death, keys: Iterable[str], lived: bytes | None) -> Headers:
    reason = REASON_NAMES[death.reason]
    before = headers.get(X_DEATH)
    if before is None:
        for name, value in (("reason", reason), ("queue", death.queue), ("exchange", death.exchange)):
            headers[f"x-first-death-{name}".encode()] = _text(value)
    same, count, others = None, 0, []
    for element in _elements(before):
        table = dict(split_table(element, 1)) if element[:1] == b"F" else {}
        told = (_text_of(table.get(b"queue", b"")), _text_of(table.get(b"reason", b"")))
        if told == (death.queue, reason):
            # In the format before RabbitMQ 3.6 each death has a table of its own, without a count.
            same, count = same or table, count + (_count_of(table.get(b"count", b"")) or 1)
        else:
            others.append(element)
    if same is None:
        same = {
            b"exchange": _text(death.exchange),
            b"queue": _text(death.queue),
            b"reason": _text(reason),
            b"routing-keys": b"A" + join_array(map(_text, keys)),
            b"time": _TIME.pack(b"T", death.time_s),
        }
        if lived is not None:
            same[b"original-expiration"] = _LENGTH.pack(b"S", len(lived)) + lived
    same[b"count"] = _COUNT.pack(b"l", min(count + 1, _COUNT_MAX))
    latest = b"F" + join_table(sorted(same.items()))
    headers[X_DEATH] = b"A" + join_array([latest, *others])
    return headers


def _elements(array: bytes | None) -> list[bytes]:
    return split_array(array, 1) if array is not None and array[:1] == b"A" else []


def _tables(array: bytes | None) -> list[Headers]:
    return [dict(split_table(each, 1)) for each in _elements(array) if each[:1] == b"F"]


def _text(value: str) -> bytes:
    octets = value.encode("utf-8", "surrogateescape")
    return _LENGTH.pack(b"S", len(octets)) + octets


def _text_of(value: bytes) -> str:
    return value[_LENGTH.size :].decode("utf-8", "surrogateescape") if value[:1] == b"S" else ""


def _done(delay: bytes) -> bytes:
    """The value of `x-delay` after the delay: negative, as RabbitMQ's delayed message plugin writes it."""
    found = _count_of(delay)
    return encode_value(-found) if found else delay


def _count_of(value: bytes) -> int:
    """The encoded integer; 0 for anything but an integer above zero."""
    if not value:
        return 0
    try:
        found = read_headers(join_table([(b"n", value)]), 0)[0]["n"]
    except FieldSyntaxError:
        return 0
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0
