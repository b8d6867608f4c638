"""Messages as JSON: those that a client publishes, and those that it gets."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from cluster.admin.api.errors import bad_request
from cluster.admin.api.fields import Fields
from node.message.run import Run
from node.session.command_limits import CommandLimitError, check_name
from node.session.ports import Got
from node.wire.formats import AMQP_0_9_1, FORMATS, format_of

INTEGERS: Final = ("delivery_mode", "priority", "timestamp")


# -- in -------------------------------------------------------------------------------------------


def message_of(fields: Fields, exchange: str, user: str | None, body_max: int) -> Run:
    """The message in a request to publish. Its user-id must be `user`; None: may be any name.

    Raises ApiError.
    """
    fields.require("properties", "routing_key", "payload", "payload_encoding")
    key = fields.text("routing_key")
    try:
        for name in (exchange, key):
            check_name(name, "basic.publish")
        return FORMATS[AMQP_0_9_1].composed(exchange, key, _properties(fields), _body(fields), user, body_max)
    except (CommandLimitError, ValueError) as error:
        raise bad_request(str(error)) from None


def _properties(fields: Fields) -> dict[str, Any]:
    given = Fields(fields.table("properties"))
    values = dict(given.values)
    for name in INTEGERS:
        if name in values and (isinstance(values[name], bool) or not isinstance(values[name], int)):
            raise bad_request(["not_int", name])
    if "headers" in values:
        values["headers"] = given.table("headers")
    return values


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
    properties, body = format_of(got.run).contents(got.run)
    ((routing_key, _),) = format_of(got.run).by_key(got.run)
    shown, kind = _payload(body if truncate is None else body[:truncate], encoding)
    return {
        "payload_bytes": len(body),
        "redelivered": got.redelivered,
        "exchange": got.run.exchange,
        "routing_key": routing_key,
        "message_count": got.ready,
        "properties": properties,
        "payload": shown,
        "payload_encoding": kind,
    }


def _payload(body: bytes, encoding: str) -> tuple[str, str]:
    if encoding == "auto":
        try:
            return body.decode("utf-8"), "string"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode(), "base64"
