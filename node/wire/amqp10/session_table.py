"""The sessions of one connection: by channel for the peer's frames, by number for the broker's answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from node.delivery.backlog import NO_BACKLOG
from node.delivery.credit import ChannelConsumer, Credits
from node.delivery.settlements import Outcome
from node.delivery.unsettled import UnsettledRanges
from node.message.run import Run
from node.ranges.range_set import Numbers, merged, ranges_of
from node.wire.amqp10.channels import NodeChannels
from node.wire.amqp10.definitions import Begin, Disposition, End, Error, Rejected
from node.wire.amqp10.effects import CommitEffect, Outbox, PublishEffect, SettleEffect
from node.wire.amqp10.error_texts import error_of, fitted
from node.wire.amqp10.errors import EndpointStateError, NoChannelError, RolledBackError, WireError
from node.wire.amqp10.flow_writer import OUTGOING_WINDOW
from node.wire.amqp10.followed_rows import FollowedRows
from node.wire.amqp10.incoming import ACCEPTED, DeliveryOutcome
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.links import IncomingLink, Link, LinkState, NodeLink, OutgoingLink
from node.wire.amqp10.offered_links import OfferedSession
from node.wire.amqp10.retention import Retention
from node.wire.amqp10.row_links import RowSending
from node.wire.amqp10.session_endpoint import SessionEndpoint
from node.wire.amqp10.shared import ConnectionParts
from node.wire.amqp10.states import SessionState

SESSION_OCTETS = 6 * 1024
"""Octets of memory for a session, with its parts in the node's session code and the administration."""


class SessionTable:
    """See the module's docstring. A session that has ended with an error stays on its channel, and has no
    number any more, until the peer has ended it too.
    """

    def __init__(self, limits: ConnectionLimits, outbox: Outbox, credits: Credits) -> None:
        self.begun = 0
        """The number of sessions since the connection began."""
        self.parts = parts = ConnectionParts(limits, outbox, credits)
        self.holding: set[int] = set()
        """The sessions that have filled the way to a queue. The input waits until it is empty."""
        self.transactions = parts.transactions
        self._outbox = outbox
        self._by_channel: dict[int, SessionEndpoint] = {}
        self._by_number: dict[int, SessionEndpoint] = {}
        self._channels = NodeChannels()
        self._offers: dict[int, OfferedSession] = {}
        """The sessions of the node that the peer has still to begin, by the node's channels."""
        self._ending: dict[int, int] = {}
        """The node's channels on which the peer waits for End, by the peer's."""
        self._links: dict[int, OutgoingLink] = {}
        """The outgoing links by their consumers."""

    def __len__(self) -> int:
        return len(self._by_channel)

    def __iter__(self) -> Iterator[SessionEndpoint]:
        """The sessions; some may begin and end in between."""
        return iter(list(self._by_channel.values()))

    def on_channel(self, channel: int) -> SessionEndpoint | None:
        """The session on a channel of the peer."""
        return self._by_channel.get(channel)

    def numbered(self, number: int) -> SessionEndpoint | None:
        """The mapped session with this number."""
        return self._by_number.get(number)

    def begin(self, channel: int, begin: Begin, highest: int) -> None:
        """Begin a session for the peer, or go on with one that the node has begun. `highest` is the highest
        channel that either peer takes. Raises EndpointStateError and NoChannelError.
        """
        mine = begin.remote_channel
        offer = None if mine is None else self._offers.pop(mine, None)
        if channel in self._by_channel:
            raise EndpointStateError(f"Begin on channel {channel}, which has a session")
        if mine is not None and offer is None:
            raise EndpointStateError(f"Begin for channel {mine}, on which the node has begun no session")
        # The peer may begin a session right behind its End. The node's End goes before the node's Begin.
        self.released(channel)
        if mine is None or offer is None:
            mine = self._begin(channel, channel, highest)
        number = self.begun if offer is None else offer.number
        session = SessionEndpoint(number, mine, channel, begin, self.parts)
        self._by_channel[channel] = self._by_number[number] = session
        if offer is not None:
            session.offered.attach(offer.links)

    def _begin(self, wanted: int, remote_channel: int | None, highest: int) -> int:
        """Send Begin; returns the node's channel."""
        limits, channel = self.parts.limits, self._channels.take(wanted, highest)
        self.begun += 1
        begin = Begin(0, limits.incoming_window, OUTGOING_WINDOW, remote_channel, limits.handle_max)
        self._outbox.send(channel, begin)
        return channel

    def offer(self, links: Sequence[NodeLink], highest: int) -> None:
        """Begin a session of the node, in which the node attaches these links once the peer has begun the
        session too. Raises NoChannelError where the peer takes one session only, which is for its own links.
        """
        if not highest:
            raise NoChannelError("the peer takes a single session")
        channel = self._begin(highest, None, highest)
        self._offers[channel] = OfferedSession(self.begun, links)

    def look_at(self, session: SessionEndpoint) -> None:
        """Forget a session that has ended."""
        if session.state is SessionState.MAPPED:
            return
        awaited = self._by_number.pop(session.number, None) is not None
        if session.state is SessionState.ENDED:
            del self._by_channel[session.remote_channel]
            if awaited:
                self._ending[session.remote_channel] = session.channel
            else:
                self._channels.free(session.channel)
        self.holding.discard(session.number)
        for number in [one for one, link in self._links.items() if link.session == session.number]:
            del self._links[number]

    def refresh(self) -> None:
        """Publish what the peer has sent so far, and open its windows again."""
        for session in self._by_channel.values():
            session.refresh()

    def flush(self) -> None:
        """Write the dispositions that are due."""
        for session in self._by_channel.values():
            session.flush()

    @property
    def has_dispositions(self) -> bool:
        return any(session.incoming.has_dispositions for session in self._by_channel.values())

    @property
    def held(self) -> int:
        """Octets of memory for all sessions."""
        sessions = sum(session.held + SESSION_OCTETS for session in self._by_channel.values())
        return sessions + self.transactions.octets + self.parts.requests.octets + self.parts.rows.octets

    def close(self) -> UnsettledRanges:
        """End all sessions with their connection; returns their unsettled deliveries."""
        unsettled: UnsettledRanges = []
        for session in self._by_channel.values():
            session.incoming.flush()
            session.flush()
            unsettled += session.close()
        self._by_channel.clear()
        self._by_number.clear()
        self._ending.clear()
        self._offers.clear()
        self._links.clear()
        self.holding.clear()
        return unsettled

    def alarm(self, active: bool) -> None:
        """The node is short of a resource, or no longer so."""
        self.parts.granting = not active
        self.refresh()

    # -- answers of the broker ------------------------------------------------------------------

    def accept(self, link: IncomingLink) -> None:
        """The target of a link is there."""
        session = self._by_number.get(link.session)
        if session is not None:
            session.accept(link)
            session.refresh()
            self.look_at(session)

    def refuse(self, link: Link, error: Error) -> None:
        """The broker has refused a link."""
        session = self._by_number.get(link.session)
        if session is not None:
            session.refuse(link, error)
            self.look_at(session)

    def consuming(
        self, link: OutgoingLink, consumer: int, returnable: bool, backlog: int = NO_BACKLOG
    ) -> bool:
        """A link has its consumer, with this backlog (`node.delivery.backlog`). False: the link has gone
        meanwhile, and the consumer must end.
        """
        session = self._by_number.get(link.session)
        if session is None or link.state is not LinkState.ATTACHING:
            return False
        self._links[consumer] = link
        name = link.attach.name
        mine = ChannelConsumer(consumer, name, link.session, link, no_ack=False, returnable=returnable)
        mine.backlog = backlog
        session.consuming(link, mine)
        self.look_at(session)
        return True

    def set_backlog(self, consumer: int, backlog: int) -> None:
        """A consumer has another backlog (`node.delivery.backlog`)."""
        self.parts.credits.set_backlog(consumer, backlog)

    def responding(self, link: OutgoingLink) -> None:
        """A link is for the responses of the node's management."""
        session = self._by_number.get(link.session)
        if session is not None:
            session.responding(link, management=True)
            self.look_at(session)

    def following(self, link: OutgoingLink, rows: FollowedRows) -> None:
        """A link is for the rows of a view, which are there."""
        session = self._by_number.get(link.session)
        if session is not None:
            session.responding(link, management=False)
            if link.state is LinkState.ATTACHED:
                sending = RowSending(rows, session.outgoing.add_response, session.draining.end)
                self.parts.rows.add(link, sending)
            self.look_at(session)

    def cannot_follow(self, link: OutgoingLink, error: Error) -> None:
        """The rows of a view cannot be read for a link, or not be sent on it."""
        session = self._by_number.get(link.session)
        if session is not None:
            session.cancelled(link, error)
            self.look_at(session)

    def respond(self, link: IncomingLink, octets: bytes) -> None:
        """The node's management has answered a request."""
        self.parts.requests.answered(link)
        session = self._by_number.get(link.session)
        if session is not None and session.state is SessionState.MAPPED:
            session.respond(link, octets)
            session.refresh()

    def count_refusal(self) -> None:
        """The session code has refused a request whose check is costly: the peer's pace counts it."""
        self._outbox.refused += 1

    def bad_request(self, link: IncomingLink, error: WireError) -> None:
        """A message to the management is no request that has a response: its link is closed."""
        self.parts.requests.answered(link)
        session = self._by_number.get(link.session)
        if session is not None:
            session.refused_publish(link, error_of(error))
            self.look_at(session)

    def made(self, link: Link, queue: str, retention: Retention) -> bool:
        """A link that attaches has a queue for itself. False: the link has gone."""
        session = self._by_number.get(link.session)
        return session is not None and session.made(link, queue, retention)

    def consumer_ended(self, link: OutgoingLink) -> None:
        """The broker has ended the consumer of a link that the peer or the node has detached."""
        session = self._by_number.get(link.session)
        if link.consumer is not None:
            self._links.pop(link.consumer.number, None)
            # The consumer refers to its link.
            link.consumer = None
        if session is not None:
            session.consumer_ended(link)

    def cancelled(self, consumer: int, error: Error) -> None:
        """The broker has ended a consumer of its own accord."""
        link = self._links.pop(consumer, None)
        session = None if link is None else self._by_number.get(link.session)
        if link is not None and session is not None:
            session.cancelled(link, error)

    def target_lost(self, link: IncomingLink, error: Error) -> None:
        """Another link has the target of a link."""
        session = self._by_number.get(link.session)
        if session is not None:
            session.incoming.abandon(link)
            session.cancelled(link, error)
            self.look_at(session)

    def released(self, channel: int) -> None:
        """The broker has taken back what a session had that the peer has ended. `channel` is the peer's."""
        mine = self._ending.pop(channel, None)
        if mine is not None:
            self._outbox.send(mine, End())
            self._channels.free(mine)

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool, lease: int) -> None:
        """Deliver messages. They go back to their queue if the link has gone."""
        link = self._links.get(consumer)
        session = None if link is None else self._by_number.get(link.session)
        if link is None or session is None or link.ended:
            keeps = link is not None and link.recovery is not None and not link.closed
            outcome = Outcome.ABANDONED if keeps else Outcome.RELEASED
            self._outbox.emit(SettleEffect(lease, merged(ranges_of(numbers)), outcome))
        else:
            session.deliver(link, run, numbers, redelivered, lease)
            self.parts.credits.look_at_output()

    def settled(self, number: int, answer: Disposition) -> None:
        """Settlements of a session cannot be lost any more: tell the peer."""
        session = self._by_number.get(number)
        if session is not None and session.state is SessionState.MAPPED:
            self._outbox.send(session.channel, answer)

    def granted(self, consumer: int, limit: int) -> None:
        """A consumer may take `limit` messages in all since it began."""
        link = self._links.get(consumer)
        session = None if link is None else self._by_number.get(link.session)
        if link is not None and session is not None:
            session.granted(link, limit)

    def drained(self, consumer: int) -> None:
        """The queue has no further message for the consumer."""
        link = self._links.get(consumer)
        session = None if link is None else self._by_number.get(link.session)
        if link is not None and session is not None:
            session.drained(link)

    def decided(self, number: int, first: int, last: int, outcome: DeliveryOutcome) -> None:
        """The broker has decided about publishes of a session, by their tags."""
        session = self._by_number.get(number)
        if session is not None:
            session.decided(first, last, outcome)

    def publish_held(self, publish: PublishEffect) -> None:
        """A run waits for the commit of its transaction, or has made the transaction fail."""
        if publish.first_tag:
            last = publish.first_tag + publish.run.count - 1
            presumed = self.transactions.presumed(publish.transaction)
            self.decided(publish.session, publish.first_tag, last, presumed)

    def committed(self, commit: CommitEffect, failure: str | None) -> None:
        """The broker has committed a transaction; with a failure nothing of it has been done."""
        link = self.transactions.committed(commit.transaction)
        session = self._by_number.get(commit.session)
        if session is None:
            return
        failed = None if failure is None else error_of(RolledBackError(failure))
        if failed is None or link is None or link.rejects:
            session.decided(commit.tag, commit.tag, ACCEPTED if failed is None else Rejected(failed))
        else:
            session.incoming.unconfirmed -= 1
            session.cancelled(link, failed)

    def refuse_publish(self, publish: PublishEffect, taken: int, error: Error) -> None:
        """The broker has refused a publish, but for the first `taken` messages.

        The link is not to blame for the address of a message. So the messages of a link without an address
        are rejected, unless they are settled (Anonymous Terminus for Message Routing 1.0).
        """
        session = self._by_number.get(publish.session)
        if session is None:
            return
        if publish.link.anonymous and publish.first_tag:
            last = publish.first_tag + publish.run.count - 1
            session.decided(publish.first_tag + taken, last, Rejected(fitted(error)))
            return
        session.refused_publish(publish.link, error)
        self.look_at(session)
