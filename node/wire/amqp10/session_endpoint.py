"""The node's endpoint of one session: its links by handle, and the flow of transfers (part 2, section 2.5).

state      meaning                                            leaves by
MAPPED     Begin sent; frames of the session are handled      End received: ENDED; End sent: END_SENT
END_SENT   End sent with an error; all but End is discarded   End received: ENDED
ENDED      the channel is free                                -

`channel` is the node's, and `remote_channel` the peer's: they are one number unless the node has begun a
session of its own. `links` are by the peer's handles; `NodeHandles` gives the node's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from node.delivery.credit import ChannelConsumer
from node.delivery.settlements import Outcome
from node.delivery.unsettled import UnsettledRanges
from node.message.run import Run
from node.ranges.range_set import Numbers
from node.wire.amqp10.attaching import answer, refusal
from node.wire.amqp10.definitions import (
    AmqpCondition,
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Role,
    Transfer,
)
from node.wire.amqp10.draining import Draining
from node.wire.amqp10.effects import DeleteNode, EndConsumer, FindTarget, SessionEnded, StartConsumer
from node.wire.amqp10.error_texts import error_of, fitted
from node.wire.amqp10.errors import (
    AnnotationBoundsError,
    ChannelBoundsError,
    Ends,
    FrameSizeTooSmallError,
    HandleInUseError,
    LinkStolenError,
    MessageTooLargeError,
    UnattachedHandleError,
    WireError,
)
from node.wire.amqp10.flow_writer import FlowWriter
from node.wire.amqp10.frames import Frame
from node.wire.amqp10.handles import NodeHandles
from node.wire.amqp10.incoming import DeliveryOutcome, IncomingTransfers
from node.wire.amqp10.links import IncomingLink, Link, LinkState, OutgoingLink
from node.wire.amqp10.management import REQUEST_CREDIT, requesting, responding_to
from node.wire.amqp10.offered_links import OfferedLinks, agree
from node.wire.amqp10.outgoing import OutgoingTransfers
from node.wire.amqp10.retention import LinkEnd, MadeQueues, Retention
from node.wire.amqp10.serial import unwrapped
from node.wire.amqp10.shared import ConnectionParts
from node.wire.amqp10.states import SessionState
from node.wire.amqp10.transfer_rows import TransferRow

LINK_OCTETS: Final = 4 * 1024
"""Octets of memory for a link, with its part in the queue's owner."""


class SessionEndpoint:
    """See the module's docstring. `number` is the session's number in effects."""

    def __init__(
        self,
        number: int,
        channel: int,
        remote_channel: int,
        begin: Begin,
        parts: ConnectionParts,
    ) -> None:
        self.number: Final = number
        self.channel: Final = channel
        self.remote_channel: Final = remote_channel
        self.state = SessionState.MAPPED
        self.links: dict[int, Link] = {}
        self.incoming = IncomingTransfers(number, begin.next_outgoing_id, parts)
        self.outgoing = OutgoingTransfers(number, channel, begin.incoming_window, parts)
        self._parts = parts
        self._limits = limits = parts.limits
        self._handle_max = min(limits.handle_max, begin.handle_max)
        """The highest handle of either peer: most of the node's handles are the peer's (section 2.7.2)."""
        self._handles = NodeHandles(begin.handle_max)
        self._outbox = parts.outbox
        self._credits = parts.credits
        self._flows = FlowWriter(channel, parts.outbox, self.incoming, self.outgoing)
        self.draining = Draining(parts.credits, parts.outbox, self._flows.write)
        self._made = MadeQueues()
        self._thirsty: dict[IncomingLink, None] = {}
        """The links whose credit may have to be renewed."""
        self.offered = OfferedLinks(channel, self._handles, parts)

    # -- frames of the peer ---------------------------------------------------------------------

    def receive(self, frame: Frame) -> None:
        """Handle a frame that is no transfer. Raises WireError that ends the session or the connection."""
        performative = frame.performative
        self.incoming.flush()
        if isinstance(performative, End):
            self._peer_ends(performative)
        elif self.state is not SessionState.MAPPED:
            return
        elif isinstance(performative, Disposition):
            if performative.role is Role.RECEIVER:
                self._dispose(performative)
            else:
                self._thirsty.update(self.incoming.settled(performative, self.links.values()))
        elif isinstance(performative, Flow):
            self._flow(performative)
        elif isinstance(performative, Attach):
            self._attach(performative)
        elif isinstance(performative, Detach):
            self._detach(performative)

    def _dispose(self, disposition: Disposition) -> None:
        try:
            self.outgoing.dispose(disposition)
        except AnnotationBoundsError as error:
            for link in self.outgoing.settling(disposition):
                self._detach_with(link, error_of(error))

    def transfer(self, frame: Frame, transfer: Transfer) -> None:
        """Handle a transfer frame. Raises WireError that ends the session or the connection."""
        if self.state is not SessionState.MAPPED:
            return
        link = self.links.get(transfer.handle)
        if not isinstance(link, IncomingLink):
            raise self._unattached(transfer.handle)
        try:
            self.incoming.transfer(link, frame, transfer)
        except WireError as error:
            if error.ends is not Ends.LINK:
                raise
            self._detach_with(link, error_of(error))
        self._thirsty[link] = None

    def row(self, row: TransferRow) -> bool:
        """Take transfers that are alike; False: none is taken, because one may need a look of its own."""
        link = self.links.get(row.transfer.handle)
        if self.state is not SessionState.MAPPED or not isinstance(link, IncomingLink):
            return False
        if not self.incoming.row(link, row):
            return False
        self._thirsty[link] = None
        return True

    def _unattached(self, handle: int) -> WireError:
        """The error of a frame whose handle has no link of the frame's kind (sections 2.7.2 and 2.7.4)."""
        if handle > self._handle_max:
            return ChannelBoundsError(f"handle {handle} is above {self._handle_max}")
        return UnattachedHandleError(f"no link that the frame may name is attached to handle {handle}")

    def _flow(self, flow: Flow) -> None:
        self.incoming.next_id = unwrapped(flow.next_outgoing_id, self.incoming.next_id)
        self.outgoing.window(flow.next_incoming_id or 0, flow.incoming_window)
        for one in self.outgoing_links():
            self.draining.drain(one)
        if flow.handle is None:
            if flow.echo:
                self._flows.write(None)
            return
        link = self.links.get(flow.handle)
        if link is None:
            raise self._unattached(flow.handle)
        if isinstance(link, OutgoingLink):
            self._grant(link, flow)
        elif flow.delivery_count is not None:
            # The sender has used up credit without deliveries, as it is asked to by a drain.
            count = unwrapped(flow.delivery_count, link.delivery_count)
            link.credit = max(0, link.credit - max(0, count - link.delivery_count))
            link.delivery_count = max(count, link.delivery_count)
            self._thirsty[link] = None
        if flow.echo and link.state is LinkState.ATTACHED:
            self._flows.write(link)

    def _grant(self, link: OutgoingLink, flow: Flow) -> None:
        """Take the credit of a receiving peer (section 2.6.7)."""
        if link.state is LinkState.DETACHED:
            # The peer sent the flow before it heard of the detach.
            return
        if flow.properties and "txn-id" in flow.properties:
            text = "the node acquires no messages for transactions"
            self._detach_with(link, Error(AmqpCondition.NOT_IMPLEMENTED, text))
            return
        credit = flow.link_credit or 0
        count = 0 if flow.delivery_count is None else unwrapped(flow.delivery_count, link.delivered)
        # The peer cannot have got more deliveries than the node has sent.
        link.credit_limit = min(count, link.delivered) + credit
        link.draining = link.drain_due = flow.drain
        if link.consumer is not None:
            self.outgoing.send_early(link)
            self._credits.touch(link.consumer)
            self.draining.drain(link)
        elif not self._parts.rows.granted(link) and link.management:
            self.outgoing.respond(link)
            self._thirsty.update(dict.fromkeys(requesting(self.links.values(), link.attach.name)))
            if link.drain_due:
                self.draining.end(link)

    def granted(self, link: OutgoingLink, limit: int) -> None:
        """A consumer of a link may take `limit` messages in all."""
        self.draining.granted(link, limit)

    def drained(self, link: OutgoingLink) -> None:
        """The queue has nothing more for the link within the limit of the drain."""
        self.draining.drained(link)

    def refresh(self) -> None:
        """Publish what the peer has sent so far, and open its windows again where half of them is used up."""
        self.incoming.flush()
        if self.state is not SessionState.MAPPED:
            return
        if self.incoming.window * 2 <= self._limits.incoming_window:
            self.incoming.window = self._limits.incoming_window
            self._flows.write(None)
        if self._thirsty:
            admits = self._parts.granting and self.incoming.unconfirmed <= self._limits.unconfirmed
            # A request may be the one that ends the shortage: it purges or deletes a queue.
            for link in [one for one in self._thirsty if admits or one.management]:
                del self._thirsty[link]
                self._renew_credit(link)

    def _renew_credit(self, link: IncomingLink) -> None:
        most = REQUEST_CREDIT if link.management else link.most_credit(self._limits.link_credit)
        waits = not most or (link.management and self._has_unanswered(link))
        if link.state is LinkState.ATTACHED and link.credit * 2 <= most and not waits:
            link.credit = most
            self._flows.write(link)

    # -- attaching ------------------------------------------------------------------------------

    def _attach(self, attach: Attach) -> None:
        if attach.handle > self._handle_max:
            raise self._unattached(attach.handle)
        if attach.handle in self.links:
            raise HandleInUseError(f"a link is attached to handle {attach.handle}")
        for one in list(self.links.values()):
            # A link is its name and direction (section 2.6.1).
            if one.attach.name == attach.name and one.attach.role is attach.role:
                stolen = LinkStolenError(f"the link {attach.name!r} is attached again")
                self._detach_with(one, error_of(stolen))
        if self.state is not SessionState.MAPPED:
            return
        mine = self.offered.answered(attach)
        handle = self._handles.take(attach.handle) if mine is None else mine.handle
        wanted = mine is None or agree(mine, attach)
        link: Link
        if attach.role is Role.RECEIVER:
            link = OutgoingLink(self.number, attach, handle)
        else:
            link = IncomingLink(self.number, attach, handle)
        self.links[attach.handle] = link
        link.offered = mine is not None
        if not wanted:
            return
        if isinstance(link, OutgoingLink):
            self._outbox.emit(StartConsumer(link))
        elif link.coordinator:
            self.accept(link)
        else:
            self._outbox.emit(FindTarget(link))

    def made(self, link: Link, queue: str, retention: Retention) -> bool:
        """A link that attaches has a queue for itself. False: the link has gone."""
        if self.links.get(link.attach.handle) is not link or link.state is not LinkState.ATTACHING:
            return False
        self._made.take_over(link, queue, retention)
        return True

    def _queue_without_link(self, link: Link, end: LinkEnd) -> None:
        queue = self._made.link_ended(link, end)
        if queue:
            self._outbox.emit(DeleteNode(self.number, queue))

    def accept(self, link: IncomingLink) -> None:
        """The target is there: the link is attached, and the peer gets credit."""
        if link.state is LinkState.ATTACHING and self._answer(link, answer(link, self._limits.message_size)):
            link.state = LinkState.ATTACHED
            self._thirsty[link] = None

    def responding(self, link: OutgoingLink, *, management: bool) -> None:
        """The link is for responses of the node's management, or else for the rows of a view."""
        link.presettled, link.management = True, management
        if link.state is LinkState.ATTACHING and self._answer(link, answer(link, self._limits.message_size)):
            link.state = LinkState.ATTACHED
            self.outgoing.respond(link)

    def respond(self, link: IncomingLink, octets: bytes) -> None:
        """The response to a request goes on the link of the same name on which the peer receives."""
        self._thirsty[link] = None
        for one in responding_to(self.links.values(), link.attach.name):
            self.outgoing.add_response(one, octets)

    def _has_unanswered(self, link: IncomingLink) -> bool:
        """Whether a request of the link waits for its response, or for the credit for that."""
        links = responding_to(self.links.values(), link.attach.name)
        return bool(link.unanswered) or any(one.responses for one in links)

    def consuming(self, link: OutgoingLink, mine: ChannelConsumer) -> None:
        """The link has its consumer."""
        link.consumer = self._credits.consumers[mine.number] = mine
        if self._answer(link, answer(link, self._limits.message_size)):
            link.state = LinkState.ATTACHED
            self._credits.touch(mine)
            self.draining.drain(link)

    def _answer(self, link: Link, attach: Attach) -> bool:
        """Answer the peer's attach, unless that is the answer itself. The session ends where the peer takes
        no frame of that size, with its own termini. Returns whether the session goes on.
        """
        if link.offered:
            return True
        try:
            self._outbox.send(self.channel, attach)
        except FrameSizeTooSmallError as error:
            self.fail(error)
            return False
        return True

    def refuse(self, link: Link, error: Error) -> None:
        """The broker has refused the link: attach without terminus, then a closing detach (section 2.6.3)."""
        self._outbox.refused += 1
        if link.state is LinkState.ATTACHING and self._attach_without_terminus(link):
            self.offered.link_ended(link, error)
            self._send_detach(link, True, fitted(error))

    def _attach_without_terminus(self, link: Link) -> bool:
        """Answer an attach in front of a detach. Returns whether the session goes on."""
        link.state = LinkState.DETACHED
        self._queue_without_link(link, LinkEnd.CLOSED_BY_NODE)
        return self._answer(link, refusal(link))

    # -- detaching ------------------------------------------------------------------------------

    def _detach(self, detach: Detach) -> None:
        link = self.links.get(detach.handle)
        if link is None:
            raise self._unattached(detach.handle)
        was = link.state
        if was is not LinkState.DETACHED:
            self.offered.link_ended(link, detach.error)
        if was is LinkState.ATTACHING and not self._attach_without_terminus(link):
            return
        del self.links[detach.handle]
        end = LinkEnd.CLOSED_BY_PEER if detach.closed else LinkEnd.DETACHED_BY_PEER
        if isinstance(link, IncomingLink):
            self.incoming.drop_partial(link)
            self._sender_gone(link, end)
        elif was is LinkState.ATTACHED:
            link.closed = detach.closed
            self._receiver_gone(link, end)
            if link.consumer is not None:
                return
        if was is not LinkState.DETACHED:
            # The outcomes that are due go before the answer: the peer hears of none behind it.
            self.flush()
            self._send_detach(link, detach.closed)

    def _send_detach(self, link: Link, closed: bool, error: Error | None = None) -> None:
        link.state = LinkState.DETACHED
        self._outbox.send(self.channel, Detach(link.handle, closed, error))
        self._handles.free(link.handle)

    def _receiver_gone(self, link: OutgoingLink, end: LinkEnd) -> None:
        """End the consumer of a link, whose unsettled deliveries go back to the queue. Nothing that waits is
        sent on the link any more.

        The peer's detach is answered when the broker has ended the consumer.
        """
        link.ended, link.drain_due = True, False
        self.outgoing.drop_responses(link)
        for number, ranges in self.outgoing.take_unsettled(link):
            self._outbox.give_back(number, ranges, link.outcome_at(end))
        consumer = link.consumer
        if consumer is None:
            return
        consumer.ended = True
        self._credits.consumers.pop(consumer.number, None)
        self._outbox.emit(EndConsumer(self.number, consumer.number, link))
        self._queue_without_link(link, end)

    def consumer_ended(self, link: OutgoingLink) -> None:
        """The broker has ended the consumer of a link. The node answers the peer's detach, where it has not
        detached the link before.
        """
        if self.state is SessionState.MAPPED and link.state is LinkState.ATTACHED:
            self._send_detach(link, link.closed)

    def _detach_with(self, link: Link, error: Error) -> None:
        """Close a link because of an error."""
        if link.state is LinkState.DETACHED or self.state is not SessionState.MAPPED:
            return
        if link.state is LinkState.ATTACHING and not self._attach_without_terminus(link):
            return
        self.offered.link_ended(link, error)
        self._send_detach(link, True, fitted(error))
        if isinstance(link, OutgoingLink):
            self._receiver_gone(link, LinkEnd.CLOSED_BY_NODE)
        else:
            # The peer may send the rest of a delivery before it hears of the detach.
            self.incoming.free_partial(link)
            self._sender_gone(link, LinkEnd.CLOSED_BY_NODE)

    def _sender_gone(self, link: IncomingLink, end: LinkEnd) -> None:
        self._thirsty.pop(link, None)
        self.incoming.link_ended(link, end)
        self._queue_without_link(link, end)
        if link.coordinator:
            self._parts.transactions.coordinator_gone(link)

    def cancelled(self, link: Link, error: Error) -> None:
        """The broker has ended the link's consumer, or refused a commit whose link takes no rejection."""
        self._detach_with(link, error)

    def refused_publish(self, link: IncomingLink, error: Error) -> None:
        """The broker has refused a publish: the link is closed."""
        self._outbox.refused += 1
        self._detach_with(link, error)

    # -- deliveries -----------------------------------------------------------------------------

    def deliver(self, link: OutgoingLink, run: Run, numbers: Numbers, redelivered: bool, lease: int) -> None:
        """Deliver messages. One that is larger than the peer accepts ends the link, and counts as failed."""
        taken = self.outgoing.deliver(link, run, numbers, redelivered, lease)
        if taken == run.count:
            return
        consumer, left = link.consumer, numbers[taken:]
        if consumer is not None and not link.presettled:
            self._outbox.settlements.add(Outcome.LOST, self.number, lease, left[:1])
            if len(left) > 1:
                self._outbox.settlements.add(Outcome.RELEASED, self.number, lease, left[1:])
        text = f"a message is larger than the {link.max_message_size} octets that the link takes"
        self._detach_with(link, error_of(MessageTooLargeError(text)))

    def decided(self, first: int, last: int, outcome: DeliveryOutcome) -> None:
        """The broker has decided about the peer's deliveries with these tags."""
        self.incoming.decided(first, last, outcome)

    def flush(self) -> None:
        """Write the dispositions that are due."""
        if self.incoming.has_dispositions and self.state is SessionState.MAPPED:
            self.incoming.write_dispositions(self.channel)
            self.refresh()

    # -- the end --------------------------------------------------------------------------------

    def fail(self, error: WireError) -> None:
        """End the session because of an error."""
        self.incoming.flush()
        self.flush()
        self._outbox.refused += 1
        self._outbox.send(self.channel, End(error_of(error)))
        self.state = SessionState.END_SENT
        self._outbox.emit(SessionEnded(self.number, self.remote_channel, self.close(), False))

    def _peer_ends(self, end: End) -> None:
        if self.state is SessionState.MAPPED:
            self.flush()
            self.offered.session_ended(end.error)
            self._outbox.emit(SessionEnded(self.number, self.remote_channel, self.close(), True))
        self.state = SessionState.ENDED

    def close(self) -> UnsettledRanges:
        """End all links; returns the unsettled deliveries."""
        for link in self.links.values():
            if isinstance(link, IncomingLink):
                self.incoming.drop_partial(link)
                self._sender_gone(link, LinkEnd.SESSION_ENDED)
        unsettled = self.outgoing.take_unsettled()
        for link in self.outgoing_links():
            self.outgoing.drop_responses(link)
            self._queue_without_link(link, LinkEnd.SESSION_ENDED)
            if link.consumer is not None:
                link.consumer.ended = True
                self._credits.consumers.pop(link.consumer.number, None)
                # The consumer refers to its link: nothing of a connection may be left for the collector.
                link.consumer = None
        for queue in self._made.session_ended():
            self._outbox.emit(DeleteNode(self.number, queue))
        self.links.clear()
        self._thirsty.clear()
        return unsettled

    def outgoing_links(self) -> Iterator[OutgoingLink]:
        for link in self.links.values():
            if isinstance(link, OutgoingLink):
                yield link

    @property
    def held(self) -> int:
        """Octets of memory for the links and for unfinished deliveries."""
        return self.incoming.partial_octets + len(self.links) * LINK_OCTETS
