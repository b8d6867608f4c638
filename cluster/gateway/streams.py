"""Which queues are streams, and the commands that no stream carries out."""

from __future__ import annotations

from cluster.catalog.membership.formats import Formats
from cluster.catalog.state import CatalogState
from node.message.streams import X_HISTORY, X_STREAM_OFFSET, X_SUBSCRIPTION
from node.refusal import NotImplementedRefusal, PreconditionFailedError
from node.session.filter_arguments import check_arguments_known
from node.session.ports import ConsumerOptions, QueueRef


class Streams:
    """The streams of the catalog."""

    def __init__(self, state: CatalogState, formats: Formats) -> None:
        self._state, self._formats = state, formats

    def has(self, queue: QueueRef) -> bool:
        """Whether the queue is a stream."""
        defined = self._state.queues_by_id.get(queue.id)
        return defined is not None and defined.stream

    def under(self, queue: QueueRef) -> QueueRef | None:
        """See `node.session.ports.BrokerPort.topic_under`. Raises PreconditionFailedError."""
        if self._state.topics.patterned(queue.vhost, queue.name):
            # Streams of several partitions have no order between them.
            raise PreconditionFailedError(
                f"invalid arg '{X_STREAM_OFFSET}' for {queue}: the queue is over a pattern of streams; read "
                "each of its streams"
            )
        found = self._state.topics.under(queue.vhost, queue.name)
        return None if found is None else QueueRef(found.name, found.partition, found.id, found.vhost)

    def kept_by(self, queue: QueueRef) -> QueueRef:
        """The stream that keeps the messages which have left a queue. Raises PreconditionFailedError where
        there is none, or no one stream.
        """
        return self._one_under(queue, "keeps the messages that have left")

    def telling_times(self, queue: QueueRef) -> QueueRef:
        """The stream that knows when the messages of a queue were taken. Raises PreconditionFailedError where
        there is none, or no one stream.
        """
        return queue if self.has(queue) else self._one_under(queue, "knows the times of messages of")

    def _one_under(self, queue: QueueRef, wanted: str) -> QueueRef:
        found = self._state.topics.under(queue.vhost, queue.name)
        if found is None:
            raise PreconditionFailedError(
                f"no stream {wanted} {queue}: it has no {X_HISTORY}, and is over no one stream"
            )
        return QueueRef(found.name, found.partition, found.id, found.vhost)

    def check_reader(self, queue: QueueRef, options: ConsumerOptions) -> bool:
        """Whether a consumer would be a reader of a stream. Raises PreconditionFailedError for a reader that
        is to take the place of a consumer, and for a subscription that the queue cannot have.
        """
        reads = self.has(queue)
        if options.subscription:
            known = self._formats.know_argument
            absent = self._state.members.never_started
            check_arguments_known(queue.name, queue.vhost, {X_SUBSCRIPTION: True}, known, absent)
        if options.subscription and not reads:
            raise PreconditionFailedError(
                f"invalid arg '{X_SUBSCRIPTION}' for {queue}: readers of streams alone have subscriptions"
            )
        if reads and options.replaces:
            raise PreconditionFailedError(f"{queue} is a stream, whose readers replace no consumers")
        return reads

    def refuse(self, queue: QueueRef, command: str) -> None:
        """Raises NotImplementedRefusal, in RabbitMQ's words, where the queue is a stream: its messages stay
        for other readers.
        """
        if self.has(queue):
            raise NotImplementedRefusal(f"{command} not supported by stream queues {queue}")
