"""Direct reply-to: replies reach the requesting channel without a queue that the client declares.

A client consumes from `amq.rabbitmq.reply-to`, without acknowledgement, and states that name in the reply-to
property of messages that it publishes on the same channel. The broker replaces the name by the address of the
consumer, which cannot be guessed. A publish with this address as routing key, to the default exchange on any
node, reaches the consumer. RabbitMQ's extension, with RabbitMQ's refusals.
"""

from __future__ import annotations

from array import array

from node.delivery.credit import ChannelConsumer
from node.message.run import Run
from node.wire.amqp091.codec import END, FRAME, FRAME_OVERHEAD
from node.wire.amqp091.errors import ReplyConsumerError
from node.wire.amqp091.methods import BasicConsume, BasicPublish
from node.wire.amqp091.primitives import encode_shortstr, method_ids
from node.wire.amqp091.properties import HEADER_FIXED, property_places


class DirectReplies:
    """The consumer of a channel's direct replies, if it has one, and that consumer's address."""

    __slots__ = ("_consumer", "_name")

    def __init__(self) -> None:
        self._consumer: ChannelConsumer | None = None
        self._name = ""

    def check(self, method: BasicConsume) -> None:
        """Raises ReplyConsumerError where a consumer of direct replies cannot start."""
        if not method.no_ack:
            raise ReplyConsumerError("reply consumer cannot acknowledge", method_ids(method))
        if self._consumer is not None:
            raise ReplyConsumerError("reply consumer already set", method_ids(method))

    def begin(self, consumer: ChannelConsumer, name: str) -> None:
        self._consumer, self._name = consumer, name

    def end(self, consumer: ChannelConsumer) -> None:
        """A consumer of the channel has ended."""
        if consumer is self._consumer:
            self._consumer = None

    def address(self, run: Run) -> Run:
        """The messages with the consumer's address as their reply-to. Raises ReplyConsumerError without a
        consumer.
        """
        if self._consumer is None:
            ids = (BasicPublish.CLASS_ID, BasicPublish.METHOD_ID)
            raise ReplyConsumerError("fast reply consumer does not exist", ids)
        return with_reply_to(run, self._name)


def with_reply_to(run: Run, name: str) -> Run:
    """The run with `name` as each message's reply-to property. All messages have that property."""
    value = encode_shortstr(name)
    contents = [_with_reply_to(content, value) for content in run.contents()]
    largest = max(FRAME.unpack_from(one)[2] for one in contents) + FRAME_OVERHEAD
    return Run(
        run.exchange,
        run.routing_key,
        run.channel,
        run.persistent,
        run.count,
        0,
        0,
        array("I", map(len, contents)),
        max(largest, run.largest_frame),
        b"".join(contents),
        run.special,
    )


def _with_reply_to(content: bytes, value: bytes) -> bytes:
    kind, channel, size = FRAME.unpack_from(content)
    end = FRAME.size + size
    values = content[FRAME.size + HEADER_FIXED : end]
    begin, stop = property_places(values)["reply_to"]
    fixed = content[FRAME.size : FRAME.size + HEADER_FIXED]
    payload = b"".join((fixed, values[:begin], value, values[stop:]))
    return b"".join((FRAME.pack(kind, channel, len(payload)), payload, END, content[end + 1 :]))
