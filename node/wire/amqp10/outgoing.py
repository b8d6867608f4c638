"""The outgoing half of a session: transfers of the node, within the peer's window, and the peer's
dispositions (part 2, sections 2.5.6, 2.6.12).
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import Final

from node.delivery.credit import ChannelConsumer
from node.delivery.settlements import UNLEASED, Outcome
from node.delivery.unsettled import Taken, UnsettledDeliveries, UnsettledRanges
from node.message.run import Run
from node.ranges.range_set import Numbers, Range, merged, ranges_of
from node.wire.amqp10.definitions import (
    Disposition,
    Received,
    Role,
    TransactionalState,
    Transfer,
)
from node.wire.amqp10.effects import AwaitSettled, RenewLease, SettleEffect
from node.wire.amqp10.field_readers import CompositeField
from node.wire.amqp10.frames import frame_buffers
from node.wire.amqp10.incoming_batch import FORMAT_OCTET
from node.wire.amqp10.links import OutgoingLink
from node.wire.amqp10.messages import acquired_before, with_place
from node.wire.amqp10.modified import annotations_told
from node.wire.amqp10.outcomes import bare, default_outcome, outcome_of
from node.wire.amqp10.recovery import FIRST_FRAME_OCTETS
from node.wire.amqp10.serial import MODULUS, unwrapped
from node.wire.amqp10.shared import ConnectionParts
from node.wire.amqp10.transactions import Retired

_TRANSFER: Final = Struct(">IHH7sIBIHI8s")
"""A frame's head and a transfer whose handle, delivery-id and delivery-tag have four octets each, with all
fields to the last.
"""

_HEAD_OCTETS: Final = 38

_AMQP_FRAME: Final = 0x0200
"""The offset of a frame's body, in words of four octets, and the type of the frame (section 2.3.1)."""

_LIST: Final = b"\0\x53\x14\xc0\x19\x0b\x70"
"""The descriptor of a transfer, the head of a list of 25 octets and 11 fields, and the code of the handle."""

_UINT: Final = 0x70
"""The code of a uint of four octets."""

_TAG: Final = 0xA004
"""The code of a short binary, and the length of a delivery-tag."""


def _rest(settled: bool, more: bool) -> bytes:
    """The fields behind the delivery-tag: message-format 0, settled, more, and five at their defaults."""
    return bytes((0x43, 0x41 if settled else 0x42, 0x41 if more else 0x42, 0x40, 0x40, 0x42, 0x42, 0x42))


_RESTS: Final = {(settled, more): _rest(settled, more) for settled in (False, True) for more in (False, True)}

_CONTINUATION_OCTETS: Final = 40
"""More than the octets around a payload in a frame that is not the first of its delivery."""


class WaitingDelivery:
    """Deliveries that wait for the window, from message `index` on, of which `offset` octets are sent. They
    are settled under the number `lease`.
    """

    __slots__ = ("index", "lease", "link", "numbers", "offset", "run")

    def __init__(self, link: OutgoingLink, run: Run, numbers: Numbers, lease: int) -> None:
        self.link = link
        self.lease = lease
        self.run = run
        self.numbers = numbers
        self.index = 0
        self.offset = 0


class OutgoingTransfers:
    """`next_id` is the next-outgoing-id of the session; the peer takes the transfers below `limit`."""

    def __init__(
        self,
        session: int,
        channel: int,
        window: int,
        parts: ConnectionParts,
    ) -> None:
        self.next_id = 0
        self.limit = window
        self.unsettled = UnsettledDeliveries(parts.credits)
        self.sent = self.redelivered = self.settled = self.sent_presettled = 0
        self._session = session
        self._channel = channel
        self._max_frame_size = parts.outbox.max_frame_size
        self._room = self._max_frame_size - _HEAD_OCTETS
        self._outbox = parts.outbox
        self._credits = parts.credits
        self._transactions = parts.transactions
        self._rows = parts.rows
        self._next_delivery = 0
        self._waiting: deque[WaitingDelivery] = deque()
        self._early: dict[OutgoingLink, deque[tuple[int, WaitingDelivery]]] = {}
        """Deliveries that the queues have let go, and for which the links have no credit: each with its
        number among all deliveries of the link.
        """

    def deliver(self, link: OutgoingLink, run: Run, numbers: Numbers, redelivered: bool, lease: int) -> int:
        """Send messages on a link as far as the window admits; the others wait for the window.

        Returns how many messages are taken: those in front of the first one that is larger than the peer
        accepts (section 2.7.3).
        """
        consumer = link.consumer
        assert consumer is not None
        if redelivered:
            run = acquired_before(run)
        if link.tells_place:
            run = with_place(run)
        if 0 < link.max_message_size < run.largest_frame - run.skip:
            fitting = _fitting(run, link.max_message_size)
            if not fitting:
                return 0
            run, numbers = run.slice(0, fitting), numbers[:fitting]
        self.sent += run.count
        if redelivered:
            self.redelivered += run.count
        if link.presettled:
            self.sent_presettled += run.count
        self._credits.delivered(consumer, run.count, len(run.raw))
        waiting = WaitingDelivery(link, run, numbers, lease)
        if lease == UNLEASED:
            # The queue has let it go, whether the consumer had room for it or not.
            consumer.settled += run.count
            if consumer.received > link.limit:
                self._early.setdefault(link, deque()).append((consumer.received, waiting))
                self._credits.held_octets += len(run.raw)
                return run.count
        self._send(waiting)
        return run.count

    def _send(self, waiting: WaitingDelivery) -> None:
        if self._waiting or not self._write(waiting):
            self._waiting.append(waiting)
            self._credits.held_octets += len(waiting.run.raw)
            waiting.link.waiting = True

    def send_early(self, link: OutgoingLink) -> None:
        """The peer has given credit: send what has come for the link before there was credit for it."""
        early = self._early.get(link)
        while early and early[0][0] <= link.limit:
            _, waiting = early.popleft()
            self._credits.held_octets -= len(waiting.run.raw)
            self._send(waiting)
        if early is not None and not early:
            del self._early[link]

    def add_response(self, link: OutgoingLink, octets: bytes) -> None:
        """Send a response on a link behind those that wait."""
        link.responses.append(octets)
        self._credits.held_octets += len(octets)
        self.respond(link)

    def drop_responses(self, link: OutgoingLink) -> None:
        """Forget the responses, and the rows, that wait on a link."""
        self._rows.ended(link)
        self._credits.held_octets -= sum(map(len, link.responses))
        link.responses.clear()

    def respond(self, link: OutgoingLink) -> None:
        """Send the responses that wait on a link, as far as the peer has given credit."""
        while link.responses and link.delivered < link.credit_limit:
            octets = link.responses.popleft()
            self._credits.held_octets -= len(octets)
            run = Run("", "", 0, False, 1, 0, len(octets), None, len(octets), octets, False, FORMAT_OCTET)
            waiting = WaitingDelivery(link, run, range(1), UNLEASED)
            self.sent += 1
            self.sent_presettled += 1
            self._send(waiting)
            if link.waiting:
                return

    def window(self, next_incoming_id: int, incoming_window: int) -> None:
        """The peer has told its window (section 2.5.6)."""
        self.limit = unwrapped(next_incoming_id, self.next_id) + incoming_window
        while self._waiting:
            first = self._waiting[0]
            if not self._write(first):
                return
            self._waiting.popleft()
            self._credits.held_octets -= len(first.run.raw)
            if not any(one.link is first.link for one in self._waiting):
                first.link.waiting = False
                if first.link.consumer is not None:
                    self._credits.touch(first.link.consumer)
                self.respond(first.link)

    def take_unsettled(self, link: OutgoingLink | None = None) -> UnsettledRanges:
        """Take out the unsettled deliveries of a link, or of all links, with those that are not sent yet."""
        taken: list[Taken] = []
        kept: list[Taken] = []
        for ended in list(self._early) if link is None else [link]:
            self._credits.held_octets -= sum(len(one.run.raw) for _, one in self._early.pop(ended, ()))
        for one in self.unsettled.take_all():
            (taken if link is None or one.consumer is link.consumer else kept).append(one)
        self.unsettled.restore(kept)
        found = [(one.lease, merged(ranges_of(one.numbers))) for one in taken]
        if link is None or link.consumer is not None:
            number = None if link is None or link.consumer is None else link.consumer.number
            found += self._transactions.take_unsettled(self._session, number)
        waiting, self._waiting = self._waiting, deque()
        for late in waiting:
            if link is not None and late.link is not link:
                self._waiting.append(late)
                continue
            self._credits.held_octets -= len(late.run.raw)
            consumer, unsent = late.link.consumer, late.numbers[late.index + (1 if late.offset else 0) :]
            if consumer is not None and len(unsent) and not late.link.presettled:
                found.append((late.lease, merged(ranges_of(unsent))))
        return found

    # -- writing --------------------------------------------------------------------------------

    def _write(self, waiting: WaitingDelivery) -> bool:
        """Send what the window admits. Returns whether everything is sent."""
        run, room = waiting.run, self._room
        plain = waiting.link.recovery is None and not waiting.index and not waiting.offset
        whole = plain and run.largest_frame - run.skip <= room
        if whole and run.count <= self.limit - self.next_id:
            self._write_all(waiting)
            return True
        lengths = run.lengths
        at = sum(lengths[: waiting.index]) if lengths is not None else run.stride * waiting.index
        while waiting.index < run.count:
            length = lengths[waiting.index] if lengths is not None else run.stride
            if not self._write_one(waiting, at + run.skip, at + length):
                return False
            at += length
            waiting.index += 1
            waiting.offset = 0
        return True

    def _write_all(self, waiting: WaitingDelivery) -> None:
        link, run = waiting.link, waiting.run
        self._record(waiting, waiting.numbers)
        raw, skip, channel, handle = run.raw, run.skip, self._channel, link.handle
        rest = _RESTS[link.presettled, False]
        number, tag, at = self._next_delivery, link.delivered, 0
        pack = _TRANSFER.pack
        pieces: list[bytes | memoryview] = []
        for length in run.lengths if run.lengths is not None else [run.stride] * run.count:
            payload = raw[at + skip : at + length]
            size = _HEAD_OCTETS + length - skip
            head = pack(
                size, _AMQP_FRAME, channel, _LIST, handle, _UINT, number % MODULUS, _TAG, tag % MODULUS, rest
            )
            pieces.append(head)
            pieces.append(payload)
            at += length
            number += 1
            tag += 1
        self._next_delivery = number
        link.delivered = tag
        self.next_id += run.count
        self._outbox.write_deliveries(b"".join(pieces))

    def _record(self, waiting: WaitingDelivery, numbers: Numbers) -> None:
        """The next deliveries, which have these sequence numbers, are unsettled unless sent settled."""
        link = waiting.link
        if not link.presettled and link.consumer is not None:
            self.unsettled.append(self._next_delivery, waiting.lease, numbers, link.consumer)

    def _write_one(self, waiting: WaitingDelivery, start: int, end: int) -> bool:
        """Send the frames of one message, or the next of them. Returns whether the last one is sent."""
        link, raw, channel = waiting.link, memoryview(waiting.run.raw), self._channel
        handle = link.handle
        while self.next_id < self.limit:
            at = start + waiting.offset
            if not waiting.offset:
                self._record(waiting, waiting.numbers[waiting.index : waiting.index + 1])
                begin = self._begin if link.recovery is None else self._begin_kept
                stop = begin(waiting, raw, at, end)
                more = stop < end
                self._next_delivery += 1
                link.delivered += 1
            else:
                room = self._max_frame_size - _CONTINUATION_OCTETS
                more = end - at > room
                stop = at + room if more else end
                transfer = Transfer(handle, settled=link.presettled, more=more)
                frame = frame_buffers(channel, transfer, (raw[at:stop],), self._max_frame_size)
                self._outbox.write_deliveries(b"".join(frame))
            self.next_id += 1
            waiting.offset += stop - at
            if not more:
                return True
        return False

    def _begin(self, waiting: WaitingDelivery, raw: memoryview, at: int, end: int) -> int:
        """Send the first frame of a delivery, whose payload begins at `at` and ends at `end`. Returns where
        the frame's part of the payload ends.
        """
        link, more = waiting.link, end - at > self._room
        stop = at + self._room if more else end
        size, rest = _HEAD_OCTETS + stop - at, _RESTS[link.presettled, more]
        number, tag = self._next_delivery % MODULUS, link.delivered % MODULUS
        head = _TRANSFER.pack(
            size, _AMQP_FRAME, self._channel, _LIST, link.handle, _UINT, number, _TAG, tag, rest
        )
        self._outbox.write_deliveries(head + bytes(raw[at:stop]))
        return stop

    def _begin_kept(self, waiting: WaitingDelivery, raw: memoryview, at: int, end: int) -> int:
        """As `_begin`, for a delivery that outlives its link."""
        link, number = waiting.link, waiting.numbers[waiting.index]
        room = self._max_frame_size - FIRST_FRAME_OCTETS
        stop = min(end, at + room)
        assert link.recovery is not None
        delivery_id = self._next_delivery % MODULUS
        transfer = link.recovery.transfer(link.handle, delivery_id, number, stop < end)
        frame = frame_buffers(self._channel, transfer, (raw[at:stop],), self._max_frame_size)
        self._outbox.write_deliveries(b"".join(frame))
        return stop

    # -- settling -------------------------------------------------------------------------------

    def dispose(self, disposition: Disposition) -> None:
        """The peer has told outcomes of deliveries. Deliveries that are not unsettled are ignored.

        Raises UnknownTransactionError, and AnnotationBoundsError before it settles any.
        """
        first = unwrapped(disposition.first, self._next_delivery)
        last = first if disposition.last is None else unwrapped(disposition.last, first)
        last = min(last, self._next_delivery - 1)
        state = disposition.state
        if isinstance(state, TransactionalState):
            self._retire(first, last, state, disposition.settled)
            return
        outcome = outcome_of(state)
        if outcome is None and not disposition.settled:
            # No outcome: the peer tells how far it has come (section 3.4.1).
            if isinstance(state, Received):
                self._renew(first, last)
            return
        annotations = annotations_told(state)
        taken = self._take(first, last, disposition.settled)
        for one in taken:
            self._settle(one, outcome or default_outcome(one.consumer), annotations)
        if taken and not disposition.settled:
            self._settle_first(taken, disposition, bare(state))

    def _renew(self, first: int, last: int) -> None:
        """The peer works on deliveries, and has reached no outcome yet."""
        renewed: dict[int, list[Range]] = {}
        for lease, numbers in self.unsettled.between(first, last):
            renewed.setdefault(lease, []).extend(ranges_of(numbers))
        for lease, ranges in renewed.items():
            self._outbox.emit(RenewLease(lease, merged(ranges)))

    def _settle_first(self, taken: list[Taken], told: Disposition, state: CompositeField | None) -> None:
        """The peer settles deliveries after the node (receiver-settle-mode second). A delivery that outlives
        its link must not come again once the peer has forgotten it.
        """
        kept = [one for one in taken if one.consumer is not None and _outlives(one.consumer)]
        if not kept:
            self._outbox.send(self._channel, Disposition(Role.SENDER, told.first, told.last, True, state))
            return
        for one in taken:
            first, last = one.first % MODULUS, (one.first + len(one.numbers) - 1) % MODULUS
            answer = Disposition(Role.SENDER, first, last, True, state)
            if one.consumer is not None and _outlives(one.consumer):
                self._outbox.emit(AwaitSettled(self._session, one.consumer.number, answer))
            else:
                self._outbox.send(self._channel, answer)

    def _retire(self, first: int, last: int, state: TransactionalState, settled: bool) -> None:
        """Settle deliveries when a transaction is committed (part 4, section 4.4.2).

        Raises UnknownTransactionError, and AnnotationBoundsError before it settles any.
        """
        transaction = self._transactions.live(state.txn_id)
        outcome = outcome_of(state.outcome)
        if outcome is None and not settled:
            return
        annotations = annotations_told(state.outcome)
        for one in self._take(first, last, settled):
            mine = outcome or default_outcome(one.consumer)
            retired = Retired(self._session, self.unsettled, one, mine, settled, annotations)
            self._transactions.retire(transaction, retired)

    def settling(self, disposition: Disposition) -> list[OutgoingLink]:
        """The links that have unsettled deliveries of a disposition."""
        first = unwrapped(disposition.first, self._next_delivery)
        last = first if disposition.last is None else unwrapped(disposition.last, first)
        taken = self.unsettled.take_between(first, last) if first <= last else []
        self.unsettled.restore(taken)
        links = dict.fromkeys(None if one.consumer is None else one.consumer.flow for one in taken)
        return [link for link in links if isinstance(link, OutgoingLink)]

    def _take(self, first: int, last: int, settled: bool) -> list[Taken]:
        """Take out the unsettled deliveries of a range. A transaction may have others of it already."""
        if first > last:
            return []
        taken = self.unsettled.take_between(first, last)
        if settled and sum(len(one.numbers) for one in taken) <= last - first:
            self._transactions.settled_by_peer(self._session, self.unsettled, first, last)
        return taken

    def _settle(self, taken: Taken, outcome: Outcome, annotations: bytes) -> None:
        if taken.lease == UNLEASED:
            self.settled += len(taken.numbers)
            return
        if annotations:
            ranges = merged(ranges_of(taken.numbers))
            self._outbox.emit(SettleEffect(taken.lease, ranges, outcome, annotations))
        else:
            self._outbox.settlements.add(outcome, self._session, taken.lease, taken.numbers)
        self.settled += len(taken.numbers)
        consumer = taken.consumer
        if consumer is not None:
            consumer.settled += len(taken.numbers)
            self._credits.touch(consumer)


def _outlives(consumer: ChannelConsumer) -> bool:
    """Whether the deliveries of the consumer outlive its link."""
    link = consumer.flow
    return isinstance(link, OutgoingLink) and link.recovery is not None


def _fitting(run: Run, largest: int) -> int:
    """The number of messages in front of the first one that has more than `largest` octets."""
    lengths = run.lengths if run.lengths is not None else [run.stride] * run.count
    return next((at for at, length in enumerate(lengths) if length - run.skip > largest), run.count)
