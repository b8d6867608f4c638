"""The facts of a message of AMQP 1.0, for expressions: of its header, its properties, and its
application-properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from node.message.json_body import MAX_DOCUMENT, OTHER, json_document, member_at, states_json, value_of_json
from node.message.placed_facts import DEFAULT_PRIORITY, as_text, delivery_mode, place_of_publish
from node.message.run import Run
from node.wire.amqp10.decoding import read_value
from node.wire.amqp10.definitions import Header, Properties
from node.wire.amqp10.errors import SectionError
from node.wire.amqp10.messages import (
    annotation,
    application_pairs,
    body_of,
    octets_of_first_body,
    properties_of_head,
    sections_in,
)
from node.wire.amqp10.native import NATIVE_INTEGERS, NATIVE_PROPERTY_KEYS
from node.wire.amqp10.sections import header_of
from node.wire.amqp10.values import AmqpValue, DecimalOctets


class Amqp10Facts:
    """Implements `Facts`. A section is read when the first fact of it is asked for."""

    __slots__ = ("_application", "_body", "_decoded", "_head", "_header", "_properties", "_run", "unreadable")

    def __init__(self, run: Run, head: bytes, application: Mapping[str, AmqpValue] | None = None) -> None:
        """`application` are the application-properties, where they are known without the head."""
        self._run = run
        self._head = head
        self._header: Header | None = None
        self._properties: Properties | None = None
        self._application = application
        self._body: object = None
        self._decoded = self.unreadable = False

    def standard(self, name: str) -> object:
        match name:
            case "durable":
                return self._run.persistent
            case "delivery_mode":
                return delivery_mode(self._run)
            case "priority" | "ttl":
                return self._of_header(name)
        if self._properties is None:
            self._properties = properties_of_head(self._head)
        value: object = getattr(self._properties, name, None)
        return str(value) if isinstance(value, UUID) else value_of_field(value)

    def _of_header(self, name: str) -> object:
        if self._header is None:
            try:
                self._header = header_of(self._head, sections_in(self._head))
            except SectionError:
                self._header = Header()
        if name == "ttl":
            return self._header.ttl
        priority = self._header.priority
        return DEFAULT_PRIORITY if priority is None else priority

    def application(self, name: str) -> object:
        if self._application is None:
            self._application = dict(application_pairs(self._head, sections_in(self._head)))
        return value_of_field(self._application.get(name))

    def extension(self, name: str) -> object:
        found = place_of_publish(self._run, name)
        return value_of_field(annotation(self._head, f"amqpx.{name}")) if found is None else found

    def in_body(self, path: tuple[str, ...]) -> object:
        if self._body is None and not self.unreadable:
            body = self._read_body()
            self._body, self.unreadable = body, body is None
        found = member_at(self._body, path)
        return value_of_field(found) if self._decoded else value_of_json(found)

    def _read_body(self) -> object:
        """The members are in JSON, in data sections or in a string, or in a map or a list as amqp-value."""
        if octets_of_first_body(self._run) > MAX_DOCUMENT:
            return None
        body = body_of(self._run)
        if isinstance(body, dict | list):
            self._decoded = True
            return body
        if isinstance(body, bytes) and states_json(self.standard("content_type")):
            return json_document(body)
        return None


def property_keys(run: Run, names: tuple[str, ...]) -> list[tuple[int, int, bytes]] | None:
    """(first, count, key) of messages in a row with the same application-properties of these names; None
    where C has not found them.
    """
    if NATIVE_PROPERTY_KEYS is None:
        return None
    wanted = tuple([name.encode("utf-8", "surrogatepass") for name in names])
    return NATIVE_PROPERTY_KEYS(run.raw, run.skip, run.each_length(), wanted)


def property_integers(run: Run, name: str) -> list[tuple[int, int, int]] | None:
    """(first, count, integer) of messages in a row with the same integer in the application-property with
    this name; None where C has not found one in each.
    """
    if NATIVE_INTEGERS is None:
        return None
    return NATIVE_INTEGERS(run.raw, run.skip, run.each_length(), (name.encode("utf-8", "surrogatepass"),))


def properties_of_key(key: bytes, names: tuple[str, ...]) -> dict[str, AmqpValue]:
    """The application-properties in a key of `property_keys`."""
    found: dict[str, AmqpValue] = {}
    at = 1
    while at < len(key):
        found[names[key[at]]], at = read_value(key, at + 1, len(key))
    return found


def value_of_field(value: object) -> object:
    """The value of a field as expressions know it."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, bytes):
        return as_text(value)
    if isinstance(value, UUID):
        return as_text(value.bytes)
    if isinstance(value, DecimalOctets):
        try:
            return float(value.number())
        except (ValueError, OverflowError):
            return OTHER
    return OTHER
