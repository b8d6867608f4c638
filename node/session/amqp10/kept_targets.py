"""Attaches links on which a peer sends to targets that their queues keep (part 3, section 3.5.5;
docs/decisions/0048-targets-that-are-kept.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from node.delivery.link_terms import LinkTerms
from node.refusal import Refusal
from node.session.amqp10.refusals import refusal_error
from node.session.core import MachineSession, SessionCore
from node.session.ports import BrokerPort
from node.wire.amqp10 import effects
from node.wire.amqp10.connection import Connection
from node.wire.amqp10.definitions import Target, TerminusDurability
from node.wire.amqp10.error_texts import error_of
from node.wire.amqp10.errors import IncompleteUnsettledError, LinkStolenError
from node.wire.amqp10.kept_target import KeptTarget
from node.wire.amqp10.links import IncomingLink, LinkState
from node.wire.amqp10.retention import granted, unsettled_kept

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
        terms = self._terms(link)
        if not terms:
            self._connection.sessions.accept(link)
            return
        try:
            queue = self._port.queue(self._core.vhost, link.routing_key, self._core.holder)
        except Refusal:
            # The exclusive queue of another connection, or one for direct replies.
            self._connection.sessions.accept(link)
            return
        self._port.targets.attach(queue, terms, partial(self._lost, link), partial(self._attached, link))

    def _terms(self, link: IncomingLink) -> bytes:
        """The link as its queue is to know it; empty where the peer does not ask for that, or settles its
        deliveries without hearing of their outcomes. Raises IncompleteUnsettledError.
        """
        target, opened = link.attach.target, self._connection.remote_open
        if not isinstance(target, Target) or target.durable is not TerminusDurability.UNSETTLED_STATE:
            return b""
        wanted = granted(target, may_last=True)
        keeps = wanted.lasts and link.settles_second and self._port.targets.known
        if opened is None or not keeps or link.offered or link.exchange or link.made:
            return b""
        if link.attach.incomplete_unsettled:
            raise IncompleteUnsettledError("the node takes whole unsettled maps, as long as a frame admits")
        return LinkTerms(f"{opened.container_id}\0{link.attach.name}".encode(), wanted.timeout_s).encode()

    def _attached(
        self, link: IncomingLink, target: int, known: Sequence[bytes], refusal: Refusal | None
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
                    self._recover(link, target, known)
                sessions.accept(link)
            self._session.answered()

    def _recover(self, link: IncomingLink, target: int, known: Sequence[bytes]) -> None:
        """Take the deliveries that the peer has not settled; it has settled the others that are known."""
        told = link.attach.unsettled or {}
        frame_size = self._connection.max_frame_size
        link.kept = KeptTarget(target, [tag for tag in known if tag in told], frame_size)
        target_asked = link.attach.target
        if isinstance(target_asked, Target):
            link.retention = unsettled_kept(granted(target_asked, may_last=True))
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
