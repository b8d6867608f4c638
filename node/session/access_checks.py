"""The rights that each command needs: RabbitMQ's access control table.

command          configure        write                          read
DeclareExchange  the exchange     the alternate exchange *       the exchange *
DeleteExchange   the exchange
Bind                              the destination                the source, and its topic
DeclareQueue     the queue        the dead-letter exchange *     the queue *, the streams under it *
DeleteQueue      the queue
PurgeQueue                                                       the queue
Get                                                              the queue
Consume                                                          the queue
ReadView                                                         the queue under the view

FindExchange, FindQueue and DescribeQueue need no right. Unbind and ListBindings need the rights of Bind. A
right marked * is needed only where the command has the argument, and the exchange or queue is not there yet.
Streams that a pattern takes may be declared later, by other users: the user who declares a queue over them
needs the right to read on every name that the pattern may match.
The broker checks publishing when it finds a route, and remembers the answer with the route.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from node.delivery.deeds import Deed
from node.message.streams import X_UNDERLYING_TOPIC, X_VIEW
from node.message.topic_patterns import is_pattern
from node.names import REPLY_TO
from node.refusal import AccessRefusedError, NotFoundError, Refusal
from node.routing.exchange import ExchangeKind
from node.routing.matching import DestinationKind
from node.session.batch_port import (
    BatchCommand,
    MakeQueue,
    QueryQueues,
    RemoveQueue,
    RenameQueue,
    UpdateQueue,
)
from node.session.commands import (
    Bind,
    Command,
    Consume,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Get,
    ListBindings,
    PurgeQueue,
    ReadView,
    RenewLeases,
    SettleMessages,
    Unbind,
)
from node.session.permissions import Right, Scope
from node.session.ports import BrokerPort, QueueDeclaration

SERVER_NAMED: Final = "amq.gen-" + "0" * 22
"""Stands for a queue name that the server is about to generate: patterns of permissions are matched
with it.
"""

EVERY_NAME: Final = ".*"
"""The pattern that takes every name."""


class AccessChecks:
    """The checks of one session."""

    def __init__(self, port: BrokerPort) -> None:
        self._port = port

    def check(self, scope: Scope, holder: int, command: Command) -> None:
        """Raises AccessRefusedError where the user of `scope` has not the rights that the command needs.

        `holder` is the number of the caller's connection, for exclusive queues.
        """
        check = _CHECKS.get(type(command))
        if check is not None:
            check(self, scope, holder, command)

    def check_batched(self, scope: Scope, holder: int, command: BatchCommand) -> None:
        """As `check`, for a command of a batch. AssertQueue needs no right, as FindQueue; a query of all
        queues needs the right to read queues of every name.
        """
        if isinstance(command, MakeQueue):
            declaration = QueueDeclaration(
                command.name, command.durable, False, command.auto_delete, command.arguments
            )
            self._declare_queue(scope, holder, DeclareQueue(declaration))
        elif isinstance(command, UpdateQueue):
            self._queue(scope, Right.CONFIGURE, command.name)
            dead_letters = command.arguments.get("x-dead-letter-exchange")
            if isinstance(dead_letters, str):
                self._queue(scope, Right.READ, command.name)
                self._exchange(scope, Right.WRITE, dead_letters)
        elif isinstance(command, RemoveQueue):
            self._queue(scope, Right.CONFIGURE, command.name)
        elif isinstance(command, RenameQueue):
            # Users who may read the new name get the messages of the old one, and the other way round.
            for name in (command.name, command.to):
                self._queue(scope, Right.CONFIGURE, name)
                self._queue(scope, Right.READ, name)
                self._queue(scope, Right.WRITE, name)
        elif isinstance(command, QueryQueues) and not command.name:
            self._port.permissions.check_pattern(scope, Right.READ, EVERY_NAME)

    def _exchange(self, scope: Scope, right: Right, name: str) -> None:
        self._port.permissions.check_exchange(scope, right, name)

    def _subject(self, scope: Scope, right: Right, name: str) -> None:
        """Check the right on an exchange that a command changes. The default exchange is left to the command
        itself, which refuses it to every user, so that all users get the same text.
        """
        if name:
            self._exchange(scope, right, name)

    def _queue(self, scope: Scope, right: Right, name: str) -> None:
        # Every user may use direct reply-to, and no permission mentions its queue.
        if not name.startswith(REPLY_TO):
            self._port.permissions.check_queue(scope, right, name)

    # -- exchanges ------------------------------------------------------------------------------

    def _declare_exchange(self, scope: Scope, holder: int, command: DeclareExchange) -> None:
        self._subject(scope, Right.CONFIGURE, command.name)
        alternate = command.arguments.get("alternate-exchange")
        if isinstance(alternate, str) and self._kind(scope, command.name) is None:
            self._exchange(scope, Right.READ, command.name)
            self._exchange(scope, Right.WRITE, alternate)

    def _delete_exchange(self, scope: Scope, holder: int, command: DeleteExchange) -> None:
        self._subject(scope, Right.CONFIGURE, command.name)

    def _kind(self, scope: Scope, exchange: str) -> ExchangeKind | None:
        """The type of an exchange; None where the exchange does not exist."""
        try:
            return self._port.exchange(scope.vhost, exchange).kind
        except NotFoundError:
            return None

    # -- bindings -------------------------------------------------------------------------------

    def _change_binding(self, scope: Scope, holder: int, command: Bind | Unbind) -> None:
        self._binding(scope, holder, command)
        source = command.source
        if self._kind(scope, source) is ExchangeKind.TOPIC:
            self._port.permissions.check_topic(scope, Right.READ, source, command.key)

    def _binding(self, scope: Scope, holder: int, command: Bind | Unbind | ListBindings) -> None:
        kind, name = command.destination
        if kind is DestinationKind.QUEUE:
            self._queue(scope, Right.WRITE, name)
        else:
            self._subject(scope, Right.WRITE, name)
        self._subject(scope, Right.READ, command.source)

    # -- queues ---------------------------------------------------------------------------------

    def _declare_queue(self, scope: Scope, holder: int, command: DeclareQueue) -> None:
        declared = command.declaration
        name = declared.name or SERVER_NAMED
        self._queue(scope, Right.CONFIGURE, name)
        dead_letters = declared.arguments.get("x-dead-letter-exchange")
        topic, view = declared.arguments.get(X_UNDERLYING_TOPIC), declared.arguments.get(X_VIEW)
        if (dead_letters is None and topic is None and view is None) or self._exists(
            scope, holder, declared.name
        ):
            return
        if isinstance(dead_letters, str):
            self._queue(scope, Right.READ, name)
            self._exchange(scope, Right.WRITE, dead_letters)
        if isinstance(topic, str) and is_pattern(topic):
            self._port.permissions.check_pattern(scope, Right.READ, topic)
        elif isinstance(topic, str):
            self._queue(scope, Right.READ, topic)
        if isinstance(view, str):
            self._view(scope, view)

    def _exists(self, scope: Scope, holder: int, queue: str) -> bool:
        try:
            self._port.queue(scope.vhost, queue, holder)
        except NotFoundError:
            return False
        except Refusal:
            return True
        return True

    def _delete_queue(self, scope: Scope, holder: int, command: DeleteQueue) -> None:
        self._queue(scope, Right.CONFIGURE, command.name)

    def _read(
        self,
        scope: Scope,
        holder: int,
        command: PurgeQueue | Get | Consume | RenewLeases | SettleMessages,
    ) -> None:
        self._queue(scope, Right.READ, command.queue)
        if isinstance(command, PurgeQueue) and self._port.permissions.read_filter(scope):
            raise AccessRefusedError(
                f"purge of queue '{command.queue}' in vhost '{scope.vhost}' refused for user '{scope.user}': "
                "the user may read a part of its messages"
            )

    def _read_view(self, scope: Scope, holder: int, command: ReadView) -> None:
        self._view(scope, command.view)

    def _view(self, scope: Scope, view: str) -> None:
        queue = self._port.views.queue_of(scope.vhost, view)
        self._queue(scope, Right.READ, queue)
        if self._port.permissions.read_filter(scope):
            raise AccessRefusedError(
                f"view '{view}' over queue '{queue}' in vhost '{scope.vhost}' refused for user "
                f"'{scope.user}': the user may read a part of its messages"
            )

    def _settle(self, scope: Scope, holder: int, command: SettleMessages) -> None:
        self._read(scope, holder, command)
        if command.deed is Deed.UNDO:
            self._queue(scope, Right.WRITE, command.queue)


_CHECKS: Final[dict[type[Any], Callable[[AccessChecks, Scope, int, Any], None]]] = {
    DeclareExchange: AccessChecks._declare_exchange,
    DeleteExchange: AccessChecks._delete_exchange,
    Bind: AccessChecks._change_binding,
    Unbind: AccessChecks._change_binding,
    ListBindings: AccessChecks._binding,
    DeclareQueue: AccessChecks._declare_queue,
    DeleteQueue: AccessChecks._delete_queue,
    PurgeQueue: AccessChecks._read,
    Consume: AccessChecks._read,
    Get: AccessChecks._read,
    RenewLeases: AccessChecks._read,
    SettleMessages: AccessChecks._settle,
    ReadView: AccessChecks._read_view,
}
