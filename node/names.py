"""Names that clients may use of something that the broker provides, whatever protocol they speak."""

from __future__ import annotations

from typing import Final

REPLY_TO: Final = "amq.rabbitmq.reply-to"
"""The queue of direct replies (RabbitMQ's extension): its consumer is the session that asks."""
