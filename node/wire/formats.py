"""The formats of messages, by the octet that runs, operations and messages between nodes state."""

from __future__ import annotations

from typing import Final

from node.message.format import MessageFormat
from node.message.run import Run
from node.wire.amqp091.message_format import Amqp091Format
from node.wire.amqp10.message_format import Amqp10Format

AMQP_0_9_1: Final = 0
"""The format whose messages are content frames as the publisher sent them."""

AMQP_1_0: Final = 1
"""The format whose messages are sections as the sender sent them. Nodes read it from the format level
`cluster.config.formats.SECTIONS_IN_RUNS` on.
"""

FORMATS: Final[dict[int, MessageFormat]] = {AMQP_0_9_1: Amqp091Format(), AMQP_1_0: Amqp10Format()}
"""The formats by octet. Decoders refuse a run with another octet. Journals have the octets: never
renumber.
"""


def format_of(run: Run) -> MessageFormat:
    """The format that answers questions about the run's messages."""
    return FORMATS[run.format]
