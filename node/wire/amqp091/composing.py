"""Composes single messages from properties and a body, and takes them apart (§4.2.6).

For the administration, which publishes and shows single messages. Sessions never decode messages like this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from node.message.run import Run
from node.wire.amqp091.codec import FRAME, encode_frame
from node.wire.amqp091.contents import body_of, content_header_end
from node.wire.amqp091.incoming import IncomingContent
from node.wire.amqp091.methods import FRAME_BODY, FRAME_HEADER
from node.wire.amqp091.properties import HEADER_FIXED, PropertyChecks
from node.wire.amqp091.property_values import encode_header, encode_properties, read_properties
from node.wire.amqp091.publish_path import Target

FRAME_BODY_OCTETS: Final = 128 * 1024 - 8
"""The largest payload of a composed body frame: most clients take such frames."""

_BODY_SIZE_AT: Final = 4
"""Behind class and weight in the payload of a content header (§4.2.6.1)."""

_CHANNEL: Final = 1


def composed(
    exchange: str,
    routing_key: str,
    properties: Mapping[str, Any],
    body: bytes,
    user: str | None,
    body_max: int,
) -> Run:
    """A run of one message. `user` is the only user that the property `user_id` may name; None admits any.

    Raises ValueError for a value that a property cannot hold, and ProtocolException for properties that a
    publisher may not use and for a body of more than `body_max` octets.
    """
    content = IncomingContent(_CHANNEL, Target(exchange, routing_key, True))
    header = encode_header(len(body), encode_properties(properties))
    run = content.add_header(encode_frame(FRAME_HEADER, _CHANNEL, header), PropertyChecks(user), body_max)
    for at in range(0, len(body), FRAME_BODY_OCTETS):
        run = content.add_body(encode_frame(FRAME_BODY, _CHANNEL, body[at : at + FRAME_BODY_OCTETS]))
    assert run is not None
    return run


def with_body(run: Run, body: bytes) -> Run:
    """The one message of a run of one routing key, with another body and its own properties."""
    content = memoryview(run.raw)[run.skip :]
    header_end = content_header_end(content, 0)
    fixed = bytes(content[: FRAME.size + _BODY_SIZE_AT])
    rest = bytes(content[FRAME.size + HEADER_FIXED : header_end])
    pieces = [fixed, len(body).to_bytes(8, "big"), rest]
    for at in range(0, len(body), FRAME_BODY_OCTETS):
        pieces.append(encode_frame(FRAME_BODY, run.channel, body[at : at + FRAME_BODY_OCTETS]))
    frames = [header_end, *map(len, pieces[3:])]
    raw = b"".join(pieces)
    return replace(run, skip=0, stride=len(raw), lengths=None, largest_frame=max(frames), raw=raw)


def contents_of(run: Run) -> tuple[dict[str, Any], bytes]:
    """The properties by name, and the body, of a run of one message. Raises FieldSyntaxError."""
    (content,) = run.contents()
    (_, _, size) = FRAME.unpack_from(content)
    properties = read_properties(content[FRAME.size + HEADER_FIXED : FRAME.size + size])
    return properties, body_of(run)
