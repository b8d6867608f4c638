"""Finds the nodes that a peer's links name, and makes those that a peer wants made (part 3, section 3.5).

A dynamic node is a server-named exclusive queue of the connection. The queue is deleted when its link ends,
whichever lifetime policy the peer has asked for; the broker's attach tells the peer that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from node.refusal import Refusal, ResourceLockedError
from node.session.amqp10.filters import filter_set
from node.session.amqp10.refusals import refusal_error
from node.session.commands import (
    Cancel,
    Consume,
    Consuming,
    DeclareQueue,
    DeleteQueue,
    FindExchange,
    FindQueue,
    QueueFound,
    Result,
)
from node.session.core import MachineSession, SessionCore
from node.session.ports import BrokerPort, QueueDeclaration
from node.wire.amqp10 import effects
from node.wire.amqp10.addresses import QUEUE_PATH, destination_of, queue_of
from node.wire.amqp10.connection import Connection
from node.wire.amqp10.definitions import AmqpCondition, DeleteOnClose, Error, LinkCondition, Source, Target
from node.wire.amqp10.errors import MissingTerminusError, WireError
from node.wire.amqp10.links import IncomingLink, Link, OutgoingLink
from node.wire.amqp10.management import MANAGEMENT_ADDRESS
from node.wire.amqp10.values import AmqpValue, UInt

LIFETIME: Final = {"lifetime-policy": DeleteOnClose()}

DYNAMIC_QUEUE: Final = QueueDeclaration("", durable=False, exclusive=True, auto_delete=False)


class Termini:
    """Carries out the effects of one connection that are about nodes."""

    def __init__(
        self, port: BrokerPort, session: MachineSession, core: SessionCore, connection: Connection
    ) -> None:
        self._port, self._session, self._core, self._connection = port, session, core, connection

    def handlers(self) -> dict[type[Any], Callable[[Any], None]]:
        """By effects, for `EffectLoop`, which drops them: kept here they would be a circle of references."""
        return {
            effects.FindTarget: self._find_target,
            effects.StartConsumer: self._start_consumer,
            effects.EndConsumer: self._end_consumer,
            effects.DeleteNode: self._delete_node,
        }

    # -- targets --------------------------------------------------------------------------------

    def _find_target(self, effect: effects.FindTarget) -> None:
        """Attach a link on which the peer sends, or refuse it."""
        link = effect.link
        target = link.attach.target
        try:
            if not isinstance(target, Target):
                raise MissingTerminusError("the link has no target")
            if target.dynamic:
                self._make(link)
            elif target.address == MANAGEMENT_ADDRESS:
                link.management = True
                self._connection.sessions.accept(link)
            elif target.address is None:
                link.anonymous = True
                self._connection.sessions.accept(link)
            else:
                self._find(link, target.address)
        except (WireError, Refusal) as error:
            self._connection.sessions.refuse(link, told(error))

    def _find(self, link: IncomingLink, address: str) -> None:
        """Raises AddressError, and Refusal where the peer may not publish there."""
        link.exchange, link.routing_key = destination_of(address)
        self._port.route(self._core.scope, link.exchange, link.routing_key)
        if not link.exchange and self._redirected(link, link.routing_key, address):
            return
        command = FindExchange(link.exchange) if link.exchange else FindQueue(link.routing_key)
        self._core.carry_out(link.session, command, partial(self._target_found, link))

    def _target_found(self, link: IncomingLink, result: Result | Refusal) -> None:
        with self._session:
            # Only its own connection consumes from an exclusive queue, and every connection may send to it.
            if isinstance(result, Refusal) and not isinstance(result, ResourceLockedError):
                self._connection.sessions.refuse(link, refusal_error(result))
            else:
                self._connection.sessions.accept(link)
            self._session.answered()

    # -- sources --------------------------------------------------------------------------------

    def _start_consumer(self, effect: effects.StartConsumer) -> None:
        """Attach a link on which the peer receives, with a consumer, or refuse it."""
        link = effect.link
        source = link.attach.source
        try:
            if not isinstance(source, Source):
                raise MissingTerminusError("the link has no source")
            if source.dynamic:
                self._make(link)
            elif source.address == MANAGEMENT_ADDRESS:
                self._connection.sessions.responding(link)
            else:
                queue = queue_of(source.address)
                if not self._redirected(link, queue, source.address or ""):
                    self._consume(link, queue)
        except WireError as error:
            self._connection.sessions.refuse(link, told(error))

    def _consume(self, link: OutgoingLink, queue: str) -> None:
        asked = link.source.filter if self._port.knows_filters else None
        link.filters, condition = filter_set(asked)
        command = Consume(queue, 0, link.presettled, browse=link.browses, filter=condition)
        self._core.carry_out(link.session, command, partial(self._started, link))

    def _started(self, link: OutgoingLink, result: Result | Refusal) -> None:
        with self._session:
            if isinstance(result, Refusal):
                self._connection.sessions.refuse(link, refusal_error(result))
            elif isinstance(result, Consuming) and not self._connection.sessions.consuming(
                link, result.consumer, result.returnable
            ):
                self._core.carry_out(link.session, Cancel(result.consumer), ignored)
            self._session.answered()

    def _end_consumer(self, effect: effects.EndConsumer) -> None:
        """End the consumer of a link that has ended."""
        answered = ignored if effect.link is None else partial(self._consumer_ended, effect.link)
        self._core.carry_out(effect.session, Cancel(effect.consumer), answered)

    def _consumer_ended(self, link: OutgoingLink, _: Result | Refusal) -> None:
        with self._session:
            self._connection.sessions.consumer_ended(link)
            self._session.answered()

    # -- redirects ------------------------------------------------------------------------------

    def _redirected(self, link: Link, queue: str, address: str) -> bool:
        """Refuse a link to a queue that another node owns, and tell the peer where that node is (part 2,
        section 2.8.18). Returns whether the link is refused. A link that the node attaches stays where the
        container is.
        """
        if link.offered:
            return False
        try:
            place = self._port.owner_elsewhere(self._core.vhost, queue, self._core.holder)
        except Refusal:
            # The command behind this look is refused in the same way.
            return False
        if place is None:
            return False
        host, port = place
        info: dict[str, AmqpValue] = {"network-host": host, "port": UInt(port), "address": address}
        asked = self._connection.remote_open
        if asked is not None and asked.hostname is not None:
            info["hostname"] = asked.hostname
        text = f"the queue is on the node with the address {host}, port {port}"
        self._connection.sessions.refuse(link, Error(LinkCondition.REDIRECT, text, info))
        return True

    # -- dynamic nodes --------------------------------------------------------------------------

    def _make(self, link: Link) -> None:
        self._core.carry_out(link.session, DeclareQueue(DYNAMIC_QUEUE), partial(self._made, link))

    def _made(self, link: Link, result: Result | Refusal) -> None:
        with self._session:
            if isinstance(result, Refusal):
                self._connection.sessions.refuse(link, refusal_error(result))
            elif isinstance(result, QueueFound):
                self._attach_to(link, result.name)
            self._session.answered()

    def _attach_to(self, link: Link, queue: str) -> None:
        if not self._connection.sessions.made(link, queue):
            self._core.carry_out(link.session, DeleteQueue(queue), ignored)
            return
        terminus = link.attach.source if isinstance(link, OutgoingLink) else link.attach.target
        if isinstance(terminus, Source | Target):
            terminus.address = QUEUE_PATH + queue
            terminus.dynamic_node_properties = dict(LIFETIME)
        if isinstance(link, OutgoingLink):
            try:
                self._consume(link, queue)
            except WireError as error:
                self._connection.sessions.refuse(link, told(error))
        else:
            link.routing_key = queue
            self._connection.sessions.accept(link)

    def _delete_node(self, effect: effects.DeleteNode) -> None:
        """Delete the node of a link that has ended."""
        self._core.carry_out(effect.session, DeleteQueue(effect.queue), ignored)


def told(error: WireError | Refusal) -> Error:
    """The error as the peer is told it."""
    if isinstance(error, Refusal):
        return refusal_error(error)
    return Error(AmqpCondition(error.condition), str(error))


def ignored(_: Result | Refusal) -> None:
    """For commands whose result no peer waits for."""
