"""Translates methods of AMQP 0-9-1 to commands, and results to the methods that answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from node.message.streams import LARGEST_OFFSET, X_STREAM_OFFSET, OffsetKind, StreamOffset
from node.routing.matching import Destination, DestinationKind
from node.session.commands import (
    Bind,
    Cancel,
    Command,
    Completed,
    Consume,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    FindExchange,
    FindQueue,
    Get,
    PurgeQueue,
    QueueFound,
    Removed,
    Unbind,
)
from node.session.ports import QueueDeclaration
from node.wire.amqp091 import effects
from node.wire.amqp091 import methods as m
from node.wire.amqp091.connection import Connection
from node.wire.amqp091.fields import Timestamp
from node.wire.amqp091.primitives import Method


def command_of(request: effects.Request) -> Command:
    """The command that a client's method stands for."""
    return _COMMANDS[type(request.method)](request, request.method)


def _declare_exchange(_: effects.Request, method: m.ExchangeDeclare) -> Command:
    if method.passive:
        return FindExchange(method.exchange)
    return DeclareExchange(
        method.exchange, method.type_, method.durable, method.auto_delete, method.internal, method.arguments
    )


def _delete_exchange(_: effects.Request, method: m.ExchangeDelete) -> Command:
    return DeleteExchange(method.exchange, method.if_unused)


def _change_exchange_binding(_: effects.Request, method: m.ExchangeBind | m.ExchangeUnbind) -> Command:
    destination = Destination(DestinationKind.EXCHANGE, method.destination)
    change = Bind if isinstance(method, m.ExchangeBind) else Unbind
    return change(method.source, destination, method.routing_key, method.arguments)


def _change_queue_binding(_: effects.Request, method: m.QueueBind | m.QueueUnbind) -> Command:
    destination = Destination(DestinationKind.QUEUE, method.queue)
    change = Bind if isinstance(method, m.QueueBind) else Unbind
    return change(method.exchange, destination, method.routing_key, method.arguments)


def _declare_queue(_: effects.Request, method: m.QueueDeclare) -> Command:
    if method.passive:
        return FindQueue(method.queue)
    return DeclareQueue(
        QueueDeclaration(
            method.queue, method.durable, method.exclusive, method.auto_delete, dict(method.arguments)
        )
    )


def _delete_queue(_: effects.Request, method: m.QueueDelete) -> Command:
    return DeleteQueue(method.queue, method.if_unused, method.if_empty)


def _purge(_: effects.Request, method: m.QueuePurge) -> Command:
    return PurgeQueue(method.queue)


def _consume(request: effects.Request, method: m.BasicConsume) -> Command:
    return Consume(
        method.queue,
        request.limit,
        method.no_ack,
        method.exclusive,
        method.arguments,
        offset=_offset(method.arguments.get(X_STREAM_OFFSET)),
        replaces=request.consumer,
    )


def _offset(asked: object) -> object:
    """A time in seconds since the epoch as a place in a stream; every other value as it is."""
    if not isinstance(asked, Timestamp):
        return asked
    return StreamOffset(OffsetKind.TIME, min(asked * 1000, LARGEST_OFFSET))


def _cancel(request: effects.Request, _: m.BasicCancel) -> Command:
    return Cancel(request.consumer)


def _get(_: effects.Request, method: m.BasicGet) -> Command:
    return Get(method.queue, method.no_ack)


_COMMANDS: Final[dict[type[Method], Callable[[effects.Request, Any], Command]]] = {
    m.ExchangeDeclare: _declare_exchange,
    m.ExchangeDelete: _delete_exchange,
    m.ExchangeBind: _change_exchange_binding,
    m.ExchangeUnbind: _change_exchange_binding,
    m.QueueDeclare: _declare_queue,
    m.QueueDelete: _delete_queue,
    m.QueueBind: _change_queue_binding,
    m.QueueUnbind: _change_queue_binding,
    m.QueuePurge: _purge,
    m.BasicConsume: _consume,
    m.BasicCancel: _cancel,
    m.BasicGet: _get,
}


def answer_to(method: Method, result: Completed | QueueFound | Removed) -> Method:
    """The `-Ok` method that answers `method` with this result."""
    if isinstance(result, QueueFound):
        return m.QueueDeclareOk(result.name, result.ready, result.consumers)
    if isinstance(result, Removed):
        return (
            m.QueuePurgeOk(result.count)
            if isinstance(method, m.QueuePurge)
            else m.QueueDeleteOk(result.count)
        )
    if isinstance(method, m.BasicCancel):
        return m.BasicCancelOk(method.consumer_tag)
    return _COMPLETED[type(method)]()


_COMPLETED: Final[dict[type[Method], Callable[[], Method]]] = {
    m.ExchangeDeclare: m.ExchangeDeclareOk,
    m.ExchangeDelete: m.ExchangeDeleteOk,
    m.ExchangeBind: m.ExchangeBindOk,
    m.ExchangeUnbind: m.ExchangeUnbindOk,
    m.QueueBind: m.QueueBindOk,
    m.QueueUnbind: m.QueueUnbindOk,
}


def answer(connection: Connection, effect: effects.AnswerEffect) -> None:
    """Answer a request that needs no command of the broker, in the order of requests."""
    connection.reply(effect.channel, effect.method)


def refuse(connection: Connection, effect: effects.RefuseEffect) -> None:
    """Refuse a request, in the order of requests."""
    connection.fail(effect.channel, effect.error)
