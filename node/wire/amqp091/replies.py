"""Reply texts: the name of the reply code and the cause, as clients know them from RabbitMQ."""

from __future__ import annotations

from node.wire.amqp091.errors import Failure
from node.wire.amqp091.methods import ReplyCode
from node.wire.amqp091.primitives import truncated


def reply_text(failure: Failure) -> str:
    """The reply text of a failure, cut to the 255 octets of a short string."""
    return truncated(f"{ReplyCode(failure.code).name} - {failure}")
