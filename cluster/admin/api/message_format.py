"""Messages as JSON: what a client publishes, and what it is shown of one that it gets."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from cluster.admin.api.errors import bad_request
from cluster.admin.api.fields import Fields
from cluster.admin.api.internal_channel import CHANNEL, checked
from node.message.run import Run
from node.refusal import PreconditionFailedError
from node.session.ports import Got
from node.wire.amqp091.codec import END, FRAME, encode_frame
from node.wire.amqp091.errors import ProtocolException
from node.wire.amqp091.incoming import IncomingContent
from node.wire.amqp091.methods import FRAME_BODY, FRAME_HEADER, BasicPublish
from node.wire.amqp091.properties import HEADER_FIXED, PropertyChecks
from node.wire.amqp091.property_values import encode_header, encode_properties, read_properties
from node.wire.amqp091.publish_path import Target

FRAME_BODY_OCTETS: Final = 128 * 1024 - 8
"""Bodies are cut to frames that most clients take."""

INTEGERS: Final = ("delivery_mode", "priority", "timestamp")


# -- in -------------------------------------------------------------------------------------------


def message_of(fields: Fields, exchange: str, user: str | None, body_max: int) -> Run:
    """The message in a request to publish; `user` is whom its user-id may name, None for anybody.

    Raises ApiError.
    """
    fields.require("properties", "routing_key", "payload", "payload_encoding")
    publish = BasicPublish(exchange, fields.text("routing_key"))
    checked(publish)
    properties = _properties(fields)
    body = _body(fields)
    content = IncomingContent(CHANNEL, Target(exchange, publish.routing_key, True))
    header = encode_frame(FRAME_HEADER, CHANNEL, encode_header(len(body), properties))
    try:
        run = content.add_header(header, PropertyChecks(user), body_max)
        for at in range(0, len(body), FRAME_BODY_OCTETS):
            run = content.add_body(encode_frame(FRAME_BODY, CHANNEL, body[at : at + FRAME_BODY_OCTETS]))
    except (ProtocolException, PreconditionFailedError) as error:
        raise bad_request(str(error)) from None
    assert run is not None
    return run


def _properties(fields: Fields) -> bytes:
    given = Fields(fields.table("properties"))
    values = dict(given.values)
    for name in INTEGERS:
        if name in values and (isinstance(values[name], bool) or not isinstance(values[name], int)):
            raise bad_request(["not_int", name])
    if "headers" in values:
        values["headers"] = given.table("headers")
    try:
        return encode_properties(values)
    except ValueError as error:
        raise bad_request(str(error)) from None


def _body(fields: Fields) -> bytes:
    payload, encoding = fields.values["payload"], fields.values["payload_encoding"]
    if not isinstance(payload, str):
        raise bad_request("payload_not_string")
    if encoding == "string":
        return payload.encode("utf-8", "surrogateescape")
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding])
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(["not_base64", payload[:80]]) from None


# -- out ------------------------------------------------------------------------------------------


def shown_message(got: Got, encoding: str, truncate: int | None) -> dict[str, Any]:
    """A message that was got: text where it is UTF-8 and `encoding` is "auto", otherwise base64."""
    properties, body = contents_of(got.run)
    shown, kind = _payload(body if truncate is None else body[:truncate], encoding)
    return {
        "payload_bytes": len(body),
        "redelivered": got.redelivered,
        "exchange": got.run.exchange,
        "routing_key": got.run.routing_key,
        "message_count": got.ready,
        "properties": properties,
        "payload": shown,
        "payload_encoding": kind,
    }


def contents_of(run: Run) -> tuple[dict[str, Any], bytes]:
    """Properties by name, and the body, of a run of one message."""
    (content,) = run.contents()
    (_, _, size) = FRAME.unpack_from(content)
    properties = read_properties(content[FRAME.size + HEADER_FIXED : FRAME.size + size])
    body, at = bytearray(), FRAME.size + size + len(END)
    while at < len(content):
        (_, _, size) = FRAME.unpack_from(content, at)
        body += content[at + FRAME.size : at + FRAME.size + size]
        at += FRAME.size + size + len(END)
    return properties, bytes(body)


def _payload(body: bytes, encoding: str) -> tuple[str, str]:
    if encoding == "auto":
        try:
            return body.decode("utf-8"), "string"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode(), "base64"
