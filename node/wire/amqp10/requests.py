"""Requests to the broker as messages to a target, and their responses (`node.message.requests`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from node.message.requests import RequestMessage
from node.message.run import Run
from node.wire.amqp10.addresses import destination_of
from node.wire.amqp10.argument_values import ArgumentError, amqp_map, field_table
from node.wire.amqp10.definitions import Header, Properties, SectionCode
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.errors import AddressError
from node.wire.amqp10.messages import body_of, messages_in, octets_of_body, properties_of_head
from node.wire.amqp10.values import AmqpValue, Described, Symbol, ULong

_AMQP_1_0: Final = 1
"""`node.wire.formats.AMQP_1_0`, whose module imports this one by another."""

_JSON: Final = "application/json"


def request_in_sections(run: Run, most: int) -> RequestMessage:
    """The request in a run of one message, whose body has at most so many octets. A text is octets, too."""
    ((data, begin, behind, end),) = messages_in(run)
    told = properties_of_head(data[begin:behind])
    identity = told.correlation_id if told.message_id is None else told.message_id
    place = _place(told.reply_to)
    if octets_of_body(data, behind, end) > most:
        return RequestMessage(identity, place, None, False, f"the body has more than {most} octets")
    content = body_of(run)
    if isinstance(content, bytes):
        return RequestMessage(identity, place, content)
    entries = content if isinstance(content, list) else [content]
    try:
        read = [field_table(entry) for entry in entries]
    except ArgumentError as error:
        return RequestMessage(identity, place, None, True, f"the body is no list of maps: {error}")
    return RequestMessage(identity, place, read, True)


def _place(reply_to: str | None) -> tuple[str, str] | None:
    try:
        return None if reply_to is None else destination_of(reply_to)
    except AddressError:
        return None


def response_in_sections(
    run: Run, request: RequestMessage, place: tuple[str, str], plain: Sequence[dict[str, Any]], octets: bytes
) -> Run:
    """The response to the request in `run`: a list of maps for a `typed` one, and JSON, the `octets`, for
    others. It is as durable as the request.
    """
    properties = Properties(correlation_id=request.identity)
    code, body = SectionCode.DATA, octets
    section: AmqpValue = Described(ULong(code), body)
    if request.typed:
        section = Described(ULong(SectionCode.AMQP_VALUE), [amqp_map(one) for one in plain])
    else:
        properties.content_type = Symbol(_JSON)
    raw = Header(durable=run.persistent).encode() + properties.encode() + encode_amqp(section)
    exchange, key = place
    return Run(exchange, key, 0, run.persistent, 1, 0, len(raw), None, len(raw), raw, False, _AMQP_1_0)
