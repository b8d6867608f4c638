"""Sends the messages of streams to queues over a pattern with a recovery point that are in other partitions
(D1, D13; docs/decisions/0093-the-past-over-a-pattern.md). Pure.

No route leads from such a stream to such a queue: the owner of the stream sends everything, the past and what
comes later, in the order of the stream. So the past of a stream stands before the stream's new messages, and
no message comes in twice.

A part is a transfer of copies (`node.queue.transfers`), numbered as the transfers of dead letters. The entry
with the transfer has the place behind the part, too: a place of the stream (`node.queue.subscriptions`). So a
new owner sends the parts again that are under way, under their numbers, and goes on behind them. Retention
waits for the parts under way until they are too far behind, and for no other message. The owner tells what
retention has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from cluster.owner.context import FedQueue, PassedFeed
from cluster.owner.referring import read
from cluster.owner.state import Copying, OwnerState
from cluster.owner.streams import place_of
from cluster.owner.transfers import TransferLink
from cluster.peers.link_messages import JUST_CREATED, NOT_FOUND
from node.queue.decision_format import encode_advance, encode_transfer
from node.queue.dispatch import QueueOwner
from node.queue.entry_format import encode_publish
from node.queue.operations import OWNER
from node.queue.subscriptions import Advance, feed_place
from node.queue.transfers import Transfer, transfer_of_copies
from node.ranges.range_set import Range, RangeSet, count_of

MESSAGES_OF_PART: Final = 1024
OCTETS_OF_PART: Final = 256 << 10
"""About so many messages and octets are one part."""

PARTS_UNDER_WAY: Final = 4
"""So many parts for one queue are on their way at most."""


class Feed(NamedTuple):
    """A stream, and a queue that gets its messages."""

    stream: int
    queue: int


def _place(queue: QueueOwner, fed: FedQueue) -> int | None:
    """The number of the first message that the queue has not got; None before the log has one."""
    known = queue.delivery.state.subscriptions
    return None if known is None else known.place(feed_place(fed.queue))


class Feeds:
    """The feeds from the streams of one partition, while this node owns the partition."""

    def __init__(
        self,
        owner: OwnerState,
        link: Callable[[int], TransferLink],
        next_number: Callable[[int], int],
    ) -> None:
        """`link` gives the link to another partition, `next_number` the number of its next transfer."""
        self._owner, self._link, self._next_number = owner, link, next_number
        self.fed: dict[int, list[FedQueue]] = {}
        """The queues that each stream feeds; empty in most partitions."""
        self.due = False
        """Whether `take_steps` may find something to do."""
        self._logging: set[Feed] = set()
        """The feeds whose last entry is not applied yet."""
        self._asking: set[Feed] = set()
        self._there: set[Feed] = set()
        """The feeds whose queue is in the log of its partition."""

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self.fed, self.due = {}, False
        self._logging, self._asking, self._there = set(), set(), set()

    def take_over(self) -> None:
        """A new owner: former owners may have parts under way."""
        transfers = self._owner.machine.transfers
        for partition in transfers.partitions():
            for transfer in transfers.to(partition):
                if transfer.copied_from is not None:
                    self._under_way(partition, transfer, transfer.copied_from)
        self.topics_changed()

    def topics_changed(self) -> None:
        """The catalog has other streams, or other queues over patterns, than it had."""
        owner = self._owner
        if not owner.active:
            return
        streams = [number for number in owner.settings if owner.described(number).stream]
        self.fed = {stream: fed for stream in streams if (fed := list(owner.placed.fed(stream)))}
        for stream in streams:
            self._forget_deleted(stream)
        self.go_on()

    def _forget_deleted(self, stream: int) -> None:
        """Forget the places for queues that are gone."""
        state = self._owner.machine.queues.get(stream)
        if state is None or state.subscriptions is None:
            return
        present = {one.queue for one in self.fed.get(stream, ())}
        for queue in state.subscriptions.feeds():
            # A catalog that is behind may not have the queue yet.
            if queue not in present and self._owner.placed.declared(queue):
                # Behind a part that the next entry may have.
                self._owner.decision(encode_advance(Advance(stream, feed_place(queue), 0)))

    def go_on(self) -> None:
        """Have the next parts sent in this turn, if there are feeds."""
        if self.fed:
            self.due = True
            self._owner.wake()

    def take_steps(self) -> None:
        """Put the next parts into the next entry, as far as there is room on the way. Raises
        DamagedEntryError.
        """
        # An owner in this process answers within a step, and makes another one due.
        self.due = False
        for feed, queue, fed in self._idle():
            self._step(feed, queue, fed)

    def _idle(self) -> Iterator[tuple[Feed, QueueOwner, FedQueue]]:
        """The feeds without an entry that is not applied yet."""
        for stream, fed in self.fed.items():
            queue = self._owner.queues.get(stream)
            if queue is None:
                continue
            for one in fed:
                feed = Feed(stream, one.queue)
                if feed not in self._logging:
                    yield feed, queue, one

    # -- parts ----------------------------------------------------------------------------------

    def _step(self, feed: Feed, queue: QueueOwner, fed: FedQueue) -> None:
        first, mark = _place(queue, fed), queue.delivery.state.mark
        if first is None:
            self._begin(feed, queue, fed)
        elif first <= mark:
            self._log(feed, mark + 1, partial(self._passed, feed, first))
        elif feed not in self._there:
            self._ask(feed, fed.partition)
        elif self._has_room(feed):
            ranges = self._part(queue, first)
            if ranges:
                self._send(feed, fed.partition, ranges)

    def _begin(self, feed: Feed, queue: QueueOwner, fed: FedQueue) -> None:
        """Log the number of the first message that a queue is to have."""
        first, mark = 1, queue.delivery.state.mark
        if not fed.younger:
            owner, upto = self._owner, self._owner.next_sequence - 1
            first = max(mark, place_of(queue.delivery, fed.point, upto, owner.wall_ms())) + 1
        self._log(feed, first)

    def _ask(self, feed: Feed, partition: int) -> None:
        """Ask the owner of the queue whether the queue is there: its partition would drop messages for a
        queue whose declaration is on its way.
        """
        if feed not in self._asking:
            self._asking.add(feed)
            self._link(partition).ask("count", [feed.queue, JUST_CREATED], partial(self._answered, feed))

    def _answered(self, feed: Feed, value: object) -> None:
        """A queue that is not there is asked for again with the next entry, or a little later."""
        self._asking.discard(feed)
        if value != NOT_FOUND and self._owner.active:
            self._there.add(feed)
            self.go_on()

    def _has_room(self, feed: Feed) -> bool:
        copies = self._owner.copying.get(feed.stream, {}).values()
        return sum(one.queue == feed.queue for one in copies) < PARTS_UNDER_WAY

    def _part(self, queue: QueueOwner, first: int) -> list[Range]:
        """The messages of the next part, from a number on: none that a transaction withholds, nor any behind
        it. Where retention is removing some, the owner waits until it has.
        """
        delivery, last = queue.delivery, self._owner.machine.next_sequence - 1
        withheld = delivery.state.withheld.intersection(first, last)
        last = withheld[0][0] - 1 if withheld else last
        there = RangeSet(delivery.state.alive.intersection(first, last))
        kept = [*delivery.ready.intersection(first, last), *delivery.held.intersection(first, last)]
        if not there or there.without(RangeSet(kept).ranges()):
            return []
        messages = octets = 0
        for start, run in read(queue, there):
            last = start + min(run.count, MESSAGES_OF_PART - messages) - 1
            messages += last - start + 1
            octets += len(run.raw)
            if messages >= MESSAGES_OF_PART or octets >= OCTETS_OF_PART:
                break
        return there.intersection(first, last)

    def _send(self, feed: Feed, partition: int, ranges: list[Range]) -> None:
        """Log a part, with the place behind it, and send it once that is committed."""
        transfer = transfer_of_copies(feed.queue, self._next_number(partition), feed.stream, ranges)
        self._under_way(partition, transfer, feed.stream)
        sent = partial(self._sent, partition, transfer)
        self._log(feed, ranges[-1][1] + 1, sent, encode_transfer(partition, transfer))

    def _log(self, feed: Feed, place: int, then: Callable[[], None] | None = None, *before: bytes) -> None:
        """Log operations, and in the same batch the first message that is not sent."""
        self._logging.add(feed)
        advance = encode_advance(Advance(feed.stream, feed_place(feed.queue), place))
        self._owner.proposal.add_batch(OWNER, 0, self._owner.next_sequence, [*before, advance])
        self._owner.proposal.committed.append(partial(self._logged, feed, then))
        self._owner.wake()

    def _logged(self, feed: Feed, then: Callable[[], None] | None) -> None:
        """The entry is applied."""
        self._logging.discard(feed)
        if then is not None:
            then()

    def _sent(self, partition: int, transfer: Transfer) -> None:
        self._link(partition).send(transfer)

    def _passed(self, feed: Feed, first: int) -> None:
        """Retention has passed messages from `first` on: the queue does not get them."""
        state = self._owner.machine.queues.get(feed.stream)
        oldest = None if state is None else state.alive.range_from(first)
        self._owner.recovery_points.note(PassedFeed(*feed, 0 if oldest is None else oldest[0]))

    # -- on the way -----------------------------------------------------------------------------

    def contents(self, transfer: Transfer, stream: int) -> bytes:
        """The operation batch of a transfer of copies. Nothing of a stream that is deleted. Raises
        DamagedEntryError.
        """
        state = self._owner.machine.queues.get(stream)
        ranges = list(transfer.ranges)
        there = [] if state is None else state.alive.intersections(ranges)
        if state is not None and count_of(there) < count_of(ranges):
            self._passed(Feed(stream, transfer.queue), transfer.ranges[0][0])
        # A stream has transient messages in its log, too, so that each comes once.
        runs = (replace(run, persistent=True) for part in there for _, run in self._owner.contents(*part))
        return b"".join(part for run in runs for part in encode_publish(run, (transfer.queue,)))

    def _under_way(self, partition: int, transfer: Transfer, stream: int) -> None:
        copying = Copying(transfer.queue, transfer.ranges[0][0])
        self._owner.copying.setdefault(stream, {})[partition, transfer.number] = copying

    def arrived(self, partition: int, transfer: Transfer, stream: int) -> None:
        """The other partition has the copies of a transfer."""
        copies = self._owner.copying.get(stream, {})
        copies.pop((partition, transfer.number), None)
        if not copies:
            self._owner.copying.pop(stream, None)
