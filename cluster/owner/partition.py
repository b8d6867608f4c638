"""A partition's replica on this node, and its owner while this node leads the partition's group.

The owner takes operation batches from front ends, numbers their messages, proposes one entry a turn, and
after the commit delivers messages to consumers. Pure: its outputs are calls of `FrontEndPort` and
`OwnerContext`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from cluster.owner.closing_parts import ClosingParts
from cluster.owner.configuring import configure, take_over
from cluster.owner.context import OwnerContext, Unused
from cluster.owner.cuts import Position, begin_cut, end_cut, lapse
from cluster.owner.dead_letters import DeadLetters
from cluster.owner.fed_streams import feed
from cluster.owner.loans import Loans
from cluster.owner.lost_entries import LostEntries
from cluster.owner.lost_front_ends import LostFrontEnds
from cluster.owner.part_requests import PartRequests
from cluster.owner.proposal import (
    HOLD_S,
    PROPOSE_AT_BYTES,
    RETRY_INTERVAL_S,
    SEQUENCES_PER_TERM_BITS,
    Proposal,
)
from cluster.owner.readers import ReaderRow, reader_rows_of
from cluster.owner.recovery_points import begin_past, is_filling, revise_all, revise_past
from cluster.owner.serving import Serving, serve
from cluster.owner.sessions import FrontEndSessions
from cluster.owner.state import OwnerState
from cluster.owner.transient_log import TransientLog
from cluster.owner.two_phase_commit import TwoPhaseCommit
from cluster.owner.upkeep import seal_unused
from cluster.peers.latencies import Arrivals
from cluster.peers.link_messages import NOT_FOUND
from node.queue.delivery_state import Tally
from node.queue.dispatch import QueueOwner
from node.queue.entry_format import encode_create_queue, encode_drop_queue, encode_entry, encode_mark
from node.queue.features.registry import REGISTRY
from node.queue.operations import OWNER, Applied
from node.queue.partition import PartitionMachine
from node.queue.settings import QueueSettings
from replication.journal import DamagedEntryError
from replication.raft import Entry, Snapshot


class PartitionOwner:
    """See the module's docstring; front ends speak with its `sessions`."""

    def __init__(self, state: OwnerState, context: OwnerContext) -> None:
        """`state` is this owner's alone."""
        self.partition, self.queues, self.paging = state.partition, state.queues, state.paging
        self._state, self._machine, self._front_ends = state, state.machine, state.front_ends
        self.past = Tally()
        """The counts of queues that have been dropped, or were owned here in earlier terms."""
        # Octets of entries applied since the last `serve`.
        self.unserved_octets = 0
        self._context, self._observers, self._retry_at = context, state.observers, 0.0
        self._feed = partial(feed, state)
        self._serving = Serving(state.entries, context.queues.tells_failures, state.marked, context.wall_ms)
        self._dead_letters = DeadLetters(state, context.transit, context.catalog_fresh)
        self._two_phase_commit = TwoPhaseCommit(state, context, self._dead_letters)
        parts, self.feeds = context.queues.parts, self._dead_letters.feeds
        self._loans = Loans(state, parts, self._dead_letters)
        self._closing = ClosingParts(state, parts, self._dead_letters, self._loans.forget_borrower)
        asked = PartRequests(self._loans, self._closing).take
        self.sessions = FrontEndSessions(state, context, self._serving, self._two_phase_commit, asked)
        self.lost_front_ends = LostFrontEnds(state, context, self.sessions.front_end_lost)
        self._activation: int | None = None
        self._hold_until: float | None = None

    @property
    def active(self) -> bool:
        """Whether this node owns the partition."""
        return self._state.active

    @property
    def term(self) -> int:
        """The term in which this replica was elected last."""
        return self._state.term

    @property
    def machine(self) -> PartitionMachine:
        """The replicated state."""
        return self._machine

    @property
    def published(self) -> int:
        """Messages taken from front ends."""
        return self._state.published

    @property
    def pending(self) -> bool:
        """Whether the owner has operations for the next entry."""
        return bool(self._state.proposal)

    # -- the replica ----------------------------------------------------------------------------

    def apply(self, index: int, data: bytes, now: float) -> None:
        """Apply one committed entry, and as the owner act on it. Entries come in log order, each once.

        Raises DamagedEntryError where the owner has to read an entry that the journal cannot read.
        """
        self._state.now = now
        self.unserved_octets += len(data)
        applied = self._machine.apply(index, data)
        if applied.created or applied.dropped:
            self.paging.applied(applied)
        for observer in self._observers:
            observer.applied(self.term, data, applied)
        if self._activation is not None and index >= self._activation:
            self._take_over(now)
        if self.active:
            self._follow_up(applied)

    def rewrite(self, index: int, data: bytes) -> bytes | None:
        """The part of an entry that is still needed, for a journal that copies the entry; None: all of it."""
        return self._machine.rewrite(index, data)

    def collect(self, log: TransientLog) -> None:
        """Drop the entries of the partition's log that hold nothing alive."""
        log.collect(self._machine.live_indexes(), self._machine.applied_index)

    def leading(self, term: int) -> None:
        """This replica was elected. It becomes the owner once the first entry of its own is applied: then its
        state has everything that former owners committed.
        """
        self.following()
        self._state.term = term
        self._activation = self._context.propose(self.partition, encode_entry(()))

    def following(self) -> None:
        """This replica does not lead any more: drop all soft state."""
        self._activation = None
        for owner in self.queues.values():
            self.past.add(owner.delivery.tally)
        self._dead_letters.clear()
        self._two_phase_commit.clear()
        self._loans.clear()
        self._closing.clear()
        self.sessions.takes.clear()
        self._serving.clear()
        self._state.clear()
        for observer in self._observers:
            observer.following()

    def _take_over(self, now: float) -> None:
        """Become the owner, unless this node's catalog is behind and lacks the declaration of some queue.

        Without its settings the owner could not tell which consumer gets a message, and what is a duplicate.
        """
        if all(map(self._context.queues.declared, self._machine.queues)):
            self._activate(self._context.queues.placed_on(self.partition), now)

    def _activate(self, wanted: dict[int, QueueSettings], now: float) -> None:
        self._activation, self._state.active = None, True
        self._hold_until = now + HOLD_S
        self._state.last_proposed = self._machine.applied_index
        self._state.next_sequence = max(self._machine.next_sequence, self.term << SEQUENCES_PER_TERM_BITS)
        self._state.arrivals = Arrivals(self._context.latencies, self._state.next_sequence)
        for queue, settings in wanted.items():
            self._state.set_settings(queue, settings)
        for queue, state in self._machine.queues.items():
            if state.sealed:
                self._context.queues.unused(queue, Unused.SEALED)
            else:
                self._own(queue, fresh=False)
                self._serving.mark(queue)
        self._two_phase_commit.take_over()
        self._dead_letters.take_over()
        self.reconcile()
        revise_all(self._state)
        attached = {one for state in self._machine.queues.values() for one in state.attached}
        self._front_ends.expected.update(attached)
        self._context.owner_active(self.partition, self.term)
        self._forget_dead_front_ends(now)
        self.lost_front_ends.take_over(attached)
        self._state.wake()

    def _forget_dead_front_ends(self, now: float) -> None:
        """Forget front ends whose process is gone for good, as far as this node's catalog tells by now."""
        self._retry_at = now + RETRY_INTERVAL_S
        for front_end in self._machine.front_ends() | self._front_ends.known():
            if self._context.front_ends.dead(front_end):
                self.sessions.front_end_dead(front_end)

    def _follow_up(self, applied: Applied) -> None:
        """Act, as the owner, on the effects of an applied entry."""
        for queue in applied.created:
            if queue in self._machine.queues:
                self._own(queue, fresh=True)
                revise_past(self._state, queue)
        for queue, first, last in applied.appended:
            if queue in self.queues:
                self.queues[queue].lifecycle.append(first, last)
                self._serving.mark(queue)
                if self._state.upcoming:
                    self._state.arrived(queue, first, last)
        for front_end, queue, first, last, _ in applied.returned:
            # A message that the owner itself returned is ready already, and may be leased again.
            # A front end that gives a message back may not know yet that the queue is sealed.
            if front_end != OWNER and queue in self.queues:
                self._state.returned(front_end, queue, first, last)
        for queue, first, last, _ in applied.dead:
            self._state.dead_messages.wait(queue, [(first, last)])
        for queue in applied.sealed:
            self._dropped(queue)
            self._context.queues.unused(queue, Unused.SEALED)
        for queue in applied.dropped:
            self._dropped(queue)
        for step in applied.transactions:
            self._two_phase_commit.applied(step)
        for front_end, number in applied.acknowledged.items():
            self._state.acknowledge(front_end, number)
        waiters = self._state.waiters
        while waiters and waiters[0][0] <= applied.index:
            waiters.popleft()[1]()
        if applied.dead or self.feeds.fed:
            self._dead_letters.applied(applied)
        if self._serving.dirty:
            self._state.wake()

    def _dropped(self, queue: int) -> None:
        owner = self.queues.pop(queue, None)
        self._closing.gone(queue)
        self._state.filling.pop(queue, None)
        if owner is None:
            return
        self._loans.forget(queue)
        self.past.add(owner.delivery.tally)
        for front_end, consumer in list(owner.delivery.consumers):
            state = self._front_ends.current(front_end)
            if state is not None and state.consumers.pop(consumer, None) is not None:
                state.port.consumer_cancelled(state.epoch, consumer)
        for front_end, request in self._serving.refused(owner, queue, gone=True):
            self._front_ends.answer(front_end, request, NOT_FOUND)
        # Callers that wait for the queue to be served are answered: it will not be any more.
        self._serving.mark(queue)

    # -- queues ---------------------------------------------------------------------------------

    def _own(self, queue: int, *, fresh: bool) -> None:
        owner = self.queues[queue] = QueueOwner(
            self._machine.queues[queue],
            REGISTRY,
            fresh=fresh,
            settings=self._state.settings_of(queue),
            now=self._state.wall_ms(),
            term=self.term,
            read=self._state.entries.first_runs,
            space=self.paging.for_owner(queue),
        )
        # Consumers of a former owner have `HOLD_S` to come back.
        self._state.unused_queues.watch(
            queue,
            self._state.described(queue).unused_ms,
            self._state.now if fresh else self._state.now + HOLD_S,
        )
        if is_filling(owner.delivery.state):
            self._state.filling[queue] = False
        if queue in self._state.filling or self._state.described(queue).view:
            self._serving.mark(queue)
        if not fresh:
            take_over(self._state, queue, owner)
            self._loans.taken_over(queue)

    def reconcile(self) -> None:
        """Create the queues that the catalog places here, and drop the others: clients have deleted these, as
        the catalog has the declarations of all queues of an active owner.
        """
        self.paging.catalog_replaced()
        if not self.active:
            return
        wanted = self._context.queues.placed_on(self.partition)
        for queue, settings in wanted.items():
            self.create_queue(queue, settings)
        for queue in sorted(self._machine.queues.keys() - wanted.keys()):
            self.drop_queue(queue)

    def create_queue(self, queue: int, settings: QueueSettings) -> None:
        """Create a queue, if this node owns the partition; the queue exists once its entry is applied."""
        self.paging.settings_known(queue, settings)
        if not self.active:
            return
        self._state.set_settings(queue, settings)
        if queue not in self._machine.queues:
            self._state.operation(encode_create_queue(queue, settings.semantics))
            begin_past(self._state, queue)

    def drop_queue(self, queue: int) -> None:
        """Drop a queue with its messages, if this node owns the partition: it may not exist yet."""
        if self.active:
            self._state.forget_queue(queue)
            self._state.operation(encode_drop_queue(queue))

    def configure(self, queue: int, settings: QueueSettings) -> None:
        """Give a queue its settings, which policies may have changed."""
        configure(self._state, queue, settings)
        revise_past(self._state, queue)

    def seal_unused(self, queue: int) -> None:
        """Have a queue deleted, unless a consumer attaches first."""
        seal_unused(self._state, queue)

    def begin_cut(self, number: int, reached: Callable[[Position], None]) -> None:
        """Hold still for a cut, if this node owns the partition: see `cluster.owner.cuts`."""
        if self.active:
            begin_cut(self._state, number, reached)

    def end_cut(self, number: int, confirmed: Callable[[], None]) -> None:
        """Go on behind a cut: see `cluster.owner.cuts`."""
        end_cut(self._state, number, confirmed)

    def when_leading(self, leads: Callable[[], None]) -> None:
        """Call `leads` once a majority has confirmed that this node owns the partition, if it does."""
        if self.active:
            self._state.linearizable_reads.when_confirmed(leads)

    @property
    def counts(self) -> bool:
        """Whether owners count the messages that retention removes from streams."""
        return self._state.overtaken_readers.known()

    def reader_rows(self) -> Iterator[tuple[int, ReaderRow]]:
        """The subscriptions of the partition's streams, by the stream's number; none where this node does not
        own the partition.
        """
        for queue in [number for number in self.queues if self._state.described(number).stream]:
            yield from ((queue, row) for row in reader_rows_of(self._state, queue))

    def _in_use(self, queue: int) -> bool:
        return queue in self.queues and self.queues[queue].delivery.consumers.count > 0

    # -- the turn -------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Advance timers: take over, give up front ends that have not greeted in time, look for queues with
        something due, and retry transfers and transactions. Called every few milliseconds.
        """
        self._state.now = now
        if self._activation is not None and self._machine.applied_index >= self._activation:
            self._take_over(now)
        self.lost_front_ends.tick()
        lapse(self._state)
        if self._hold_until is not None and now >= self._hold_until and self.lost_front_ends.allowed():
            self._hold_until = None
            self.sessions.expect_no_more()
            for queue, owner in self.queues.items():
                self._serving.mark(queue)
                if not owner.lifecycle.wait_for(self._front_ends.greeting) and owner.delivery.held:
                    self._state.proposal.add_return(
                        queue, owner.delivery.state, list(owner.delivery.held.ranges()), failed=False
                    )
                    owner.lifecycle.release_held(redelivered=True)
            self._state.wake()
        for queue in self._state.alarms.due(self._state.wall_ms()):
            self._serving.mark(queue)
        self._state.unused_queues.tell(now, self._in_use, self._context.queues.unused)
        self._serving.retry_crowded()
        if self._serving.dirty:
            self._state.wake()
        if self.active and now >= self._retry_at:
            self._serve_stale()
            self._forget_dead_front_ends(now)
            self._dead_letters.retry()
            self._two_phase_commit.retry()
            self._closing.retry()
            self.sessions.takes.end_overdue()
            for queue in self._state.histories.missing():
                self._state.begin_history(queue)

    def _serve_stale(self) -> None:
        """Serve the queues again for which the catalog was too old."""
        if self._state.stale and self._context.catalog_fresh():
            for queue in self._state.stale:
                self._serving.mark(queue)
            self._state.stale.clear()
            self._state.wake()

    def propose(self) -> bool:
        """Propose the next entry, unless the disk is busy and the entry is small, or a cut is taken. Returns
        whether nothing waits.
        """
        if not self.active:
            return True
        if self._state.dead_messages.soft or self.feeds.due:
            self._dead_letters.before_entry()
        self._add_marks()
        proposal = self._state.proposal
        if not proposal:
            return True
        busy = proposal.size < PROPOSE_AT_BYTES and not self._context.disk_idle()
        if busy or self._state.cut is not None:
            return False
        if self._machine.chronicle.kept:
            proposal.operations[:0] = self._state.histories.take()
        index = self._context.propose(self.partition, proposal.encode())
        if index is None:
            return False
        self._state.proposal = Proposal()
        self._state.last_proposed = max(self._state.last_proposed, index)
        for observer in self._observers:
            observer.proposed(index)
        self._state.waiters.extend([(index, callback) for callback in proposal.committed])
        return True

    def _add_marks(self) -> None:
        for queue in self._state.awaiting_marks:
            owner = self.queues.get(queue)
            mark = None if owner is None else owner.wanted_mark(self._state.next_sequence - 1)
            if mark is not None:
                self._state.proposal.add_operation(encode_mark(queue, mark))
                self._state.proposal.committed.append(partial(self._serving.mark, queue))
        self._state.awaiting_marks.clear()

    def serve(self, now: float) -> None:
        """Deliver ready messages to consumers, while this node has the leader lease. Raises DamagedEntryError
        as `apply`.
        """
        self.unserved_octets = 0
        if self.active and self._serving.dirty and self._context.may_serve(self.partition):
            serve(self._state, self._serving, now, self._loans.served, self._feed)


class Replica:
    """Implements `replication.host.Machine` for a queue partition."""

    def __init__(self, owner: PartitionOwner, state: OwnerState, lost_entries: LostEntries) -> None:
        """`state` is that of the owner."""
        self._owner, self._state, self._lost_entries = owner, state, lost_entries
        self.term = 0
        self.leader: str | None = None
        self._leading = False
        self._whole_from: dict[int, int] = {}
        """By the index of each snapshot that the log has, or may have next: the first entry that histories
        need whole with the state in that snapshot.
        """

    def apply(self, entries: Sequence[Entry], now: float) -> None:
        damaged: DamagedEntryError | None = None
        for entry in entries:
            try:
                self._owner.apply(entry.index, entry.data, now)
            except DamagedEntryError as error:
                # The machine has applied the entry, but the owner did not finish acting on it: drop the
                # owner.
                self._owner.following()
                damaged = damaged or error
        if damaged is not None:
            raise damaged

    def restore(self, snapshot: Snapshot) -> None:
        self._state.machine.restore(snapshot.data)
        self._state.paging.restored()
        self._state.forget_contents()
        self._whole_from.clear()
        self._note_whole(snapshot.index)
        for observer in self._state.observers:
            observer.restored(self._state.machine.queues)

    def snapshot(self) -> bytes:
        self._note_whole(self._state.machine.applied_index)
        return self._state.machine.snapshot()

    def _note_whole(self, index: int) -> None:
        chronicle = self._state.machine.chronicle
        if chronicle.kept or self._whole_from:
            self._whole_from[index] = chronicle.whole_from if chronicle.kept else sys.maxsize

    def needs_whole(self, index: int, snapshot_index: int) -> bool:
        """Whether a history needs the entry whole, by the present state, or by that in the log's snapshot: a
        replica that gets the snapshot gets the entry with it.
        """
        # Behind its last applied entry the log's snapshot may have entries of the group itself.
        passed = [one for one in self._whole_from if one <= snapshot_index]
        for former in passed[:-1]:
            del self._whole_from[former]
        of_snapshot = bool(passed) and index >= self._whole_from[passed[-1]]
        return of_snapshot or self._state.machine.chronicle.covers(index)

    def live(self) -> list[tuple[int, int]]:
        return self._state.machine.live_indexes()

    def role_changed(self, leading: bool, term: int, leader: str | None, now: float) -> None:
        if leading and (not self._leading or term != self.term):
            self._owner.leading(term)
        elif self._leading and not leading:
            self._owner.following()
        self._leading, self.term, self.leader = leading, term, leader

    def lost(self, error: DamagedEntryError) -> bytes:
        return self._lost_entries.discard(self._state.machine, error)

    def read_ready(self, context: bytes) -> None:
        self._state.linearizable_reads.confirmed(int.from_bytes(context, "big"))
