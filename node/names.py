"""Names that clients of every protocol may use, and that several layers know."""

from __future__ import annotations

from typing import Final

REPLY_TO: Final = "amq.rabbitmq.reply-to"
"""The pseudo-queue of direct replies (RabbitMQ's extension). A client that consumes it gets a queue of its
own for the answers to its requests.
"""

X_REPLACE: Final = "x-replace"
"""The argument of a consumer that takes the place of the one with its tag, and keeps the messages of that."""

X_LEASE_LINGER: Final = "x-lease-linger"
"""The argument of a consumer whose unsettled messages the queue keeps for a while when its client is gone, in
milliseconds.
"""

NODES_PREFIX: Final = "amqp$"
"""The prefix of the broker's own nodes (seed 000, §6.3): no new queue has such a name."""

ADMIN_NODE: Final = "amqp$admin"
"""The node to which clients send batches of commands as messages (seed 000, §6.3.1): an address of AMQP 1.0,
and a routing key of the default exchange.
"""
