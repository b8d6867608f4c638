"""Reserved names that clients of every protocol may use."""

from __future__ import annotations

from typing import Final

REPLY_TO: Final = "amq.rabbitmq.reply-to"
"""The pseudo-queue of direct replies (RabbitMQ's extension). A client that consumes it gets a queue of its
own for the answers to its requests.
"""
