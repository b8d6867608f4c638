"""The text that goes with a reply code: its name and what happened, as clients know it from RabbitMQ."""

from __future__ import annotations

from node.wire.amqp091.errors import Failure
from node.wire.amqp091.methods import ReplyCode
from node.wire.amqp091.primitives import truncated


def reply_text(failure: Failure) -> str:
    """At most 255 octets, the limit of a short string."""
    return truncated(f"{ReplyCode(failure.code).name} - {failure}")
