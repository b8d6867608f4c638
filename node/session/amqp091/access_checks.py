"""Which rights a method needs: RabbitMQ's access control table.

method            configure        write                          read
exchange.declare  the exchange     the alternate exchange *       the exchange *
exchange.delete   the exchange
exchange.bind                      the destination                the source, and its topic
queue.declare     the queue        the dead-letter exchange *     the queue *
queue.delete      the queue
queue.bind                         the queue                      the exchange, and its topic
queue.purge                                                       the queue
basic.get                                                         the queue
basic.consume                                                     the queue

A passive declare needs no right. Unbinding needs what binding needs; what is marked * only where the argument
is given and nothing of that name is there yet. Publishing is checked where routes are found, and remembered
with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from node.refusal import NotFoundError, Refusal
from node.routing.exchange import ExchangeKind
from node.session.permissions import Right, Scope
from node.session.ports import BrokerPort
from node.wire.amqp091 import methods
from node.wire.amqp091.primitives import Method
from node.wire.amqp091.properties import REPLY_TO

SERVER_NAMED: Final = "amq.gen-" + "0" * 22
"""Stands for a queue name that the server is about to choose."""


class AccessChecks:
    """The checks of one session."""

    def __init__(self, port: BrokerPort) -> None:
        self._port = port

    def check(self, scope: Scope, holder: int, method: Method) -> None:
        """Raises AccessRefusedError."""
        check = _CHECKS.get(type(method))
        if check is not None:
            check(self, scope, holder, method)

    def _exchange(self, scope: Scope, right: Right, name: str) -> None:
        self._port.permissions.check_exchange(scope.user, scope.vhost, right, name)

    def _subject(self, scope: Scope, right: Right, name: str) -> None:
        """What nobody may do to the default exchange is refused for that, whoever asks."""
        if name:
            self._exchange(scope, right, name)

    def _queue(self, scope: Scope, right: Right, name: str) -> None:
        # Everybody may use direct reply-to, which is nobody's queue.
        if not name.startswith(REPLY_TO):
            self._port.permissions.check_queue(scope.user, scope.vhost, right, name)

    # -- exchanges ------------------------------------------------------------------------------

    def _declare_exchange(self, scope: Scope, holder: int, method: methods.ExchangeDeclare) -> None:
        if method.passive:
            return
        self._subject(scope, Right.CONFIGURE, method.exchange)
        alternate = method.arguments.get("alternate-exchange")
        if isinstance(alternate, str) and self._kind(scope, method.exchange) is None:
            self._exchange(scope, Right.READ, method.exchange)
            self._exchange(scope, Right.WRITE, alternate)

    def _delete_exchange(self, scope: Scope, holder: int, method: methods.ExchangeDelete) -> None:
        self._subject(scope, Right.CONFIGURE, method.exchange)

    def _change_exchange_binding(
        self, scope: Scope, holder: int, method: methods.ExchangeBind | methods.ExchangeUnbind
    ) -> None:
        self._subject(scope, Right.WRITE, method.destination)
        self._source(scope, method.source, method.routing_key)

    def _source(self, scope: Scope, exchange: str, key: str) -> None:
        self._subject(scope, Right.READ, exchange)
        if self._kind(scope, exchange) is ExchangeKind.TOPIC:
            self._port.permissions.check_topic(scope.user, scope.vhost, Right.READ, exchange, key)

    def _kind(self, scope: Scope, exchange: str) -> ExchangeKind | None:
        """The type of an exchange; None where there is none."""
        try:
            return self._port.exchange(scope.vhost, exchange).kind
        except NotFoundError:
            return None

    # -- queues ---------------------------------------------------------------------------------

    def _declare_queue(self, scope: Scope, holder: int, method: methods.QueueDeclare) -> None:
        if method.passive:
            return
        name = method.queue or SERVER_NAMED
        self._queue(scope, Right.CONFIGURE, name)
        dead_letters = method.arguments.get("x-dead-letter-exchange")
        if isinstance(dead_letters, str) and not self._exists(scope, holder, method.queue):
            self._queue(scope, Right.READ, name)
            self._exchange(scope, Right.WRITE, dead_letters)

    def _exists(self, scope: Scope, holder: int, queue: str) -> bool:
        try:
            self._port.queue(scope.vhost, queue, holder)
        except NotFoundError:
            return False
        except Refusal:
            return True
        return True

    def _delete_queue(self, scope: Scope, holder: int, method: methods.QueueDelete) -> None:
        self._queue(scope, Right.CONFIGURE, method.queue)

    def _change_queue_binding(
        self, scope: Scope, holder: int, method: methods.QueueBind | methods.QueueUnbind
    ) -> None:
        self._queue(scope, Right.WRITE, method.queue)
        self._source(scope, method.exchange, method.routing_key)

    def _read(
        self, scope: Scope, holder: int, method: methods.QueuePurge | methods.BasicGet | methods.BasicConsume
    ) -> None:
        self._queue(scope, Right.READ, method.queue)


_CHECKS: Final[dict[type[Method], Callable[[AccessChecks, Scope, int, Any], None]]] = {
    methods.ExchangeDeclare: AccessChecks._declare_exchange,
    methods.ExchangeDelete: AccessChecks._delete_exchange,
    methods.ExchangeBind: AccessChecks._change_exchange_binding,
    methods.ExchangeUnbind: AccessChecks._change_exchange_binding,
    methods.QueueDeclare: AccessChecks._declare_queue,
    methods.QueueDelete: AccessChecks._delete_queue,
    methods.QueueBind: AccessChecks._change_queue_binding,
    methods.QueueUnbind: AccessChecks._change_queue_binding,
    methods.QueuePurge: AccessChecks._read,
    methods.BasicConsume: AccessChecks._read,
    methods.BasicGet: AccessChecks._read,
}
