"""Direct reply-to: replies come to the channel that asked, without a queue that a client declares.

A client consumes from `amq.rabbitmq.reply-to`, without acknowledgement, and names it in the reply-to
property of what it publishes on that channel. The broker puts a name there that leads to the consumer and
that cannot be guessed; a publish to it, through the default exchange of any node, reaches the
channel. An extension of RabbitMQ's, with its refusals.
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
    """The consumer of a channel's direct replies, if there is one, and the name that leads to it."""

    __slots__ = ("_consumer", "_name")

    def __init__(self) -> None:
        self._consumer: ChannelConsumer | None = None
        self._name = ""

    def check(self, method: BasicConsume) -> None:
        """Raises ReplyConsumerError where such a consumer cannot begin."""
        if not method.no_ack:
            raise ReplyConsumerError("reply consumer cannot acknowledge", method_ids(method))
        if self._consumer is not None:
            raise ReplyConsumerError("reply consumer already set", method_ids(method))

    def begin(self, consumer: ChannelConsumer, name: str) -> None:
        self._consumer, self._name = consumer, name

    def end(self, consumer: ChannelConsumer) -> None:
        """Some consumer of the channel is gone."""
        if consumer is self._consumer:
            self._consumer = None

    def address(self, run: Run) -> Run:
        """Messages that ask for replies, with the name to send them to. Raises ReplyConsumerError."""
        if self._consumer is None:
            ids = (BasicPublish.CLASS_ID, BasicPublish.METHOD_ID)
            raise ReplyConsumerError("fast reply consumer does not exist", ids)
        return with_reply_to(run, self._name)


def with_reply_to(run: Run, name: str) -> Run:
    """The run with this reply-to property in each message, all of which have one."""
    value = encode_shortstr(name)
    contents = [_with_reply_to(content, value) for content in run.contents()]
    largest = max(FRAME.unpack_from(one)[2] for one in contents) + FRAME_OVERHEAD
    return Run(
        run.exchange, run.routing_key, run.channel, run.persistent, run.count, 0, 0,
        array("I", map(len, contents)), max(largest, run.largest_frame), b"".join(contents), run.special,
    )  # fmt: skip


def _with_reply_to(content: bytes, value: bytes) -> bytes:
    kind, channel, size = FRAME.unpack_from(content)
    end = FRAME.size + size
    values = content[FRAME.size + HEADER_FIXED : end]
    begin, stop = property_places(values)["reply_to"]
    fixed = content[FRAME.size : FRAME.size + HEADER_FIXED]
    payload = b"".join((fixed, values[:begin], value, values[stop:]))
    return b"".join((FRAME.pack(kind, channel, len(payload)), payload, END, content[end + 1 :]))
