"""Queues over a stream (queue argument x-underlying-topic, D1).

The catalog places such a queue in the partition of its stream (`cluster.catalog.topics`), and routes bring
both the same messages. Owners do nothing else for it.
"""

from __future__ import annotations

from typing import Final

from node.queue.argument import Argument
from node.queue.argument_types import read_text
from node.queue.feature import Declaration

UNDERLYING_TOPIC: Final = Argument("x-underlying-topic", read_text, "underlying_topic")

FEATURE: Final[Declaration] = Declaration(UNDERLYING_TOPIC)
