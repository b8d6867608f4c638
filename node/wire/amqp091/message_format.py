"""The message format of AMQP 0-9-1: answers questions about messages from the octets of their frames
(§4.2.6).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from node.message.deaths import Death, FirstPublish
from node.message.facts import Facts
from node.message.format import Asked, Copies, MessageSyntaxError, ToldHeaders
from node.message.requests import RequestMessage
from node.message.run import Run
from node.ranges.range_map import Span
from node.wire.amqp091 import composing, contents, deaths, requests, routing_keys, sender_selected
from node.wire.amqp091.errors import ProtocolException
from node.wire.amqp091.facts import NO_PROPERTY_LIST, Amqp091Facts
from node.wire.amqp091.fields import Table
from node.wire.amqp091.rewriting import with_delivery_count, with_lease, with_offsets, with_properties


class Amqp091Format:
    """Implements `MessageFormat`. `properties` are the property list of a content header, flags first."""

    def properties_in(self, run: Run) -> Iterator[tuple[int, int, bytes]]:
        return contents.properties_in(run)

    def body_sizes(self, run: Run) -> array[int] | None:
        return contents.body_sizes(run)

    def body_size(self, run: Run) -> int:
        return contents.body_size(run)

    def size_spans(self, run: Run) -> list[Span]:
        return contents.size_spans(run)

    def asked_in(self, run: Run) -> list[Asked]:
        return contents.asked_in(run)

    def texts_in(self, run: Run, name: str) -> list[tuple[int, int, bytes | None]]:
        return contents.texts_in(run, name)

    def header_keys(self, run: Run, names: tuple[str, ...]) -> list[tuple[int, int, bytes]]:
        return contents.header_keys(run, names)

    def told_integers(self, run: Run, name: str) -> list[tuple[int, int, int]] | None:
        # Headers with such names are annotations in AMQP 1.0, which expressions do not know.
        return None if name.startswith("x-") else contents.header_integers(run, name)

    def told_headers(self, run: Run, names: tuple[str, ...]) -> ToldHeaders | None:
        keys = contents.told_headers(run, names)
        if keys is None:
            return None

        def facts(key: bytes) -> Facts:
            return Amqp091Facts(run, NO_PROPERTY_LIST, contents.headers_of_key(key, names))

        return keys, facts

    def may_have_copies(self, run: Run) -> bool:
        return sender_selected.may_state_keys(run)

    def routing_keys(self, run: Run) -> list[str]:
        return [key.decode("utf-8", "surrogateescape") for key in routing_keys.routing_keys(run)]

    def by_key(self, run: Run) -> Iterator[tuple[str, Run]]:
        return routing_keys.by_key(run)

    def text(self, properties: bytes, name: str) -> bytes | None:
        return contents.read_short_string(properties, name)

    def headers(self, properties: bytes) -> Table:
        return contents.read_headers_property(properties)

    def facts(self, run: Run, properties: bytes) -> Facts:
        return Amqp091Facts(run, properties)

    def copies(self, properties: bytes) -> Copies:
        return sender_selected.read_copies(properties)

    def without_blind_copies(self, run: Run) -> Run:
        return with_properties(run, sender_selected.without_blind_copies)

    def with_delivery_count(self, run: Run, failures: int) -> Run:
        return with_delivery_count(run, failures)

    def with_lease(self, run: Run, bookmark: str, until: int | None) -> Run:
        return with_lease(run, bookmark, until)

    def with_offsets(self, run: Run, first: int) -> Run:
        return with_offsets(run, first)

    @property
    def counts_down(self) -> bool:
        return False

    def with_time_left(self, run: Run, left: int, limit: int | None) -> Run:
        return run

    def dead_letters(self, run: Run, properties: bytes, death: Death, *, routed_anew: bool) -> Run:
        changed = deaths.dead_properties(properties, death, routed_anew=routed_anew)
        return with_properties(run, {properties: changed}.__getitem__)

    def copied_keys(self, properties: bytes) -> list[str]:
        return deaths.copied_keys(properties)

    def cycles(self, properties: bytes, queue: str) -> bool:
        return deaths.cycles(deaths.deaths_in(properties), queue)

    def times_dead(self, properties: bytes) -> int:
        return deaths.count_in(deaths.deaths_in(properties))

    def first_publish(self, properties: bytes) -> FirstPublish | None:
        return deaths.first_publish(properties)

    def without_deaths(self, run: Run, properties: bytes) -> Run:
        return with_properties(run, {properties: deaths.without_deaths(properties)}.__getitem__)

    def with_body(self, run: Run, body: bytes) -> Run:
        return composing.with_body(run, body)

    def composed(
        self,
        exchange: str,
        routing_key: str,
        properties: Mapping[str, Any],
        body: bytes,
        user: str | None,
        body_max: int,
    ) -> Run:
        """Raises MessageSyntaxError."""
        try:
            return composing.composed(exchange, routing_key, properties, body, user, body_max)
        except (ValueError, ProtocolException) as error:
            raise MessageSyntaxError(str(error)) from None

    def contents(self, run: Run) -> tuple[dict[str, Any], bytes]:
        return composing.contents_of(run)

    def request(self, run: Run, most: int) -> RequestMessage:
        return requests.request_in_publish(run, most)

    def response(
        self,
        run: Run,
        request: RequestMessage,
        place: tuple[str, str],
        plain: Sequence[dict[str, Any]],
        octets: bytes,
    ) -> Run:
        return requests.response_as_publish(run, request, place, octets)
