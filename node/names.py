"""Names that clients of every protocol may use, and that several layers know."""

from __future__ import annotations

from typing import Final

REPLY_TO: Final = "amq.rabbitmq.reply-to"
"""The pseudo-queue of direct replies (RabbitMQ's extension). A client that consumes it gets a queue of its
own for the answers to its requests.
"""

X_REPLACE: Final = "x-replace"
"""The argument of a consumer that takes the place of the one with its tag, and keeps the messages of that."""

X_QUEUE_TYPE: Final = "x-queue-type"
"""The argument of a queue that states its type."""

STREAM_TYPE: Final = "stream"
"""The type of queues that keep their messages for all readers."""

X_STREAM_OFFSET: Final = "x-stream-offset"
"""The argument of a consumer that states where in a stream it begins, and the name under which each message
of a stream states its own place.
"""
