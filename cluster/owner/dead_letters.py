"""Moves messages that a partition's queues have discarded to the queues of their dead-letter exchanges.

A discarded message stays alive, annotated with its death, until its dead letter has arrived. Within the
partition one entry publishes the dead letter and removes the message. For another partition the message is
removed once that partition has committed the dead letter. So no failover loses or doubles a dead letter: see
`node.queue.transfers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from cluster.owner.annotating import annotated_from
from cluster.owner.borrowing import is_loan_of, loan_contents
from cluster.owner.context import DeadLetterRoutes
from cluster.owner.dead_letter_routing import NO_TARGET, DeadLetterRouter, DeadRun
from cluster.owner.discarding import lacks_exchange
from cluster.owner.feeding import Feeds
from cluster.owner.intake import publish_own
from cluster.owner.placing_barriers import barrier_contents
from cluster.owner.state import OwnerState
from cluster.owner.transfers import TransferLink
from node.message.deaths import decode_death
from node.message.run import Run
from node.queue.decision_format import encode_remove, encode_transfer, encode_transferred
from node.queue.entry_format import encode_publish
from node.queue.operations import Applied, Aspect
from node.queue.transfers import Transfer
from node.ranges.range_set import Range, RangeSet

MESSAGES_AT_ONCE: Final = 1024
OCTETS_AT_ONCE: Final = 512 * 1024
"""About so many dead letters and octets move with one entry, so that they do not delay other messages."""

STEP: Final = 64
"""Messages that are read before their octets are counted."""

TRANSFERS_UNDER_WAY: Final = 64
"""When so many transfers are on their way to a partition, queues that have sent some there wait."""


class DeadLetters:
    """The dead letters of one partition, while this node owns it."""

    def __init__(
        self, owner: OwnerState, transit: DeadLetterRoutes, routes_fresh: Callable[[], bool]
    ) -> None:
        """`routes_fresh`: whether the routes show every change of which any client has been told."""
        self._owner = owner
        self._transit, self._routes_fresh = transit, routes_fresh
        self._dead_messages = owner.dead_messages
        self._links: dict[int, TransferLink] = {}
        self._numbers: dict[int, int] = {}
        # The partitions to which a queue has sent dead letters.
        self._toward: dict[int, set[int]] = {}
        self._moving = False
        self.feeds = Feeds(owner, self.link, self.next_number)

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self._transit.close(self._owner.partition)
        self._links, self._numbers, self._toward, self._moving = {}, {}, {}, False
        self.feeds.clear()

    def take_over(self) -> None:
        """A new owner has all dead messages wait, and sends the transfers of former owners again."""
        machine = self._owner.machine
        for number, state in machine.queues.items():
            dead = state.annotations.get(Aspect.DEATH)
            if dead is not None:
                self._dead_messages.leaving[number] = machine.transfers.of(number)
                self._dead_messages.wait(number, list(dead.coverage().ranges()))
        for partition in machine.transfers.partitions():
            self.link(partition).resume(machine.transfers.to(partition))
        self.feeds.take_over()
        self.move()

    def applied(self, applied: Applied) -> None:
        """Go on behind an entry."""
        if applied.dead:
            self.move()
        self.feeds.go_on()

    def before_entry(self) -> None:
        """Publish the dead letters of soft messages, and put copies into the next entry. Raises
        DamagedEntryError.
        """
        if self._dead_messages.soft:
            self.publish_soft()
        if self.feeds.due:
            self.feeds.take_steps()

    def retry(self) -> None:
        """Go on where the catalog did not know a queue before, and end the transfers to deleted partitions.

        Called every `RETRY_INTERVAL_S`.
        """
        transfers = self._owner.machine.transfers
        for partition in transfers.partitions():
            if self._transit.gone(partition):
                self._end(partition, transfers.last_number(partition))
                self._links.pop(partition, None)
                self._transit.close(self._owner.partition, partition)
        for kept in (self._toward, self._dead_messages.leaving):
            for number in kept.keys() - self._owner.machine.queues.keys():
                del kept[number]
        for link in self._links.values():
            if link.stalled:
                link.resync()
        self.feeds.go_on()
        self.move()

    # -- making dead letters --------------------------------------------------------------------

    def _router(self, number: int) -> DeadLetterRouter | None:
        """The router of a queue; None while this node does not know the queue."""
        named = self._transit.queue_name(number)
        if named is None or self._owner.known_settings(number) is None:
            return None
        target = self._owner.described(number).dead_letters or NO_TARGET
        return DeadLetterRouter(self._transit, *named, number, target)

    def _dead_runs(self, number: int, first: int, last: int, router: DeadLetterRouter) -> Iterator[DeadRun]:
        """The dead messages of a queue from `first` to `last`, as dead letters."""
        state = self._owner.machine.queues[number]
        deaths = state.annotations.get(Aspect.DEATH)
        for start, end, value in deaths.spans(first, last) if deaths is not None else ():
            for one in self._owner.contents(start, end):
                for position, run in annotated_from(state.remarks, *one):
                    yield from router.dead_runs(position, run, *decode_death(value))

    def publish_soft(self) -> None:
        """Publish the dead letters of soft messages, which are not in the log."""
        soft, self._dead_messages.soft = self._dead_messages.soft, []
        for number, first, run, reason, time_ms in soft:
            router = None if lacks_exchange(self._owner, number) else self._router(number)
            for dead in () if router is None else router.dead_runs(first, run, reason, time_ms):
                for partition, queues in by_partition(dead).items():
                    if partition == self._owner.partition:
                        self._publish([(dead.run, queues)], [])
                    else:
                        self._transit.publish_soft(partition, dead.run, queues)

    def _publish(
        self, runs: Sequence[tuple[Run, tuple[int, ...]]], operations: Sequence[bytes]
    ) -> list[Range]:
        """Publish runs to queues of the partition, with operations behind them in the same entry. Returns the
        numbers that the messages of each run have got.
        """
        numbers = publish_own(self._owner, runs, operations)
        self._owner.wake()
        return numbers

    # -- moving ---------------------------------------------------------------------------------

    def move(self) -> None:
        """Put some of the waiting dead letters into the next entry, unless the last ones are not committed
        yet. A dead letter that no exchange takes is gone: a catalog that is behind routes none.
        """
        if self._moving or not self._routes_fresh():
            return
        for number in list(self._dead_messages.waiting):
            if number not in self._owner.machine.queues:
                # The queue was deleted, and its messages with it.
                del self._dead_messages.waiting[number]
            elif not self._crowded(number) and self._move_some(number):
                if number in self._dead_messages.waiting:
                    # The other queues come first next time.
                    self._dead_messages.waiting[number] = self._dead_messages.waiting.pop(number)
                return

    def _crowded(self, number: int) -> bool:
        """Whether enough transfers are on their way to a partition to which the queue has sent some."""
        toward = self._toward.get(number, set()) & self._links.keys()
        return any(len(self._links[partition]) >= TRANSFERS_UNDER_WAY for partition in toward)

    def _move_some(self, number: int) -> bool:
        """Move some dead letters of a queue. Returns whether there were any to move now."""
        owner = self._owner
        if lacks_exchange(owner, number):
            # The messages died while the owner did not know whether the queue has a dead-letter exchange.
            self._forget(number)
            return True
        router = self._router(number)
        if router is None:
            return False
        some = self._some(number, router)
        local = [(dead, by_partition(dead).get(owner.partition, ())) for dead in some]
        staying = [(dead, queues) for dead, queues in local if queues]
        begun = self._begin(number, some)
        removed = RangeSet((dead.first, dead.last) for dead in some)
        for _, transfer in begun:
            removed.remove_all(transfer.ranges)
        operations = [encode_transfer(partition, transfer) for partition, transfer in begun]
        for reason in sorted({dead.reason for dead in some}):
            parts = [
                part
                for dead in some
                if dead.reason is reason
                for part in removed.intersection(dead.first, dead.last)
            ]
            if parts:
                operations.append(encode_remove(number, reason, parts))
        if operations:
            self._moving = True
            leaving = self._dead_messages.leaving.setdefault(number, RangeSet())
            leaving.update([(dead.first, dead.last) for dead in some])
            numbers = self._publish([(dead.run, queues) for dead, queues in staying], operations)
            for (dead, _), placed in zip(staying, numbers, strict=True):
                owner.histories.moved(number, [(dead.first, dead.last)], *placed)
            self._owner.proposal.committed.append(partial(self._moved, number, removed, begun))
        return bool(operations)

    def _some(self, number: int, router: DeadLetterRouter) -> list[DeadRun]:
        """Take as many waiting dead letters of a queue as one entry should have."""
        waiting, found = self._dead_messages.waiting[number], list[DeadRun]()
        messages = octets = 0
        while waiting and messages < MESSAGES_AT_ONCE and octets < OCTETS_AT_ONCE:
            for part in waiting.take(STEP):
                for dead in self._dead_runs(number, *part, router):
                    found.append(dead)
                    messages += dead.run.count
                    octets += len(dead.run.raw)
        if not waiting:
            del self._dead_messages.waiting[number]
        return found

    def _begin(self, number: int, some: list[DeadRun]) -> list[tuple[int, Transfer]]:
        """The transfers of dead letters to other partitions, one for each set of queues there."""
        going: dict[tuple[int, tuple[int, ...]], list[Range]] = {}
        for dead in some:
            for partition, queues in by_partition(dead).items():
                if partition != self._owner.partition:
                    going.setdefault((partition, queues), []).append((dead.first, dead.last))
        begun = []
        for (partition, queues), ranges in going.items():
            begun.append((partition, Transfer(number, self.next_number(partition), queues, tuple(ranges))))
            self._toward.setdefault(number, set()).add(partition)
        return begun

    def next_number(self, partition: int) -> int:
        """The number of a new transfer to a partition, which is about to be proposed."""
        last = self._owner.machine.transfers.last_number(partition)
        self._numbers[partition] = max(self._numbers.get(partition, 0), last) + 1
        return self._numbers[partition]

    def _moved(self, number: int, removed: RangeSet, begun: list[tuple[int, Transfer]]) -> None:
        """The entry is committed: dead letters in the partition have moved, and transfers may be sent."""
        self._moving = False
        self._left(number, removed.ranges())
        for partition, transfer in begun:
            self.link(partition).send(transfer)
        self.move()

    def _forget(self, number: int) -> None:
        """Remove the dead messages of a queue that turns out to have no dead-letter exchange."""
        deaths = self._owner.machine.queues[number].annotations.get(Aspect.DEATH)
        for part in self._dead_messages.waiting.pop(number).ranges():
            for first, last, value in deaths.spans(*part) if deaths is not None else ():
                self._owner.operation(encode_remove(number, decode_death(value)[0], [(first, last)]))

    # -- other partitions -----------------------------------------------------------------------

    def link(self, partition: int) -> TransferLink:
        """The link to another partition."""
        link = self._links.get(partition)
        if link is None:
            owner = self._owner
            link = self._links[partition] = self._transit.link(
                owner.partition, partition, owner.term, self._contents, partial(self._arrived, partition)
            )
        return link

    def _contents(self, transfer: Transfer) -> bytes | None:
        """The encoded publishes of a transfer; None while this node does not know the queue.

        Messages that were settled after all, or were deleted with their queue, are left out.
        """
        if transfer.copied_from is not None:
            return self.feeds.contents(transfer, transfer.copied_from)
        state = self._owner.machine.queues.get(transfer.queue)
        if state is None:
            return b""
        if is_loan_of(state, transfer):
            return loan_contents(self._owner, transfer)
        if transfer.stays:
            return barrier_contents(self._owner, transfer)
        router = self._router(transfer.queue)
        if router is None:
            return None
        parts = [
            part
            for one in transfer.ranges
            for dead in self._dead_runs(transfer.queue, *one, router)
            for part in encode_publish(dead.run, transfer.targets, dead_letters=True)
        ]
        return b"".join(parts)

    def _arrived(self, partition: int, number: int) -> None:
        # An owner of this process may still acknowledge to the link of a former term.
        if self._owner.active:
            self._end(partition, number)
            self.move()

    def _end(self, partition: int, number: int) -> None:
        """All transfers to a partition up to this number have arrived, or the partition is gone."""
        ended = [one for one in self._owner.machine.transfers.to(partition) if one.number <= number]
        self._owner.operation(encode_transferred(partition, number))
        self._owner.proposal.committed.append(partial(self._ended, partition, ended))

    def _ended(self, partition: int, transfers: list[Transfer]) -> None:
        for transfer in transfers:
            if transfer.copied_from is not None:
                self.feeds.arrived(partition, transfer, transfer.copied_from)
                continue
            if not transfer.stays:
                self._left(transfer.queue, transfer.ranges)
            if self._owner.described(transfer.queue).shared:
                # Other owners may wait for the end of this loan.
                self._owner.serve_again(transfer.queue)

    def _left(self, number: int, ranges: Iterable[Range]) -> None:
        """Dead messages have left the queue, except for those that another transfer still carries."""
        leaving, state = self._dead_messages.leaving.get(number), self._owner.machine.queues.get(number)
        if leaving is None or state is None:
            return
        for part in ranges:
            leaving.remove(*part)
            leaving.update(state.alive.intersection(*part))
        if not leaving:
            del self._dead_messages.leaving[number]


def by_partition(dead: DeadRun) -> dict[int, tuple[int, ...]]:
    """The target queues of dead letters, by partition."""
    found: dict[int, tuple[int, ...]] = {}
    for target in dead.targets:
        found[target.partition] = (*found.get(target.partition, ()), target.queue)
    return found
