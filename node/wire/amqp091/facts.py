"""The facts of a message of AMQP 0-9-1, for expressions: those that the message has in AMQP 1.0 by the tables
of the conversion (docs/decisions/0034).
"""

from __future__ import annotations

from decimal import Decimal
from struct import error as StructError
from typing import Any, Final
from uuid import UUID

from node.message.json_body import MAX_DOCUMENT, json_document, member_at, states_json, value_of_json
from node.message.placed_facts import DEFAULT_PRIORITY, as_text, delivery_mode, place_of_publish
from node.message.run import Run
from node.wire.amqp091.contents import body_of, body_size, read_headers_property
from node.wire.amqp091.errors import ExpirationError, FieldSyntaxError
from node.wire.amqp091.fields import Table, Timestamp
from node.wire.amqp091.properties import parse_expiration, property_places

NO_PROPERTY_LIST: Final = b"\0\0"
"""An empty property list."""

_URN: Final = "urn:uuid:"

_TEXTS: Final = {
    "user_id": "user_id",
    "reply_to": "reply_to",
    "content_type": "content_type",
    "content_encoding": "content_encoding",
    "group_id": "app_id",
    "message_id": "message_id",
    "correlation_id": "correlation_id",
}
"""Properties that are short strings, by the names that they have in AMQP 1.0."""


class Amqp091Facts:
    """Implements `Facts`. `properties` is a property list, flags first."""

    __slots__ = ("_body", "_headers", "_places", "_properties", "_run", "unreadable")

    def __init__(self, run: Run, properties: bytes, headers: Table | None = None) -> None:
        """`headers`, where they are known, need not be in the properties."""
        self._run = run
        self._properties = properties
        self._places: dict[str, tuple[int, int]] | None = None
        self._headers = headers
        self._body: object = None
        self.unreadable = False

    def standard(self, name: str) -> object:
        match name:
            case "durable":
                return self._run.persistent
            case "delivery_mode":
                return delivery_mode(self._run)
            case "priority":
                found = self._octets("priority")
                return DEFAULT_PRIORITY if found is None else found[0]
            case "creation_time":
                found = self._octets("timestamp")
                return None if found is None else int.from_bytes(found, "big") * 1000
            case "ttl":
                return self._ttl()
        property_name = _TEXTS.get(name)
        found = None if property_name is None else self._octets(property_name)
        if found is None:
            return None
        text = as_text(found[1:])
        return _id_of(text) if name in ("message_id", "correlation_id") else text

    def _ttl(self) -> int | None:
        found = self._octets("expiration")
        try:
            return None if found is None else parse_expiration(found[1:])
        except ExpirationError:
            return None

    def _octets(self, name: str) -> bytes | None:
        """The octets of a property, with the length of a short string."""
        if self._places is None:
            try:
                self._places = property_places(self._properties)
            except (FieldSyntaxError, StructError, IndexError):
                self._places = {}
        found = self._places.get(name)
        return None if found is None else self._properties[found[0] : found[1]]

    def application(self, name: str) -> object:
        if name.startswith("x-"):
            # Such headers are annotations in AMQP 1.0.
            return None
        if self._headers is None:
            try:
                self._headers = read_headers_property(self._properties)
            except FieldSyntaxError:
                self._headers = {}
        return _value_of(self._headers.get(name))

    def extension(self, name: str) -> object:
        return place_of_publish(self._run, name)

    def in_body(self, path: tuple[str, ...]) -> object:
        if self._body is None and not self.unreadable:
            readable = states_json(self.standard("content_type")) and body_size(self._run) <= MAX_DOCUMENT
            body = json_document(body_of(self._run)) if readable else None
            self._body, self.unreadable = body, body is None
        return value_of_json(member_at(self._body, path))


def _id_of(text: str | bytes) -> str | bytes:
    """An id as AMQP 1.0 has it: a uuid is without its prefix."""
    if isinstance(text, str) and text.startswith(_URN):
        try:
            return str(UUID(text[len(_URN) :]))
        except ValueError:
            return text
    return text


def _value_of(field: Any) -> object:
    """The value of a header as expressions know it. AMQP 1.0 has no application-properties that are lists or
    tables.
    """
    if isinstance(field, Timestamp):
        return int(field) * 1000
    if isinstance(field, bytes):
        return as_text(field)
    if isinstance(field, Decimal):
        return float(field)
    return None if isinstance(field, list | dict) else field
