"""Carries out commands: declare, delete, bind, consume, get and the like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from node.delivery.deeds import Became, Deed, MoveTarget, ReplayTarget
from node.message.bookmarks import bookmark_of
from node.names import REPLY_TO, X_REPLACE
from node.ranges.range_set import Range, numbers_of, ranges_of
from node.refusal import HomeNodeDownError, NotFoundError, PreconditionFailedError, Refusal, locked
from node.routing.exchange import Exchange, asked_kind, refuse_default
from node.routing.matching import Binding, DestinationKind
from node.session.access_checks import AccessChecks
from node.session.commands import (
    COMPLETED,
    NOTHING,
    X_BROWSE,
    X_TELL,
    Answered,
    Bind,
    BindingsFound,
    Cancel,
    Command,
    Consume,
    Consuming,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DescribeQueue,
    FindExchange,
    FindQueue,
    Get,
    LeasesRenewed,
    ListBindings,
    PurgeQueue,
    QueueDescribed,
    QueueFound,
    ReadView,
    Removed,
    RenewLeases,
    Result,
    SettleMessages,
    Unbind,
    ViewRead,
)
from node.session.consumer_arguments import backlog_asked, flag_of, lingering, priority_of
from node.session.filter_arguments import (
    consumer_filter,
    entitled,
)
from node.session.named_messages import bookmarked, messages_settled, named_messages
from node.session.permissions import Right, Scope
from node.session.ports import BrokerPort, ConsumerOptions, DeclaredQueue, Got, QueueCounts, QueueRef
from node.session.replaying import Replay
from node.session.stream_offsets import reading_from
from node.session.subscriber import Subscriber
from node.session.view_port import ViewRows
from node.type_names import type_name


@dataclass(frozen=True, slots=True)
class Caller:
    """The session that gives a command. Its exclusive queues belong to the number `holder`."""

    scope: Scope
    holder: int
    subscriber: Subscriber

    @property
    def vhost(self) -> str:
        return self.scope.vhost


class Requests:
    """Carries out commands. Each command calls its `answered` exactly once, at once or in a later turn."""

    def __init__(self, port: BrokerPort) -> None:
        self._port = port
        self._access = AccessChecks(port)

    def carry_out(self, caller: Caller, command: Command, answered: Answered) -> None:
        """Check the caller's rights and start the command. Raises nothing: a refusal goes to `answered`."""
        command = _without_line_ends(command)
        try:
            self._access.check(caller.scope, caller.holder, command)
            _HANDLERS[type(command)](self, caller, command, answered)
        except Refusal as refusal:
            answered(refusal)

    def _when_visible(self, answered: Answered, result: Result) -> None:
        """Answer from this node's catalog, once the catalog of every node shows the same (A16)."""
        self._port.when_visible(partial(answered, result))

    # -- exchanges ------------------------------------------------------------------------------

    def _find_exchange(self, caller: Caller, command: FindExchange, answered: Answered) -> None:
        refuse_default(command.name)
        self._port.exchange(caller.vhost, command.name)
        self._when_visible(answered, COMPLETED)

    def _declare_exchange(self, caller: Caller, command: DeclareExchange, answered: Answered) -> None:
        kind, delayed = asked_kind(command.kind, command.arguments)
        wanted = Exchange(
            command.name,
            kind,
            durable=command.durable,
            auto_delete=command.auto_delete,
            internal=command.internal,
            alternate=_alternate(caller.vhost, command),
            delayed=delayed,
        )
        self._port.declare_exchange(
            caller.vhost, wanted, lambda refusal: answered(COMPLETED if refusal is None else refusal)
        )

    def _delete_exchange(self, caller: Caller, command: DeleteExchange, answered: Answered) -> None:
        self._port.delete_exchange(
            caller.vhost, command.name, command.if_unused, partial(_answer_unless_absent, answered, COMPLETED)
        )

    # -- bindings -------------------------------------------------------------------------------

    def _bind(self, caller: Caller, command: Bind, answered: Answered) -> None:
        if command.destination.kind is DestinationKind.QUEUE:
            refuse_default(command.source)
            self._port.queue(caller.vhost, command.destination.name, caller.holder)
        self._port.bind(
            caller.vhost,
            _binding(command),
            dict(command.arguments),
            lambda refusal: answered(COMPLETED if refusal is None else refusal),
        )

    def _unbind(self, caller: Caller, command: Unbind, answered: Answered) -> None:
        if command.destination.kind is DestinationKind.QUEUE:
            refuse_default(command.source)
            try:
                self._port.queue(caller.vhost, command.destination.name, caller.holder)
            except NotFoundError:
                self._when_visible(answered, COMPLETED)
                return
            except HomeNodeDownError:
                # Its bindings are in the catalog, which is there.
                pass
        self._port.unbind(
            caller.vhost,
            _binding(command),
            dict(command.arguments),
            partial(_answer_unless_absent, answered, COMPLETED),
        )

    # -- queues ---------------------------------------------------------------------------------

    def _find_queue(self, caller: Caller, command: FindQueue, answered: Answered) -> None:
        if command.name.startswith(REPLY_TO):
            self._find_reply_queue(caller, command.name, answered)
            return
        try:
            there = self._port.queue(caller.vhost, command.name, caller.holder)
        except NotFoundError:
            # The queue may be a server-named exclusive one of another node, which alone can tell.
            elsewhere = self._port.find_local_queue(caller.vhost, command.name)
            refused = locked(caller.vhost, command.name)
            self._port.count(elsewhere, lambda _, refusal: answered(refusal or refused))
            return
        self._port.when_visible(partial(self._answer_declared, there, answered))

    def _find_reply_queue(self, caller: Caller, name: str, answered: Answered) -> None:
        """Declares nothing: answers whether a reply would find its consumer, as RabbitMQ does."""
        found = QueueFound(name, 0, 1)
        if name == REPLY_TO:
            answered(found)
        else:
            queue = self._port.find_local_queue(caller.vhost, name)
            self._port.count(queue, lambda _, refusal: answered(found if refusal is None else refusal))

    def _declare_queue(self, caller: Caller, command: DeclareQueue, answered: Answered) -> None:
        declaration = command.declaration
        if declaration.name.startswith(REPLY_TO):
            self._find_reply_queue(caller, declaration.name, answered)
            return

        def declare() -> None:
            self._port.declare_queue(caller.vhost, declaration, caller.holder, declared)

        def declared(found: DeclaredQueue | None, refusal: Refusal | None) -> None:
            if found is None:
                assert refusal is not None
                answered(refusal)
            elif found.counts is not None:
                answered(_found(found.queue, found.counts, found.created))
            else:
                # Where another client has deleted the queue meanwhile, declare it again. An exclusive
                # queue is deleted only with this connection.
                again = None if declaration.exclusive else declare
                self._answer_declared(found.queue, answered, again, created=found.created)

        declare()

    def _answer_declared(
        self,
        queue: QueueRef,
        answered: Answered,
        gone: Callable[[], None] | None = None,
        created: bool = False,
    ) -> None:
        def counted(counts: QueueCounts, refusal: Refusal | None) -> None:
            if gone is not None and isinstance(refusal, NotFoundError):
                gone()
            elif refusal is None:
                answered(_found(queue, counts, created))
            else:
                answered(refusal)

        self._port.count(queue, counted)

    def _describe_queue(self, caller: Caller, command: DescribeQueue, answered: Answered) -> None:
        queue = self._port.queue(caller.vhost, command.name, caller.holder)

        def counted(counts: QueueCounts, refusal: Refusal | None) -> None:
            if refusal is not None:
                answered(refusal)
                return
            try:
                description = self._port.describe(queue)
            except Refusal as gone:
                answered(gone)
            else:
                answered(QueueDescribed(description, counts.ready, counts.consumers))

        self._port.when_visible(partial(self._port.count, queue, counted))

    def _read_view(self, caller: Caller, command: ReadView, answered: Answered) -> None:
        def read(rows: ViewRows | None, refusal: Refusal | None) -> None:
            if rows is not None:
                answered(ViewRead(rows))
            elif refusal is not None:
                answered(refusal)

        known = command.known, command.wait_ms
        self._port.views.read(caller.vhost, command.view, caller.holder, *known, read, keyed=command.keyed)

    def _list_bindings(self, caller: Caller, command: ListBindings, answered: Answered) -> None:
        def visible() -> None:
            found = self._port.bindings(caller.vhost, command.source, command.destination)
            answered(BindingsFound(found))

        self._port.when_visible(visible)

    def _delete_queue(self, caller: Caller, command: DeleteQueue, answered: Answered) -> None:
        try:
            queue = self._port.queue(caller.vhost, command.name, caller.holder)
        except NotFoundError:
            self._when_visible(answered, Removed(0))
            return
        self._port.delete_queue(
            queue,
            command.if_unused,
            command.if_empty,
            lambda count, refusal: _answer_unless_absent(answered, Removed(count), refusal),
        )

    def _purge(self, caller: Caller, command: PurgeQueue, answered: Answered) -> None:
        queue = self._port.queue(caller.vhost, command.queue, caller.holder)
        self._port.purge(
            queue, lambda count, refusal: answered(Removed(count) if refusal is None else refusal)
        )

    # -- consuming ------------------------------------------------------------------------------

    def _consume(self, caller: Caller, command: Consume, answered: Answered) -> None:
        reply_to, browse = "", command.browse
        if command.queue == REPLY_TO:
            queue = self._port.reply_queue(caller.vhost, caller.holder)
            # The queue is deleted with its consumer, which takes its messages.
            reply_to, browse = queue.name, False
        else:
            queue = self._port.queue(caller.vhost, command.queue, caller.holder)
            browse = browse or flag_of(queue, command.arguments, X_BROWSE)
        topic = None if command.offset is None else self._topic_under(caller, queue)
        place, queue = reading_from(queue, command.offset, topic, command.arguments), topic or queue
        known = self._port.knows_expressions
        condition = command.filter or consumer_filter(queue, command.arguments, known=known)
        # No permission mentions the queue of direct replies.
        read_filter = b"" if reply_to else self._port.permissions.read_filter(caller.scope)
        own = lingering(queue, command.arguments, settled=command.settled)
        options = ConsumerOptions(
            command.settled,
            command.exclusive,
            priority_of(queue, command.arguments),
            command.credit,
            browse,
            *place,
            entitled(queue, condition, read_filter),
            command.link or (own if own and self._port.knows_links else b""),
            flag_of(queue, command.arguments, X_TELL),
            backlog_asked(queue, command.arguments),
            command.replaces if flag_of(queue, command.arguments, X_REPLACE) else 0,
        )

        def attached(consumer: int, refusal: Refusal | None) -> None:
            if refusal is None:
                returnable = not browse and self._port.keeps_until_settled(queue)
                unsettled = self._port.unsettled_of(consumer) if command.link else None
                backlog = self._port.backlog_of(consumer)
                answered(Consuming(consumer, returnable, reply_to, unsettled, backlog))
            else:
                answered(refusal)

        self._port.consume(caller.subscriber, queue, options, attached)

    def _topic_under(self, caller: Caller, queue: QueueRef) -> QueueRef | None:
        """The stream under a queue, which a reader of the queue's past reads: it keeps the messages (seed
        002, D17). None without one. Raises AccessRefusedError.
        """
        topic = self._port.topic_under(queue)
        if topic is not None:
            self._port.permissions.check_queue(caller.scope, Right.READ, topic.name)
        return topic

    def _cancel(self, caller: Caller, command: Cancel, answered: Answered) -> None:
        self._port.leave(command.consumer, partial(answered, COMPLETED), command.closed)

    def _get(self, caller: Caller, command: Get, answered: Answered) -> None:
        queue = self._port.queue(caller.vhost, command.queue, caller.holder)

        def got(message: Got | None, refusal: Refusal | None) -> None:
            if refusal is not None:
                answered(refusal)
            else:
                answered(NOTHING if message is None else message)

        self._port.get(queue, command.settled, got, self._port.permissions.read_filter(caller.scope))

    def _renew_leases(self, caller: Caller, command: RenewLeases, answered: Answered) -> None:
        queue = self._port.queue(caller.vhost, command.queue, caller.holder)
        numbers = bookmarked(queue, command.bookmarks)

        def renewed(until: int, ranges: list[Range], refusal: Refusal | None) -> None:
            if refusal is None:
                bookmarks = [bookmark_of(queue.id, number) for number in numbers_of(ranges)]
                answered(LeasesRenewed(until, bookmarks))
            else:
                answered(refusal)

        self._port.renew_leases(queue, ranges_of(numbers), renewed)

    def _settle_messages(self, caller: Caller, command: SettleMessages, answered: Answered) -> None:
        queue = self._port.queue(caller.vhost, command.queue, caller.holder)
        asked, permissions = command.target, self._port.permissions
        condition = entitled(queue, command.condition, permissions.read_filter(caller.scope))
        target: MoveTarget | Replay | None = None
        if command.deed is Deed.UNDO:
            condition = entitled(queue, condition, permissions.write_filter(caller.scope))
        if isinstance(asked, ReplayTarget):
            condition = entitled(queue, condition, permissions.write_filter(caller.scope))
            target = Replay(self._port, caller.scope, asked)
        elif asked is not None:
            target = asked
        named = named_messages(queue, command, target, known=self._port.knows_expressions)
        named = replace(named, filter=entitled(queue, named.filter, condition))

        def settled(became: dict[Became, list[Range]], refusal: Refusal | None) -> None:
            answered(messages_settled(queue, command, became) if refusal is None else refusal)

        self._port.settle_named(queue, named, settled)


_KEEPING_NAMES: Final = (
    Bind,
    Unbind,
    ListBindings,
    PurgeQueue,
    Consume,
    Cancel,
    Get,
    RenewLeases,
    SettleMessages,
    ReadView,
)
"""The commands that RabbitMQ does not take line ends out of."""


def _without_line_ends(command: Command) -> Command:
    """The command with CR and LF taken out of the name to declare, find or delete, as RabbitMQ does."""
    if isinstance(command, DeclareQueue):
        declaration = command.declaration
        if _has_line_end(declaration.name):
            return DeclareQueue(replace(declaration, name=_cleaned(declaration.name)))
    elif not isinstance(command, _KEEPING_NAMES) and _has_line_end(command.name):
        return replace(command, name=_cleaned(command.name))
    return command


def _found(queue: QueueRef, counts: QueueCounts, created: bool = False) -> QueueFound:
    return QueueFound(queue.name, counts.ready, counts.consumers, created)


def _has_line_end(name: str) -> bool:
    return "\r" in name or "\n" in name


def _cleaned(name: str) -> str:
    return name.replace("\r", "").replace("\n", "")


def _answer_unless_absent(answered: Answered, result: Result, refusal: Refusal | None) -> None:
    """Answer a NotFoundError as success: as in RabbitMQ, deleting or unbinding an absent object succeeds."""
    answered(result if refusal is None or isinstance(refusal, NotFoundError) else refusal)


def _binding(command: Bind | Unbind) -> Binding:
    return Binding.of(command.source, command.destination, command.key, command.arguments)


def _alternate(vhost: str, command: DeclareExchange) -> str | None:
    name = command.arguments.get("alternate-exchange")
    if name is None and "alternate-exchange" not in command.arguments:
        return None
    if not isinstance(name, str):
        raise PreconditionFailedError(
            f"invalid type '{type_name(name)}' for arg 'alternate-exchange' in exchange '{command.name}' "
            f"in vhost '{vhost}'"
        )
    return name


_HANDLERS: Final[dict[type[Any], Callable[[Requests, Caller, Any, Answered], None]]] = {
    DeclareExchange: Requests._declare_exchange,
    FindExchange: Requests._find_exchange,
    DeleteExchange: Requests._delete_exchange,
    Bind: Requests._bind,
    Unbind: Requests._unbind,
    DeclareQueue: Requests._declare_queue,
    FindQueue: Requests._find_queue,
    DescribeQueue: Requests._describe_queue,
    ListBindings: Requests._list_bindings,
    DeleteQueue: Requests._delete_queue,
    PurgeQueue: Requests._purge,
    Consume: Requests._consume,
    Cancel: Requests._cancel,
    Get: Requests._get,
    RenewLeases: Requests._renew_leases,
    SettleMessages: Requests._settle_messages,
    ReadView: Requests._read_view,
}
