"""The links of a connection on which the node sends the rows of views."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from node.delivery.credit import Credits
from node.wire.amqp10.effects import Outbox, ReadRows, RowTooLarge
from node.wire.amqp10.followed_rows import FollowedRows
from node.wire.amqp10.links import LinkState, OutgoingLink


class RowSending(NamedTuple):
    """The rows of a link, and what its session does for it: send a message, and end a drain."""

    rows: FollowedRows
    send: Callable[[OutgoingLink, bytes], None]
    end_drain: Callable[[OutgoingLink], None]


class RowLinks:
    """Sends changes as far as the peer gives credit, and the socket takes output. Then the node asks for
    other rows, and not before: so what waits for a link is bounded by the rows of its view.
    """

    def __init__(self, outbox: Outbox, credits: Credits) -> None:
        self._outbox, self._credits = outbox, credits
        self._links: dict[OutgoingLink, RowSending] = {}
        self.touched: dict[OutgoingLink, None] = {}
        """The links that may have something to send, or to ask."""

    @property
    def octets(self) -> int:
        """Octets of memory for the rows."""
        return sum(one.rows.octets for one in self._links.values())

    def add(self, link: OutgoingLink, sending: RowSending) -> None:
        """A link is attached, whose peer follows rows."""
        self._links[link] = sending
        self.touched[link] = None

    def ended(self, link: OutgoingLink) -> None:
        """A link has ended. It may be one without rows."""
        self._links.pop(link, None)
        self.touched.pop(link, None)

    def granted(self, link: OutgoingLink) -> bool:
        """The peer has given credit on a link. False: the link is none with rows."""
        found = self._links.get(link)
        if found is not None:
            found.rows.credit_came()
            self.touched[link] = None
        return found is not None

    def answered(self, link: OutgoingLink, rows: FollowedRows, *, waited: bool) -> bool:
        """An answer has come, to a question that has waited for other rows or to one that has not. False: the
        link has ended.
        """
        if link not in self._links:
            return False
        if waited:
            rows.polling = False
        else:
            rows.checked, rows.checking, rows.outdated = not rows.outdated, False, False
            rows.stale = rows.stale and not rows.checked
        self.touched[link] = None
        return True

    def send(self) -> None:
        """Send what the links have, and ask for more."""
        for link in list(self.touched):
            if self._done(link, self._links[link]):
                self.touched.pop(link, None)

    def _done(self, link: OutgoingLink, sending: RowSending) -> bool:
        """Whether the link has nothing to do before the peer gives credit, or an answer comes."""
        rows = sending.rows
        if link.state is not LinkState.ATTACHED:
            return True
        if self._credits.paused or self._credits.swamped or link.waiting:
            return False
        if rows.stale:
            return self._ask(link, rows, waits=False)
        while rows.waiting and link.delivered < link.credit_limit:
            octets = rows.take_message()
            if 0 < link.max_message_size < len(octets):
                self._outbox.emit(RowTooLarge(link))
                return True
            sending.send(link, octets)
            self._credits.look_at_output()
            if link.waiting or self._credits.swamped:
                return False
        if link.delivered < link.credit_limit and not (link.drain_due and rows.checked):
            return self._ask(link, rows, waits=not link.drain_due)
        if link.drain_due:
            rows.checked = False
            sending.end_drain(link)
        return True

    def _ask(self, link: OutgoingLink, rows: FollowedRows, *, waits: bool) -> bool:
        asked = rows.polling if waits else rows.checking
        if not asked and waits:
            rows.polling = True
            self._outbox.emit(ReadRows(link, rows, rows.version, rows.wait_ms))
        elif not asked:
            rows.checking = True
            self._outbox.emit(ReadRows(link, rows, rows.version, 0))
        return True
