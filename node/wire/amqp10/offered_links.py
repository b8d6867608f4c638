"""Links that the node attaches of its own accord, in a session that the node begins (part 2, sections 2.5.1
and 2.6.3).

The broker is asked for the node of such a link when the peer has answered, as it is for a peer's own attach.
From there on both kinds of links are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from node.wire.amqp10.attaching import offer
from node.wire.amqp10.definitions import Attach, Error, Role
from node.wire.amqp10.effects import LogEffect
from node.wire.amqp10.error_texts import error_of
from node.wire.amqp10.errors import FrameSizeTooSmallError, HandleInUseError
from node.wire.amqp10.handles import NodeHandles
from node.wire.amqp10.links import Link, NodeLink
from node.wire.amqp10.shared import ConnectionParts

REASON_CHARACTERS: Final = 200
"""A longer reason of a peer is cut in the log."""


@dataclass(frozen=True, slots=True)
class OfferedSession:
    """A session that the peer has still to begin, and the links that the node attaches then."""

    number: int
    links: Sequence[NodeLink]


class OfferedLinks:
    """The node's attaches in a session, on `channel`, that the peer has still to answer."""

    __slots__ = ("_attaches", "_channel", "_handles", "_message_size", "_outbox")

    def __init__(self, channel: int, handles: NodeHandles, parts: ConnectionParts) -> None:
        self._channel, self._handles = channel, handles
        self._outbox, self._message_size = parts.outbox, parts.limits.message_size
        self._attaches: dict[tuple[str, bool], Attach] = {}

    def attach(self, links: Sequence[NodeLink]) -> None:
        """Attach links. Those are left out for which the peer has no handle, or too small a frame."""
        for link in links:
            try:
                handle = self._handles.take(0)
            except HandleInUseError as error:
                self._outbox.emit(ended(link.name, error_of(error)))
                continue
            attach = offer(link, handle, self._message_size)
            try:
                self._outbox.send(self._channel, attach)
            except FrameSizeTooSmallError as small:
                self._handles.free(handle)
                self._outbox.emit(ended(link.name, error_of(small)))
            else:
                self._attaches[link.name, not link.role] = attach

    def answered(self, answer: Attach) -> Attach | None:
        """Remove and return the node's attach that the peer's attach answers, if there is one."""
        return self._attaches.pop((answer.name, answer.role), None) if self._attaches else None

    def session_ended(self, error: Error | None) -> None:
        """The peer has ended the session: no further attach has an answer."""
        for name, _ in self._attaches:
            self._outbox.emit(ended(name, error))
        self._attaches.clear()

    def link_ended(self, link: Link, error: Error | None) -> None:
        """Log the end of a link that the node has attached first: only the peer's program knows of others."""
        if link.offered:
            self._outbox.emit(ended(link.attach.name, error))


def agree(mine: Attach, answer: Attach) -> bool:
    """Put the node's own terminus into the peer's answer: the peer has no say in it. False: the answer has
    no terminus of the peer, so the peer refuses the link, and its detach follows.
    """
    if answer.role is Role.RECEIVER:
        answer.source = mine.source
        return answer.target is not None
    answer.target = mine.target
    return answer.source is not None


def ended(link: str, error: Error | None) -> LogEffect:
    """The log line for a link that has ended, or could not be attached."""
    reason = "detached" if error is None else f"{error.condition}: {error.description or ''}"
    return LogEffect("offered_link_ended", {"link": link, "reason": reason[:REASON_CHARACTERS]})
