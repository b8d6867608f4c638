"""The state machine of one channel: handles its methods and contents (§3.1, §4.3 to §4.6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from node.delivery.credit import ChannelConsumer
from node.delivery.settlements import Outcome
from node.delivery.unsettled import UnknownDeliveryError, UnsettledRanges
from node.message.run import Run
from node.names import REPLY_TO, X_REPLACE
from node.wire.amqp091 import methods as m
from node.wire.amqp091.channel_state import CLOSE_IDS, CLOSE_OK_IDS, ChannelState
from node.wire.amqp091.codec import decode_method
from node.wire.amqp091.deliveries import ChannelDeliveries
from node.wire.amqp091.effects import (
    AnswerEffect,
    ChannelClosed,
    LogEffect,
    PublishEffect,
    RefuseEffect,
    Request,
)
from node.wire.amqp091.errors import (
    ChannelModeError,
    ChannelNumberError,
    Failure,
    NoQueueDeclaredError,
    NotAllowedError,
    ProtocolException,
    UnexpectedFrameError,
    UnexpectedMethodError,
    UnknownDeliveryTagError,
    UnsupportedError,
)
from node.wire.amqp091.incoming import IncomingContent
from node.wire.amqp091.primitives import Method, method_ids
from node.wire.amqp091.publish_path import PUBLISH_IDS, Confirms
from node.wire.amqp091.replies import reply_text
from node.wire.amqp091.reply_to import DirectReplies
from node.wire.amqp091.shared import ConnectionParts, Hold
from node.wire.amqp091.transaction import ChannelTransaction


class Channel:
    """The state of one channel. `pending` is the request that the session has not answered yet.

    The session knows publishes by tags that go on from the tags of the channel that had the number before: a
    late confirm for that channel must not confirm a publish of this one.
    """

    __slots__ = (
        "_awaited",
        "_farewell",
        "_last_queue",
        "_next_tag",
        "_parts",
        "_replies",
        "_tags_given",
        "_unreported",
        "confirming",
        "confirms",
        "content",
        "deliveries",
        "holds",
        "number",
        "pending",
        "published",
        "state",
        "tags_before",
    )

    def __init__(self, number: int, parts: ConnectionParts, tags_before: int):
        self.number = number
        self.state = ChannelState.OPEN
        self.pending: Method | None = None
        self.holds = 0
        self.content: IncomingContent | None = None
        self.confirms = Confirms(number)
        self.deliveries = ChannelDeliveries(number, parts.frame_max, parts.outbox, parts.credits)
        self._parts = parts
        self.confirming = False
        self.published = 0
        self.tags_before = tags_before
        self._next_tag = tags_before + 1
        self._last_queue = ""
        self._tags_given = 0
        self._replies = DirectReplies()
        self._unreported: UnsettledRanges | None = None
        self._awaited = False
        self._farewell: m.ChannelClose | None = None

    # -- frames ---------------------------------------------------------------------------------

    def receive_method(self, payload: bytes) -> None:
        """Raises a ProtocolException."""
        if self.state is ChannelState.CLOSING:
            self._receive_while_closing(payload)
            return
        if self.content is not None:
            if not self.content.has_header:
                raise UnexpectedFrameError("a method frame instead of a content header")
            # §4.2.6: a non-content frame ends the content, and the part that has come is dropped.
            self.drop_content()
        if payload.startswith(PUBLISH_IDS):
            self.content = IncomingContent(self.number, self._parts.publishes.target(payload))
            if self._parts.alarm.reason is not None:
                self._published_during_alarm()
            return
        method = decode_method(payload)
        handler = _HANDLERS.get(type(method))
        if handler is None:
            raise UnexpectedMethodError(
                f"{method.__doc__} is not for a server", (method.CLASS_ID, method.METHOD_ID)
            )
        handler(self, method)

    def receive_header(self, frame: bytes) -> None:
        """Raises a ProtocolException."""
        if self.state is ChannelState.CLOSING:
            return
        content = self._expected_content()
        before = content.size
        run = content.add_header(frame, self._parts.checks, self._parts.limits.message_size)
        self._content_grew(content, before, run)

    def receive_body(self, frame: bytes) -> None:
        """Raises a ProtocolException."""
        if self.state is ChannelState.CLOSING:
            return
        content = self._expected_content()
        before = content.size
        self._content_grew(content, before, content.add_body(frame))

    def _expected_content(self) -> IncomingContent:
        if self.content is None:
            raise UnexpectedFrameError("a content frame without a method that carries content")
        return self.content

    def _content_grew(self, content: IncomingContent, before: int, run: Run | None) -> None:
        self._parts.unfinished_bytes += content.size - before
        if run is not None:
            self.drop_content()
            self.publish(run, content.target.mandatory, content.reply_here)
        elif self._parts.alarm.reason is not None:
            self._published_during_alarm()

    def _published_during_alarm(self) -> None:
        """Take no more frames while the alarm lasts, and tell the client."""
        self.holds |= Hold.ALARM
        self._parts.alarm.published()
        if self.state is ChannelState.OPEN:
            self._parts.alarm.flow(self.number, active=False)

    def drop_content(self) -> None:
        if self.content is not None:
            self._parts.unfinished_bytes -= self.content.size
            self.content = None

    def publish(self, run: Run, mandatory: bool, reply_here: bool = False) -> None:
        """Publish a run of complete messages. Raises ReplyConsumerError, and ResourceExhaustedError where a
        transaction grows too large.
        """
        first = 0
        if reply_here:
            run = self._replies.address(run)
        self.published += run.count
        if self._parts.alarm.reason is not None:
            self._published_during_alarm()
        if self.deliveries.transaction is not None:
            self.deliveries.transaction.publish(run, mandatory)
            return
        if self.confirming:
            first = self._next_tag
            self._next_tag += run.count
        self._parts.outbox.publish(PublishEffect(self.number, run, mandatory, first))

    @property
    def highest_tag(self) -> int:
        return self._next_tag - 1

    def confirm(self, first: int, last: int, *, positive: bool) -> None:
        """The publishes with these tags of the session are confirmed, or (`positive` False) refused."""
        if first > self.tags_before and self.state is ChannelState.OPEN:
            self.confirms.add(first - self.tags_before, last - self.tags_before, positive)

    # -- the end --------------------------------------------------------------------------------

    def fail(self, failure: Failure, method: tuple[int, int] = (0, 0)) -> None:
        """Close the channel with a channel exception, unless it is closing already.

        The client gets the Close after the session has ended the channel's consumers for all clients.
        """
        if self.state is not ChannelState.OPEN:
            return
        self.flush_confirms()
        code, text, outbox = failure.code, str(failure), self._parts.outbox
        outbox.refused += 1
        outbox.emit(
            LogEffect("channel_exception", {"channel": self.number, "reply_code": code, "text": text})
        )
        self.state = ChannelState.FAILED
        self._farewell = farewell = m.ChannelClose(code, reply_text(failure), *method)
        self._unreported = self._stop()
        if self.pending is None or not self._awaited:
            self._close_now(farewell)

    def end(self) -> UnsettledRanges:
        """The connection ends: stop the channel, and return its unsettled deliveries."""
        if self._unreported is not None:
            return self._unreported
        if self.state is not ChannelState.OPEN:
            return []
        self.state = ChannelState.CLOSED
        return self._stop()

    def _stop(self) -> UnsettledRanges:
        self.drop_content()
        if self.deliveries.transaction is not None:
            self.deliveries.transaction.roll_back()
            self.deliveries.transaction = None
        self._awaited = bool(self.deliveries.consumers)
        return self.deliveries.close()

    def _report_end(self) -> bool:
        """Emit ChannelClosed, unless the session has to answer a pending request first. Returns whether the
        session will call `reply`.
        """
        if self._unreported is None or self.pending is not None:
            return False
        self._parts.outbox.emit(ChannelClosed(self.number, self._unreported, self._awaited))
        self._unreported = None
        return self._awaited

    def flush_confirms(self) -> None:
        frames = self.confirms.take()
        if frames:
            self._parts.outbox.write(frames)

    def _receive_while_closing(self, payload: bytes) -> None:
        ids = payload[:4]
        if ids == CLOSE_IDS:
            # Client and server have sent Close at once: answer the client's, and wait for its Close-Ok.
            self._parts.outbox.send(self.number, m.ChannelCloseOk())
        elif ids == CLOSE_OK_IDS:
            self.state = ChannelState.CLOSED

    # -- answers of the session -----------------------------------------------------------------

    def answer(self, method: Method | None) -> Method | None:
        """End the pending request, and send `method` unless the request has `nowait`.

        Returns the request; None where none is pending or the channel is closing.
        """
        pending, self.pending = self.pending, None
        self.holds &= ~Hold.REQUEST
        if isinstance(pending, m.ChannelClose):
            self._close_now(pending)
            return None
        if self.state is not ChannelState.OPEN:
            if self._farewell is not None:
                self._close_now(self._farewell)
            self._report_end()
            return None
        if pending is not None and method is not None and not getattr(pending, "nowait", False):
            self._parts.outbox.send(self.number, method)
        if isinstance(method, m.QueueDeclareOk):
            self._last_queue = method.queue
        elif isinstance(method, m.TxCommitOk) and self.deliveries.transaction is not None:
            self.deliveries.settled(self.deliveries.transaction.committed())
        return pending

    def start_consumer(self, tag: str, number: int, returnable: bool, reply_to: str) -> None:
        pending = self.answer(m.BasicConsumeOk(tag))
        if isinstance(pending, m.BasicConsume):
            if tag in self.deliveries.consumers:
                consumer = self.deliveries.renew_consumer(tag, number, returnable)
                self._replies.end(consumer)
            else:
                consumer = self.deliveries.add_consumer(tag, number, pending.no_ack, returnable)
            if reply_to:
                self._replies.begin(consumer, reply_to)

    def end_consumer(self, consumer: ChannelConsumer) -> None:
        self.deliveries.remove_consumer(consumer)
        self._replies.end(consumer)

    # -- methods --------------------------------------------------------------------------------

    def _reply(self, request: Method, answer: Method) -> None:
        """Answer a request that the channel decides alone. The answer waits for earlier publishes, because a
        refusal of them closes the channel.
        """
        if self.number in self._parts.outbox.publishing:
            self._await(request)
            self._parts.outbox.emit(AnswerEffect(self.number, answer))
        elif not getattr(request, "nowait", False):
            self._parts.outbox.send(self.number, answer)

    def defers(self, error: ProtocolException) -> bool:
        """Have the session raise the exception after earlier publishes of the channel. False: there are none,
        and the caller raises it now.
        """
        if self.state is not ChannelState.OPEN or self.number not in self._parts.outbox.publishing:
            return False
        self.holds |= Hold.REQUEST
        self._parts.outbox.emit(RefuseEffect(self.number, error))
        return True

    def _request(self, method: Method, consumer: int = 0) -> None:
        self._await(method)
        limit = self.deliveries.first_limit(method.no_ack) if isinstance(method, m.BasicConsume) else 0
        self._parts.outbox.emit(Request(self.number, method, consumer, limit))

    def _await(self, method: Method) -> None:
        self.pending = method
        self.holds |= Hold.REQUEST

    def _request_on_queue(self, method: Any, consumer: int = 0) -> None:
        """Pass a request on. An empty queue name stands for the queue that the channel declared last."""
        if not method.queue:
            if not self._last_queue:
                ids = (method.CLASS_ID, method.METHOD_ID)
                raise NoQueueDeclaredError("no previously declared queue", ids)
            if isinstance(method, m.QueueBind | m.QueueUnbind) and not method.routing_key:
                method = replace(method, routing_key=self._last_queue)
            method = replace(method, queue=self._last_queue)
        self._request(method, consumer)

    def _open(self, method: m.ChannelOpen) -> None:
        raise ChannelNumberError("second 'channel.open' seen", method_ids(method))

    def _close(self, method: m.ChannelClose) -> None:
        if self.number in self._parts.outbox.publishing:
            self._await(method)
            self._parts.outbox.emit(AnswerEffect(self.number, m.ChannelCloseOk()))
        else:
            self._close_now(method)

    def _close_now(self, method: m.ChannelClose) -> None:
        """Answer the client's Close, send the server's own Close, or both."""
        if self.state is ChannelState.OPEN:
            self.flush_confirms()
            self.state = ChannelState.PARTED
            self._unreported = self._stop()
        if self._report_end():
            self._await(method)
            return
        farewell, self._farewell = self._farewell, None
        if farewell is not None:
            self._parts.outbox.send(self.number, farewell)
            self.state = ChannelState.CLOSING
        if method is not farewell:
            self._parts.outbox.send(self.number, m.ChannelCloseOk())
        if self.state is ChannelState.PARTED:
            self.state = ChannelState.CLOSED

    def _unexpected(self, method: Method) -> None:
        raise UnexpectedMethodError(f"unexpected {method.__doc__}", method_ids(method))

    def _ignore(self, _method: Method) -> None:
        """Ignore the client's answers to Channel.Flow and Basic.Cancel of the server."""

    def _flow(self, method: m.ChannelFlow) -> None:
        self._reply(method, m.ChannelFlowOk(method.active))
        self.deliveries.set_flow(method.active)

    def _access(self, method: m.AccessRequest) -> None:
        """Accept any access request of 0-9: permissions are checked with each command."""
        self._reply(method, m.AccessRequestOk())

    def _confirm_select(self, method: m.ConfirmSelect) -> None:
        if self.deliveries.transaction is not None:
            raise ChannelModeError("cannot switch from tx to confirm mode", method_ids(method))
        self.confirming = True
        self._reply(method, m.ConfirmSelectOk())

    def _tx_select(self, method: m.TxSelect) -> None:
        if self.confirming:
            raise ChannelModeError("cannot switch from confirm to tx mode", method_ids(method))
        self.deliveries.begin_transactions(self._parts.load)
        self._reply(method, m.TxSelectOk())

    def _tx_commit(self, method: m.TxCommit) -> None:
        self._selected(method).commit()
        self._await(method)

    def _tx_rollback(self, method: m.TxRollback) -> None:
        self._selected(method).roll_back()
        self._reply(method, m.TxRollbackOk())

    def _selected(self, method: Method) -> ChannelTransaction:
        if self.deliveries.transaction is None:
            raise ChannelModeError("channel is not transactional", method_ids(method))
        return self.deliveries.transaction

    def _qos(self, method: m.BasicQos) -> None:
        """Set the prefetch with RabbitMQ's meaning of `global`: with it the limits are for all consumers of
        the channel together, without it for each consumer that starts later.
        """
        self._reply(method, m.BasicQosOk())
        if method.global_:
            self.deliveries.set_prefetch(method.prefetch_count, method.prefetch_size)
        else:
            self.deliveries.set_consumer_prefetch(method.prefetch_count, method.prefetch_size)

    def _consume(self, method: m.BasicConsume) -> None:
        consumers, tag = self.deliveries.consumers, method.consumer_tag
        if tag in consumers and method.arguments.get(X_REPLACE) is not True:
            raise NotAllowedError(f"attempt to reuse consumer tag '{tag}'", method_ids(method))
        replaced = consumers[tag].number if tag in consumers else 0
        while not tag or (tag in consumers and not replaced):
            self._tags_given += 1
            tag = f"amq.ctag-{self.number}.{self._tags_given}"
            method = replace(method, consumer_tag=tag)
        if method.queue == REPLY_TO:
            self._replies.check(method)
        self._request_on_queue(method, replaced)

    def _cancel(self, method: m.BasicCancel) -> None:
        consumer = self.deliveries.consumers.get(method.consumer_tag)
        if consumer is None:
            self._reply(method, m.BasicCancelOk(method.consumer_tag))
        else:
            self._request(method, consumer.number)

    def _ack(self, method: m.BasicAck) -> None:
        self.acknowledge(method.delivery_tag, method.delivery_tag, method.multiple)

    def acknowledge(self, first: int, last: int, multiple: bool) -> None:
        """A row of basic.ack. Raises UnknownDeliveryTagError."""
        try:
            self.deliveries.accept_row(first, last, multiple)
        except UnknownDeliveryError as error:
            raise _unknown_tag(error.number, (m.BasicAck.CLASS_ID, m.BasicAck.METHOD_ID)) from None

    def _nack(self, method: m.BasicNack) -> None:
        outcome = Outcome.RETURNED if method.requeue else Outcome.REJECTED
        self._settle(method, outcome, method.multiple)

    def _reject(self, method: m.BasicReject) -> None:
        self._settle(method, Outcome.RETURNED if method.requeue else Outcome.REJECTED, False)

    def _settle(self, method: m.BasicNack | m.BasicReject, outcome: Outcome, multiple: bool) -> None:
        try:
            self.deliveries.settle(outcome, method.delivery_tag, multiple)
        except UnknownDeliveryError as error:
            raise _unknown_tag(error.number, method_ids(method)) from None

    def _recover(self, method: m.BasicRecover | m.BasicRecoverAsync) -> None:
        if not method.requeue:
            # As RabbitMQ does.
            raise UnsupportedError("requeue=false", method_ids(method))
        # §4.6: the client gets the answer before any redelivered message.
        if isinstance(method, m.BasicRecover):
            self._reply(method, m.BasicRecoverOk())
        self.deliveries.recover()


def _unknown_tag(tag: int, method: tuple[int, int]) -> UnknownDeliveryTagError:
    return UnknownDeliveryTagError(f"unknown delivery tag {tag}", method)


_HANDLERS: Final[dict[type[Method], Callable[[Channel, Any], None]]] = {
    m.ChannelOpen: Channel._open,
    m.ChannelFlow: Channel._flow,
    m.ChannelFlowOk: Channel._ignore,
    m.ChannelClose: Channel._close,
    m.ChannelCloseOk: Channel._unexpected,
    m.AccessRequest: Channel._access,
    m.ExchangeDeclare: Channel._request,
    m.ExchangeDelete: Channel._request,
    m.ExchangeBind: Channel._request,
    m.ExchangeUnbind: Channel._request,
    m.QueueDeclare: Channel._request,
    m.QueueBind: Channel._request_on_queue,
    m.QueueUnbind: Channel._request_on_queue,
    m.QueuePurge: Channel._request_on_queue,
    m.QueueDelete: Channel._request_on_queue,
    m.BasicQos: Channel._qos,
    m.BasicConsume: Channel._consume,
    m.BasicCancel: Channel._cancel,
    m.BasicCancelOk: Channel._ignore,
    m.BasicGet: Channel._request_on_queue,
    m.BasicAck: Channel._ack,
    m.BasicNack: Channel._nack,
    m.BasicReject: Channel._reject,
    m.BasicRecover: Channel._recover,
    m.BasicRecoverAsync: Channel._recover,
    m.ConfirmSelect: Channel._confirm_select,
    m.TxSelect: Channel._tx_select,
    m.TxCommit: Channel._tx_commit,
    m.TxRollback: Channel._tx_rollback,
}
