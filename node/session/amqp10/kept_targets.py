"""Attaches links on which a peer sends to targets that their queues keep (part 3, section 3.5.5;
docs/decisions/0048-targets-that-are-kept.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from node.refusal import Refusal
from node.session.amqp10.kept_termini import kept_retention, link_octets
from node.session.amqp10.refusals import refusal_error
from node.session.core import MachineSession, SessionCore
from node.session.ports import BrokerPort
from node.wire.amqp10 import effects
from node.wire.amqp10.connection import Connection
from node.wire.amqp10.definitions import Target
from node.wire.amqp10.error_texts import error_of
from node.wire.amqp10.errors import LinkStolenError
from node.wire.amqp10.kept_target import KeptTarget
from node.wire.amqp10.links import IncomingLink, LinkState
from node.wire.amqp10.retention import Retention

STOLEN: Final = error_of(LinkStolenError("the link is attached by another connection"))


class SessionTargets:
    """The targets of one connection."""

    def __init__(
        self, port: BrokerPort, session: MachineSession, core: SessionCore, connection: Connection
    ) -> None:
        self._port, self._session, self._core, self._connection = port, session, core, connection

    def handlers(self) -> dict[type[Any], Callable[[Any], None]]:
        """By effects; as `Termini.handlers`."""
        return {effects.SettleTags: self._settle, effects.TargetEnded: self._ended}

    def attach(self, link: IncomingLink) -> None:
        """Attach a link whose target is there. Raises IncompleteUnsettledError."""
        retention, queue = self._retention(link), None
        if retention is not None:
            # The exclusive queues of other connections, and those for direct replies, keep nothing.
            with suppress(Refusal):
                queue = self._port.queue(self._core.vhost, link.routing_key, self._core.holder)
        octets = b"" if retention is None else link_octets(link, self._connection, retention)
        if retention is None or queue is None or not octets:
            self._connection.sessions.accept(link)
            return
        attached = partial(self._attached, link, retention)
        self._port.targets.attach(queue, octets, partial(self._lost, link), attached)

    def _retention(self, link: IncomingLink) -> Retention | None:
        """The retention of the target; None where the peer does not want it kept, or settles its deliveries
        without hearing of their outcomes.
        """
        target = link.attach.target
        other = link.offered or link.exchange or link.made or not link.settles_second
        if other or not isinstance(target, Target) or not self._port.targets.known:
            return None
        return kept_retention(target)

    def _attached(
        self,
        link: IncomingLink,
        retention: Retention,
        target: int,
        known: Sequence[bytes],
        refusal: Refusal | None,
    ) -> None:
        """The queue has told the tags that it knows."""
        sessions = self._connection.sessions
        with self._session:
            gone = self._core.ended or sessions.numbered(link.session) is None
            if gone or link.state is not LinkState.ATTACHING:
                self._port.targets.detach(target, False)
                return
            if refusal is not None:
                sessions.refuse(link, refusal_error(refusal))
            else:
                if target:
                    link.retention = retention
                    self._recover(link, target, known)
                sessions.accept(link)
            self._session.answered()

    def _recover(self, link: IncomingLink, target: int, known: Sequence[bytes]) -> None:
        """Take the deliveries that the peer has not settled; it has settled the others that are known."""
        told = link.attach.unsettled or {}
        frame_size = self._connection.max_frame_size
        link.kept = KeptTarget(target, [tag for tag in known if tag in told], frame_size)
        settled = [tag for tag in known if tag not in told]
        if settled:
            self._port.targets.settle(target, settled)

    def _lost(self, link: IncomingLink) -> None:
        """Another connection has attached the link."""
        with self._session:
            if not self._core.ended:
                self._connection.sessions.target_lost(link, STOLEN)
                self._session.answered()

    def _settle(self, effect: effects.SettleTags) -> None:
        self._port.targets.settle(effect.target, effect.tags)

    def _ended(self, effect: effects.TargetEnded) -> None:
        self._port.targets.detach(effect.target, effect.closed)
