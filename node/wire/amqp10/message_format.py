"""The message format of AMQP 1.0: answers questions about messages from the octets of their sections (part 3,
section 3.2).

In a run of this format each message is `Run.skip` octets, which readers skip, and the sections of the message
as its client sent them. `Run.routing_key` is never None, and `Run.largest_frame` is the length of the largest
message, with `skip`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from node.message.deaths import Death, FirstPublish
from node.message.facts import Facts
from node.message.format import NO_EXPIRATION, Asked, Copies, MessageSyntaxError, ToldHeaders
from node.message.requests import RequestMessage
from node.message.run import Run, joined
from node.message.streams import X_STREAM_OFFSET
from node.ranges.range_map import Span, spans_of
from node.refusal import PreconditionFailedError
from node.wire.amqp091.message_format import Amqp091Format
from node.wire.amqp10 import deaths, requests
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.facts import Amqp10Facts, properties_of_key, property_integers, property_keys
from node.wire.amqp10.from_amqp091 import run_from_amqp091
from node.wire.amqp10.messages import (
    X_BCC,
    X_BOOKMARK,
    X_CC,
    X_LOCKED_UNTIL,
    annotation,
    annotation_pairs,
    application_pairs,
    edited,
    header_in,
    heads_in,
    octets_of_first_body,
    properties_of_head,
    sections_in,
    sizes_of_bodies,
    with_body,
    with_heads,
)
from node.wire.amqp10.to_amqp091 import shown_contents
from node.wire.amqp10.values import AmqpValue, TimestampMs, TypedArray, ULong

_MISSING = b"\xff"
"""Stands for a header that a message has not: no value begins with this octet."""

_AMQP_0_9_1 = Amqp091Format()


class Amqp10Format:
    """Implements `MessageFormat`. `properties` are the head of a message (`node.wire.amqp10.messages`)."""

    def properties_in(self, run: Run) -> Iterator[tuple[int, int, bytes]]:
        return heads_in(run)

    def body_sizes(self, run: Run) -> array[int] | None:
        return sizes_of_bodies(run)

    def body_size(self, run: Run) -> int:
        return octets_of_first_body(run)

    def size_spans(self, run: Run) -> list[Span]:
        return spans_of(sizes_of_bodies(run), 0)

    def asked_in(self, run: Run) -> list[Asked]:
        found: list[Asked] = []
        for first, count, head in heads_in(run):
            header = header_in(head)
            ttl = NO_EXPIRATION if header.ttl is None else header.ttl
            priority = 0 if header.priority is None else header.priority
            found.append((first, first + count - 1, deaths.delay_asked(head), priority, ttl))
        return found

    def texts_in(self, run: Run, name: str) -> list[tuple[int, int, bytes | None]]:
        return [(first, first + count - 1, self.text(head, name)) for first, count, head in heads_in(run)]

    def header_keys(self, run: Run, names: tuple[str, ...]) -> list[tuple[int, int, bytes]]:
        found: list[tuple[int, int, bytes]] = []
        for first, count, head in heads_in(run):
            headers = self.headers(head)
            # The first octet is another one than those of the keys of AMQP 0-9-1.
            key = b"s" + b"".join(
                [encode_amqp(headers[name]) if name in headers else _MISSING for name in names]
            )
            found.append((first, count, key))
        return found

    def told_integers(self, run: Run, name: str) -> list[tuple[int, int, int]] | None:
        return property_integers(run, name)

    def told_headers(self, run: Run, names: tuple[str, ...]) -> ToldHeaders | None:
        keys = property_keys(run, names)
        if keys is None:
            return None

        def facts(key: bytes) -> Facts:
            return Amqp10Facts(run, b"", properties_of_key(key, names))

        return keys, facts

    def may_have_copies(self, run: Run) -> bool:
        raw = run.raw if isinstance(run.raw, bytes) else bytes(run.raw)
        return b"x-cc" in raw or b"x-bcc" in raw

    def routing_keys(self, run: Run) -> list[str]:
        assert run.routing_key is not None
        return [run.routing_key] * run.count

    def by_key(self, run: Run) -> Iterator[tuple[str, Run]]:
        assert run.routing_key is not None
        yield run.routing_key, run

    def text(self, properties: bytes, name: str) -> bytes | None:
        if name == "type":
            value = annotation(properties, "x-basic-type")
            return value.encode() if isinstance(value, str) else None
        found = properties_of_head(properties)
        match name:
            case "message_id":
                return _id_text(found.message_id)
            case "correlation_id":
                return _id_text(found.correlation_id)
            case "user_id":
                return found.user_id
            case "reply_to":
                return _octets(found.reply_to)
            case "app_id" | "group_id":
                return _octets(found.group_id)
            case "content_type":
                return _octets(found.content_type)
            case "content_encoding":
                return _octets(found.content_encoding)
        return None

    def headers(self, properties: bytes) -> Mapping[str, Any]:
        """Message annotations with names in x-, and application-properties. Times are in seconds, as field
        tables have them, to which the values are compared.
        """
        sections = sections_in(properties)
        pairs = annotation_pairs(properties, sections.message_annotations)
        found = {str(key): value for key, value in pairs if isinstance(key, str) and key.startswith("x-")}
        found.update(application_pairs(properties, sections))
        return {
            name: value // 1000 if isinstance(value, TimestampMs) else value for name, value in found.items()
        }

    def facts(self, run: Run, properties: bytes) -> Facts:
        return Amqp10Facts(run, properties)

    def copies(self, properties: bytes) -> Copies:
        """The routing keys of the annotations x-cc and x-bcc. Raises PreconditionFailedError for no list."""
        keys: list[str] = []
        blind = annotation(properties, X_BCC)
        for name, value in ((X_CC, annotation(properties, X_CC)), (X_BCC, blind)):
            if value is not None and not isinstance(value, list | TypedArray):
                raise PreconditionFailedError(f"the message annotation '{name}' is no list of routing keys")
            keys += deaths.texts_of(value)
        return Copies(tuple(keys), blind is not None)

    def without_blind_copies(self, run: Run) -> Run:
        return with_heads(run, _without_blind_copies)

    def with_delivery_count(self, run: Run, failures: int) -> Run:
        def counted(head: bytes) -> bytes:
            header = header_in(head)
            header.delivery_count = failures
            return edited(head, header, None)

        return with_heads(run, counted)

    def with_lease(self, run: Run, bookmark: str, until: int | None) -> Run:
        told: dict[str, AmqpValue] = {X_BOOKMARK: bookmark}
        if until is not None:
            told[X_LOCKED_UNTIL] = until
        return with_heads(run, partial(_with_annotations, told))

    def with_offsets(self, run: Run, first: int) -> Run:
        return joined([_with_offset(run.slice(index, 1), first + index) for index in range(run.count)])

    @property
    def counts_down(self) -> bool:
        return True

    def with_time_left(self, run: Run, left: int, limit: int | None) -> Run:
        return with_heads(run, partial(_with_time_left, left, limit))

    def dead_letters(self, run: Run, properties: bytes, death: Death, *, routed_anew: bool) -> Run:
        changed = deaths.dead_head(properties, death, routed_anew=routed_anew)
        return with_heads(run, {properties: changed}.__getitem__)

    def copied_keys(self, properties: bytes) -> list[str]:
        return deaths.further_keys(properties)

    def cycles(self, properties: bytes, queue: str) -> bool:
        return deaths.dies_again(properties, queue)

    def times_dead(self, properties: bytes) -> int:
        return deaths.count_in(properties)

    def first_publish(self, properties: bytes) -> FirstPublish | None:
        return deaths.first_publish(properties)

    def without_deaths(self, run: Run, properties: bytes) -> Run:
        return with_heads(run, {properties: deaths.without_deaths(properties)}.__getitem__)

    def with_body(self, run: Run, body: bytes) -> Run:
        return with_body(run, body)

    def composed(
        self,
        exchange: str,
        routing_key: str,
        properties: Mapping[str, Any],
        body: bytes,
        user: str | None,
        body_max: int,
    ) -> Run:
        """Takes the properties by their names in AMQP 0-9-1. Raises MessageSyntaxError."""
        run = _AMQP_0_9_1.composed(exchange, routing_key, properties, body, user, body_max)
        try:
            return run_from_amqp091(run)
        except ValueError as error:
            raise MessageSyntaxError(str(error)) from None

    def contents(self, run: Run) -> tuple[dict[str, Any], bytes]:
        """The properties by their names in AMQP 0-9-1, as far as they have one."""
        return _AMQP_0_9_1.contents(shown_contents(run))

    def request(self, run: Run, most: int) -> RequestMessage:
        return requests.request_in_sections(run, most)

    def response(
        self,
        run: Run,
        request: RequestMessage,
        place: tuple[str, str],
        plain: Sequence[dict[str, Any]],
        octets: bytes,
    ) -> Run:
        return requests.response_in_sections(run, request, place, plain, octets)


def _with_time_left(left: int, limit: int | None, head: bytes) -> bytes:
    header = header_in(head)
    ttl = header.ttl
    if ttl is None:
        return head
    lives = ttl if limit is None else min(ttl, limit)
    header.ttl = max(1, ttl - max(0, lives - left)) if ttl else 0
    return edited(head, header, None)


def _with_offset(run: Run, offset: int) -> Run:
    return with_heads(run, partial(_with_annotations, {X_STREAM_OFFSET: ULong(offset)}))


def _with_annotations(told: dict[str, AmqpValue], head: bytes) -> bytes:
    pairs = annotation_pairs(head, sections_in(head).message_annotations)
    return edited(head, None, deaths.changed_pairs(pairs, told, set()))


def _octets(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _id_text(found: int | UUID | bytes | str | None) -> bytes | None:
    """An id as AMQP 0-9-1 has it. Octets, which have no such form, begin with an octet that no text has."""
    if found is None:
        return None
    if isinstance(found, bytes):
        return b"\0" + found
    if isinstance(found, UUID):
        return found.urn.encode()
    return str(found).encode()


def _without_blind_copies(head: bytes) -> bytes:
    pairs = annotation_pairs(head, sections_in(head).message_annotations)
    return edited(head, None, deaths.changed_pairs(pairs, {}, {X_BCC}))
