"""The properties of messages of both protocols, by the types of their columns."""

from __future__ import annotations

from typing import Final

TEXT_PROPERTIES: Final = (
    "content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id", "type",
    "user_id", "app_id", "cluster_id", "to", "subject", "group_id", "reply_to_group_id",
)  # fmt: skip
NUMBER_PROPERTIES: Final = (
    "delivery_mode", "priority", "timestamp", "ttl", "delivery_count", "absolute_expiry_time",
    "creation_time", "group_sequence",
)  # fmt: skip
FLAG_PROPERTIES: Final = ("durable", "first_acquirer")
