"""Requests to the broker as publishes, and their responses (`node.message.requests`)."""

from __future__ import annotations

from typing import Any, Final

from node.message.requests import RequestMessage
from node.message.run import Run
from node.wire.amqp091.composing import composed, contents_of
from node.wire.amqp091.contents import body_size
from node.wire.amqp091.errors import FieldSyntaxError

_JSON: Final = "application/json"
_PERSISTENT: Final = 2
_TRANSIENT: Final = 1


def request_in_publish(run: Run, most: int) -> RequestMessage:
    """The request in a run of one message, whose body has at most so many octets."""
    if body_size(run) > most:
        return RequestMessage(None, None, None, False, f"the body has more than {most} octets")
    try:
        properties, body = contents_of(run)
    except FieldSyntaxError as error:
        return RequestMessage(None, None, None, False, f"the properties cannot be read: {error}")
    identity = properties.get("message_id", properties.get("correlation_id"))
    reply_to = properties.get("reply_to")
    return RequestMessage(identity, ("", reply_to) if reply_to else None, body)


def response_as_publish(run: Run, request: RequestMessage, place: tuple[str, str], octets: bytes) -> Run:
    """The response to the request in `run`: JSON, the `octets`. It is as durable as the request."""
    properties: dict[str, Any] = {
        "content_type": _JSON,
        "delivery_mode": _PERSISTENT if run.persistent else _TRANSIENT,
    }
    if request.identity is not None:
        properties["correlation_id"] = request.identity
    exchange, key = place
    return composed(exchange, key, properties, octets, None, len(octets))
