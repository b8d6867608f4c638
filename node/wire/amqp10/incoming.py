"""The incoming half of a session: transfers of the peer, gathered into runs, and their dispositions (part 2,
sections 2.5.6, 2.6.12).

A delivery's number is its delivery-id, counted on where ids of 32 bits begin again. The tag of a publish is
the delivery's number plus one, because the tag 0 asks for no confirm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from node.wire.amqp10.addresses import address_in, destination_of
from node.wire.amqp10.definitions import (
    Accepted,
    Declare,
    Declared,
    Disposition,
    ReceiverSettleMode,
    Rejected,
    Released,
    Role,
    TransactionalState,
    Transfer,
)
from node.wire.amqp10.effects import PublishEffect, RequestEffect, SettleTags, TargetEnded
from node.wire.amqp10.error_texts import error_of
from node.wire.amqp10.errors import (
    DeliveryFieldError,
    ForgedUserIdError,
    MessageTooLargeError,
    TransferLimitError,
    UnfinishedPostError,
    WindowViolationError,
    WireError,
)
from node.wire.amqp10.frames import Frame
from node.wire.amqp10.incoming_batch import Batch
from node.wire.amqp10.kept_target import LONGEST_TAG
from node.wire.amqp10.known_head import KnownHead
from node.wire.amqp10.links import IncomingDelivery, IncomingLink, Link, LinkState, PartialDelivery
from node.wire.amqp10.management import REQUEST_OCTETS
from node.wire.amqp10.messages import facts_of
from node.wire.amqp10.retention import Keeping, LinkEnd, keeping
from node.wire.amqp10.sections import names_other_user
from node.wire.amqp10.serial import MODULUS, unwrapped
from node.wire.amqp10.shared import ConnectionParts
from node.wire.amqp10.transactions import Transaction, control_message
from node.wire.amqp10.transfer_rows import TransferRow

DeliveryOutcome = Accepted | Rejected | Released | Declared | TransactionalState

ACCEPTED: Final = Accepted()
RELEASED: Final = Released()


class DispositionDue:
    """Deliveries in a row that the broker has decided alike. `last` may grow."""

    __slots__ = ("first", "last", "outcome", "second")

    def __init__(self, first: int, last: int, outcome: DeliveryOutcome, second: bool) -> None:
        self.first = first
        self.last = last
        self.outcome = outcome
        self.second = second


class IncomingTransfers:
    """`next_id` and `window` are the next-incoming-id and the incoming-window of the session."""

    def __init__(
        self,
        session: int,
        next_id: int,
        parts: ConnectionParts,
    ) -> None:
        self.next_id = next_id
        self.window = parts.limits.incoming_window
        self.unconfirmed = 0
        """Deliveries that the node has not settled."""
        self.partial_octets = 0
        self.received = self.confirmed = 0
        self._session = session
        self._limits = parts.limits
        self._outbox = parts.outbox
        self._transactions = parts.transactions
        self._requests = parts.requests
        self._next_delivery: int | None = None
        self._batch: Batch | None = None
        self._user = parts.user
        self._heads = KnownHead(parts.user)
        self._settled: list[DispositionDue] = []
        self._second: set[int] = set()
        """The numbers of unsettled deliveries that the peer settles first."""
        self._abandoned: set[int] = set()
        """Those of them whose link has lost its target: the peer is told no outcome."""

    def transfer(self, link: IncomingLink, frame: Frame, transfer: Transfer) -> None:
        """Take a transfer frame. Raises WireError; those of the link leave the session as it has to be."""
        if self.window <= 0:
            raise WindowViolationError("a transfer beyond the session's incoming window")
        self.window -= 1
        self.next_id += 1
        partial = link.partial
        if partial is None:
            self._begin(link, frame, transfer)
        else:
            self._continue(link, partial, frame, transfer)

    def _begin(self, link: IncomingLink, frame: Frame, transfer: Transfer) -> None:
        delivery_id, tag = transfer.delivery_id, transfer.delivery_tag
        if delivery_id is None or tag is None:
            raise DeliveryFieldError("the first transfer of a delivery lacks its delivery-id or delivery-tag")
        if link.kept is not None and len(tag) > LONGEST_TAG:
            raise DeliveryFieldError(f"a delivery-tag has {len(tag)} octets, and the longest {LONGEST_TAG}")
        number = self._next_delivery
        if number is None:
            number = delivery_id
        elif delivery_id != number % MODULUS:
            raise DeliveryFieldError(f"delivery-id {delivery_id} does not follow {(number - 1) % MODULUS}")
        self._next_delivery = number + 1
        link.delivery_count += 1
        settled, second = transfer.settled is True, _settles_second(link, transfer)
        if transfer.more and not transfer.aborted:
            link.partial = PartialDelivery(number, settled, second, transfer.state, tag, delivery_id)
            link.partial.resumed = transfer.resume
        if link.state is LinkState.DETACHED:
            return
        if link.credit <= 0:
            raise TransferLimitError("a delivery without credit")
        link.credit -= 1
        if link.partial is not None:
            self._keep(link, link.partial, frame)
        elif not transfer.aborted:
            delivery = IncomingDelivery(number, settled, second, transfer.state, tag)
            if transfer.resume:
                self._resume(link, delivery)
            else:
                self._add(link, delivery, frame.data, frame.begin, frame.start, frame.end)

    def _resume(self, link: IncomingLink, delivery: IncomingDelivery) -> None:
        """The peer resumes a delivery. The node ignores a delivery that the queue does not have (section
        2.7.5, resume).
        """
        kept = link.kept
        if kept is None or not kept.resume(delivery.tag):
            return
        if delivery.settled:
            self._outbox.emit(SettleTags(kept.number, [delivery.tag]))
            return
        kept.add(delivery.number, delivery.tag)
        self.unconfirmed += 1
        self._second.add(delivery.number)
        self.decided(delivery.number + 1, delivery.number + 1, ACCEPTED)

    def row(self, link: IncomingLink, row: TransferRow) -> bool:
        """Take the deliveries of a row; False: none is taken, because one may break a rule, or the messages
        ask for different things.
        """
        lengths, transfer, largest = row.lengths, row.transfer, max(row.lengths)
        count = len(lengths)
        number = row.first_id if self._next_delivery is None else self._next_delivery
        transaction = self._transactions.named_by(transfer.state)
        if (
            row.first_id != number % MODULUS
            or self.window < count
            or not _takes_rows(link, count)
            or (transfer.state is not None and transaction is None)
            or transfer.resume
            or largest - row.skip > self._limits.message_size
            or not self._heads.alike(row)
        ):
            return False
        self.window -= count
        self.next_id += count
        self._next_delivery = number + count
        link.delivery_count += count
        link.credit -= count
        settled = transfer.settled is True
        exchange, routing_key, data, begin = link.exchange, link.routing_key, row.data, row.begin
        durable, special = self._heads.durable, self._heads.special
        batch = self._batch_for(
            link, exchange, routing_key, data, begin, row.skip, number, settled, durable, special, transaction
        )
        batch.end = row.end
        batch.lengths += lengths
        batch.largest = max(batch.largest, largest)
        self.received += count
        if not settled:
            self.unconfirmed += count
            if _settles_second(link, transfer):
                self._second.update(range(number, number + count))
        return True

    def _continue(
        self, link: IncomingLink, partial: PartialDelivery, frame: Frame, transfer: Transfer
    ) -> None:
        delivery_id, tag = transfer.delivery_id, transfer.delivery_tag
        if (delivery_id is not None and delivery_id != partial.delivery_id) or (
            tag is not None and tag != partial.tag
        ):
            raise DeliveryFieldError(f"a transfer of another delivery within delivery {partial.delivery_id}")
        partial.settled = partial.settled or transfer.settled is True
        partial.state = transfer.state or partial.state
        if transfer.aborted:
            self.drop_partial(link)
            return
        if link.state is LinkState.ATTACHED:
            self._keep(link, partial, frame)
        if not transfer.more:
            data = b"".join(partial.pieces)
            self.drop_partial(link)
            if link.state is not LinkState.ATTACHED:
                return
            if partial.resumed:
                self._resume(link, partial)
            else:
                self._add(link, partial, data, 0, 0, len(data))

    def _keep(self, link: IncomingLink, partial: PartialDelivery, frame: Frame) -> None:
        if partial.resumed:
            return
        self._transactions.post_part(partial)
        partial.pieces.append(bytes(frame.payload))
        octets = frame.end - frame.start
        partial.octets += octets
        self.partial_octets += octets
        if partial.octets > self._limits.message_size:
            raise self._too_large()

    def drop_partial(self, link: IncomingLink) -> None:
        """Forget an unfinished delivery: no frame of it will come."""
        self.free_partial(link)
        link.partial = None

    def free_partial(self, link: IncomingLink) -> None:
        """Forget the octets of an unfinished delivery, whose next frames are discarded."""
        partial = link.partial
        if partial is not None:
            self.partial_octets -= partial.octets
            partial.octets = 0
            partial.pieces.clear()
            self._transactions.drop_part(partial)

    def _too_large(self) -> MessageTooLargeError:
        return MessageTooLargeError(f"the message has more than {self._limits.message_size} octets")

    def _transaction(self, state: object) -> Transaction | None:
        """The transaction that a delivery's state names (part 4, section 4.4.1).

        Raises UnknownTransactionError.
        """
        return self._transactions.live(state.txn_id) if isinstance(state, TransactionalState) else None

    def _add(
        self, link: IncomingLink, delivery: IncomingDelivery, data: bytes, begin: int, start: int, end: int
    ) -> None:
        """Take a delivery whose message stands in `data` from `start` to `end`, behind a frame's head."""
        if end - start > self._limits.message_size:
            raise self._too_large()
        if link.coordinator:
            self._control(link, delivery, data, start, end)
            return
        if link.management:
            self._request(link, delivery, data[start:end])
            return
        transaction = None if delivery.state is None else self._transaction(delivery.state)
        facts = facts_of(data, start, end)
        if self._user is not None and names_other_user(data, facts.sections, self._user):
            raise ForgedUserIdError("the user-id of a message is not the user who has logged in")
        exchange, routing_key = link.exchange, link.routing_key
        if link.anonymous:
            exchange, routing_key = destination_of(address_in(data, start, end))
        kept = None if delivery.settled or not delivery.second else link.kept
        tagged = kept is not None and transaction is None
        if link.kept is not None and self._batch is not None and bool(self._batch.tags) is not tagged:
            self.flush()
        skip, number, settled = start - begin, delivery.number, delivery.settled
        durable, special = facts.durable, facts.special
        batch = self._batch_for(
            link, exchange, routing_key, data, begin, skip, number, settled, durable, special, transaction
        )
        if kept is not None:
            kept.add(delivery.number, delivery.tag)
            if transaction is None:
                batch.tags.append(delivery.tag)
            else:
                self._transactions.post(transaction, kept, delivery.number)
        length = end - begin
        batch.end = end
        batch.lengths.append(length)
        if length > batch.largest:
            batch.largest = length
        self._count(delivery)

    def _count(self, delivery: IncomingDelivery) -> None:
        self.received += 1
        if not delivery.settled:
            self.unconfirmed += 1
            if delivery.second:
                self._second.add(delivery.number)

    def _batch_for(
        self,
        link: IncomingLink,
        exchange: str,
        routing_key: str,
        data: bytes,
        begin: int,
        skip: int,
        number: int,
        settled: bool,
        durable: bool,
        special: bool,
        transaction: Transaction | None,
    ) -> Batch:
        """The batch that the frame at `begin` continues, or a new one."""
        batch = self._batch
        if (
            batch is None
            or batch.link is not link
            or batch.data is not data
            or batch.end != begin
            or batch.skip != skip
            or batch.durable is not durable
            or batch.special is not special
            or (batch.first_tag == 0) is not settled
            or batch.transaction is not transaction
            or batch.routing_key != routing_key
            or batch.exchange != exchange
        ):
            self.flush()
            first_tag = 0 if settled else number + 1
            batch = self._batch = Batch(
                link, exchange, routing_key, data, begin, skip, first_tag, durable, special, transaction
            )
            if transaction is not None:
                self._transactions.gathering[self._session] = self.flush
        return batch

    def flush(self) -> None:
        """Publish the messages gathered so far."""
        batch = self._batch
        if batch is not None:
            self._batch = None
            run, transaction = batch.run(), batch.transaction
            if transaction is not None:
                self._transactions.gathering.pop(self._session, None)
                self._transactions.hold(transaction, len(run.raw))
            number = 0 if transaction is None else transaction.number
            self._outbox.publish(PublishEffect(batch.link, run, batch.first_tag, number, batch.tags))

    def _control(
        self, link: IncomingLink, delivery: IncomingDelivery, data: bytes, start: int, end: int
    ) -> None:
        """A message to the coordinator. Raises WireError that ends the link."""
        self.flush()
        message, tag = control_message(data, start, end, delivery.settled), delivery.number + 1
        outcome: DeliveryOutcome | None
        try:
            if isinstance(message, Declare):
                outcome = Declared(self._transactions.declare(message, link).txn_id)
            else:
                outcome = self._transactions.discharge(message, link, tag)
        except UnfinishedPostError:
            raise
        except WireError as error:
            if not link.rejects:
                raise
            outcome = Rejected(error_of(error))
        self._count(delivery)
        if outcome is not None:
            self.decided(tag, tag, outcome)

    def _request(self, link: IncomingLink, delivery: IncomingDelivery, octets: bytes) -> None:
        """A message to the node's management. Raises MessageTooLargeError."""
        if len(octets) > REQUEST_OCTETS:
            raise MessageTooLargeError(f"a request has at most {REQUEST_OCTETS} octets")
        self.flush()
        self._requests.asked(link, len(octets))
        self._outbox.emit(RequestEffect(link, octets))
        self._count(delivery)
        if not delivery.settled:
            self.decided(delivery.number + 1, delivery.number + 1, ACCEPTED)

    # -- settling -------------------------------------------------------------------------------

    def settled(self, disposition: Disposition, links: Iterable[Link]) -> dict[IncomingLink, None]:
        """The peer has settled deliveries. Returns the links whose targets keep them no more."""
        if self._next_delivery is None or not disposition.settled:
            return {}
        first = unwrapped(disposition.first, self._next_delivery)
        last = first if disposition.last is None else unwrapped(disposition.last, first)
        found = dict[IncomingLink, None]()
        for link in links:
            if isinstance(link, IncomingLink) and link.kept is not None:
                tags = link.kept.settle(first, last)
                if tags:
                    self._outbox.emit(SettleTags(link.kept.number, tags))
                    found[link] = None
        return found

    def abandon(self, link: IncomingLink) -> None:
        """A link has lost its target. The peer hears no outcome of the deliveries that are not decided: it
        asks the link that has the target.
        """
        if link.kept is not None:
            self._abandoned.update(self._second.intersection(link.kept.numbers))

    def link_ended(self, link: IncomingLink, end: LinkEnd) -> None:
        """A link has ended: its target is kept without it, or is gone."""
        if link.kept is not None:
            self.flush()
            gone = keeping(link.retention, end) is Keeping.GONE
            link.kept.ended, link.kept.kept = True, not gone
            self._outbox.emit(TargetEnded(link.kept.number, gone))

    def decided(self, first_tag: int, last_tag: int, outcome: DeliveryOutcome) -> None:
        """The broker has decided about deliveries, by the tags of their publishes."""
        self.unconfirmed -= last_tag - first_tag + 1
        self.confirmed += last_tag - first_tag + 1
        if not self._second:
            self._settle(first_tag - 1, last_tag - 1, outcome, second=False)
            return
        for number in range(first_tag - 1, last_tag):
            second = number in self._second
            self._second.discard(number)
            if number in self._abandoned:
                self._abandoned.discard(number)
                continue
            self._settle(number, number, outcome, second)

    def _settle(self, first: int, last: int, outcome: DeliveryOutcome, second: bool) -> None:
        settled = self._settled
        if settled:
            newest = settled[-1]
            if newest.last + 1 == first and newest.outcome is outcome and newest.second is second:
                newest.last = last
                return
        settled.append(DispositionDue(first, last, outcome, second))

    @property
    def has_dispositions(self) -> bool:
        return bool(self._settled)

    def write_dispositions(self, channel: int) -> None:
        """Tell the peer the outcomes that the broker has decided."""
        settled, self._settled = self._settled, []
        for one in settled:
            last = None if one.last == one.first else one.last % MODULUS
            self._outbox.send(
                channel,
                Disposition(Role.RECEIVER, one.first % MODULUS, last, not one.second, one.outcome),
            )


def _settles_second(link: IncomingLink, transfer: Transfer) -> bool:
    """Whether the node settles a delivery after the peer (section 2.7.5, rcv-settle-mode)."""
    return link.settles_second and transfer.rcv_settle_mode is not ReceiverSettleMode.FIRST


def _takes_rows(link: IncomingLink, count: int) -> bool:
    """Whether `count` deliveries on a link may come as a row."""
    return (
        link.state is LinkState.ATTACHED
        and link.credit >= count
        and link.partial is None
        and not link.anonymous
        and link.kept is None
        and not link.coordinator
        and not link.management
    )
