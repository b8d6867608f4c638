"""Carries out the methods that a channel waits for: declare, delete, bind, consume, get and the like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

from node.refusal import HomeNodeDownError, NotFoundError, PreconditionFailedError, Refusal
from node.routing.exchange import Exchange, asked_kind, refuse_default
from node.routing.matching import Binding, Destination, DestinationKind
from node.session.amqp091.access_checks import AccessChecks
from node.session.permissions import Scope
from node.session.ports import (
    BrokerPort,
    ConsumerOptions,
    Got,
    QueueCounts,
    QueueDeclaration,
    QueueRef,
    Subscriber,
)
from node.wire.amqp091 import methods
from node.wire.amqp091.primitives import Method
from node.wire.amqp091.properties import REPLY_TO
from node.wire.amqp091.type_names import type_name


class Answers(Protocol):
    """The connection machine's entry points for answers (see `node.wire.amqp091.connection`)."""

    def reply(self, channel: int, method: Method) -> None: ...
    def fail(self, channel: int, error: Refusal) -> None: ...
    def consume_ok(self, channel: int, tag: str, consumer: int, returnable: bool, reply_to: str) -> None: ...
    def deliver_get(self, channel: int, got: Got) -> None: ...
    def get_empty(self, channel: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a channel of a session."""

    channel: int
    scope: Scope
    holder: int
    subscriber: Subscriber
    limit: int = 0
    """The credit that a consumer of the channel begins with."""

    @property
    def vhost(self) -> str:
        return self.scope.vhost


Answer = Callable[[Method], None]


class Requests:
    """One session's requests. Every request ends in exactly one call of `Answers`."""

    def __init__(self, port: BrokerPort, answers: Answers) -> None:
        self._port = port
        self._answers = answers
        self._access = AccessChecks(port)

    def carry_out(self, caller: Caller, method: Method) -> None:
        """Begin a request; a refusal found at once is answered at once."""
        method = _without_line_ends(method)
        try:
            self._access.check(caller.scope, caller.holder, method)
            _HANDLERS[type(method)](self, caller, method)
        except Refusal as refusal:
            self._answers.fail(caller.channel, refusal)

    def _finish(self, caller: Caller, method: Method, refusal: Refusal | None) -> None:
        if refusal is None:
            self._answers.reply(caller.channel, method)
        else:
            self._answers.fail(caller.channel, refusal)

    def _reply_of_catalog(self, caller: Caller, method: Method) -> None:
        """Answer out of this node's catalog, once every node shows the same (A16)."""
        self._port.when_visible(partial(self._answers.reply, caller.channel, method))

    # -- exchanges ------------------------------------------------------------------------------

    def _declare_exchange(self, caller: Caller, method: methods.ExchangeDeclare) -> None:
        if method.passive:
            refuse_default(method.exchange)
            self._port.exchange(caller.vhost, method.exchange)
            self._reply_of_catalog(caller, methods.ExchangeDeclareOk())
            return
        kind, delayed = asked_kind(method.type_, method.arguments)
        wanted = Exchange(
            method.exchange,
            kind,
            durable=method.durable,
            auto_delete=method.auto_delete,
            internal=method.internal,
            alternate=_alternate(caller.vhost, method),
            delayed=delayed,
        )
        self._port.declare_exchange(
            caller.vhost,
            wanted,
            lambda refusal: self._finish(caller, methods.ExchangeDeclareOk(), refusal),
        )

    def _delete_exchange(self, caller: Caller, method: methods.ExchangeDelete) -> None:
        self._port.delete_exchange(
            caller.vhost,
            method.exchange,
            method.if_unused,
            lambda refusal: self._finish(caller, methods.ExchangeDeleteOk(), _unless_absent(refusal)),
        )

    def _bind_exchange(self, caller: Caller, method: methods.ExchangeBind) -> None:
        self._change_binding(
            caller, self._port.bind, method.source, DestinationKind.EXCHANGE, method.destination,
            method.routing_key, method.arguments, methods.ExchangeBindOk(),
        )  # fmt: skip

    def _unbind_exchange(self, caller: Caller, method: methods.ExchangeUnbind) -> None:
        self._change_binding(
            caller, self._port.unbind, method.source, DestinationKind.EXCHANGE, method.destination,
            method.routing_key, method.arguments, methods.ExchangeUnbindOk(),
        )  # fmt: skip

    def _bind_queue(self, caller: Caller, method: methods.QueueBind) -> None:
        refuse_default(method.exchange)
        self._port.queue(caller.vhost, method.queue, caller.holder)
        self._change_binding(
            caller, self._port.bind, method.exchange, DestinationKind.QUEUE, method.queue,
            method.routing_key, method.arguments, methods.QueueBindOk(),
        )  # fmt: skip

    def _unbind_queue(self, caller: Caller, method: methods.QueueUnbind) -> None:
        refuse_default(method.exchange)
        try:
            self._port.queue(caller.vhost, method.queue, caller.holder)
        except NotFoundError:
            self._reply_of_catalog(caller, methods.QueueUnbindOk())
            return
        except HomeNodeDownError:
            # Its bindings are in the catalog, which is there.
            pass
        self._change_binding(
            caller, self._port.unbind, method.exchange, DestinationKind.QUEUE, method.queue,
            method.routing_key, method.arguments, methods.QueueUnbindOk(),
        )  # fmt: skip

    def _change_binding(
        self, caller: Caller, change: Callable[..., None], source: str, kind: DestinationKind,
        destination: str, key: str, arguments: dict[str, Any], ok: Method,
    ) -> None:  # fmt: skip
        binding = Binding.of(source, Destination(kind, destination), key, arguments)
        unbinding = isinstance(ok, methods.QueueUnbindOk | methods.ExchangeUnbindOk)

        def changed(refusal: Refusal | None) -> None:
            self._finish(caller, ok, _unless_absent(refusal) if unbinding else refusal)

        change(caller.vhost, binding, dict(arguments), changed)

    # -- queues ---------------------------------------------------------------------------------

    def _declare_queue(self, caller: Caller, method: methods.QueueDeclare) -> None:
        if method.queue.startswith(REPLY_TO):
            self._declare_reply_queue(caller, method.queue)
            return
        if method.passive:
            there = self._port.queue(caller.vhost, method.queue, caller.holder)
            self._port.when_visible(partial(self._answer_declared, caller, there))
            return
        declaration = QueueDeclaration(
            method.queue, method.durable, method.exclusive, method.auto_delete, dict(method.arguments)
        )

        def declare() -> None:
            self._port.declare_queue(caller.vhost, declaration, caller.holder, declared)

        def declared(queue: QueueRef | None, refusal: Refusal | None) -> None:
            if queue is not None:
                # One that somebody deletes meanwhile is to be there all the same; not an exclusive one, which
                # nobody deletes but this connection, or its end.
                self._answer_declared(caller, queue, None if method.exclusive else declare)
            elif refusal is not None:
                self._answers.fail(caller.channel, refusal)

        declare()

    def _declare_reply_queue(self, caller: Caller, name: str) -> None:
        """Declares nothing, but tells whether a reply would still find its consumer (RabbitMQ)."""
        ok = methods.QueueDeclareOk(name, 0, 1)
        if name == REPLY_TO:
            self._answers.reply(caller.channel, ok)
        else:
            queue = self._port.find_reply_queue(caller.vhost, name)
            self._port.count(queue, lambda _, refusal: self._finish(caller, ok, refusal))

    def _answer_declared(
        self, caller: Caller, queue: QueueRef, gone: Callable[[], None] | None = None
    ) -> None:
        def counted(counts: QueueCounts, refusal: Refusal | None) -> None:
            if gone is not None and isinstance(refusal, NotFoundError):
                gone()
                return
            ok = methods.QueueDeclareOk(queue.name, counts.ready, counts.consumers)
            self._finish(caller, ok, refusal)

        self._port.count(queue, counted)

    def _delete_queue(self, caller: Caller, method: methods.QueueDelete) -> None:
        try:
            queue = self._port.queue(caller.vhost, method.queue, caller.holder)
        except NotFoundError:
            self._reply_of_catalog(caller, methods.QueueDeleteOk(0))
            return
        self._port.delete_queue(
            queue,
            method.if_unused,
            method.if_empty,
            lambda count, refusal: self._finish(
                caller, methods.QueueDeleteOk(count), _unless_absent(refusal)
            ),
        )

    def _purge(self, caller: Caller, method: methods.QueuePurge) -> None:
        queue = self._port.queue(caller.vhost, method.queue, caller.holder)
        self._port.purge(
            queue, lambda count, refusal: self._finish(caller, methods.QueuePurgeOk(count), refusal)
        )

    # -- consuming ------------------------------------------------------------------------------

    def _consume(self, caller: Caller, method: methods.BasicConsume) -> None:
        reply_to = ""
        if method.queue == REPLY_TO:
            queue = self._port.reply_queue(caller.vhost, caller.holder)
            reply_to = queue.name
        else:
            queue = self._port.queue(caller.vhost, method.queue, caller.holder)
        priority = _priority(queue, method.arguments)
        options = ConsumerOptions(method.no_ack, method.exclusive, priority, caller.limit)

        def attached(consumer: int, refusal: Refusal | None) -> None:
            if refusal is None:
                returnable = self._port.keeps_until_settled(queue)
                tag = method.consumer_tag
                self._answers.consume_ok(caller.channel, tag, consumer, returnable, reply_to)
            else:
                self._answers.fail(caller.channel, refusal)

        self._port.consume(caller.subscriber, queue, options, attached)

    def _get(self, caller: Caller, method: methods.BasicGet) -> None:
        queue = self._port.queue(caller.vhost, method.queue, caller.holder)

        def got(message: Got | None, refusal: Refusal | None) -> None:
            if refusal is not None:
                self._answers.fail(caller.channel, refusal)
            elif message is None:
                self._answers.get_empty(caller.channel)
            else:
                self._answers.deliver_get(caller.channel, message)

        self._port.get(queue, method.no_ack, got)


_NAMED: Final[dict[type[Method], str]] = {
    methods.ExchangeDeclare: "exchange",
    methods.ExchangeDelete: "exchange",
    methods.QueueDeclare: "queue",
    methods.QueueDelete: "queue",
}


def _without_line_ends(method: Method) -> Method:
    """RabbitMQ takes CR and LF out of the names that are declared and deleted: careless input leaves them."""
    field = _NAMED.get(type(method))
    name = "" if field is None else getattr(method, field)
    if field is None or not ("\r" in name or "\n" in name):
        return method
    declaration: Any = method
    cleaned: Method = replace(declaration, **{field: name.replace("\r", "").replace("\n", "")})
    return cleaned


def _unless_absent(refusal: Refusal | None) -> Refusal | None:
    """RabbitMQ's reading: to delete or unbind what is not there succeeds."""
    return None if isinstance(refusal, NotFoundError) else refusal


def _alternate(vhost: str, method: methods.ExchangeDeclare) -> str | None:
    name = method.arguments.get("alternate-exchange")
    if name is None and "alternate-exchange" not in method.arguments:
        return None
    if not isinstance(name, str):
        raise PreconditionFailedError(
            f"invalid type '{type_name(name)}' for arg 'alternate-exchange' in exchange '{method.exchange}' "
            f"in vhost '{vhost}'"
        )
    return name


def _priority(queue: QueueRef, arguments: dict[str, Any]) -> int:
    priority = arguments.get("x-priority", 0)
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise PreconditionFailedError(
            f"invalid arg 'x-priority' for {queue}: \"expected integer, got {type_name(priority)}\""
        )
    return priority


_HANDLERS: Final[dict[type[Method], Callable[[Requests, Caller, Any], None]]] = {
    methods.ExchangeDeclare: Requests._declare_exchange,
    methods.ExchangeDelete: Requests._delete_exchange,
    methods.ExchangeBind: Requests._bind_exchange,
    methods.ExchangeUnbind: Requests._unbind_exchange,
    methods.QueueDeclare: Requests._declare_queue,
    methods.QueueDelete: Requests._delete_queue,
    methods.QueueBind: Requests._bind_queue,
    methods.QueueUnbind: Requests._unbind_queue,
    methods.QueuePurge: Requests._purge,
    methods.BasicConsume: Requests._consume,
    methods.BasicGet: Requests._get,
}
