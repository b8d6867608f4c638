"""A partition's replica on this node, and its owner while this node leads the partition's group.

The owner takes operation batches from front ends, numbers their messages, proposes one entry a turn, and
after the commit hands messages to consumers. Pure: its decisions leave by `FrontEndPort` and `OwnerContext`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from cluster.owner.alarms import Alarms
from cluster.owner.arrivals import Arrivals
from cluster.owner.configuring import take_over
from cluster.owner.contents import Contents, EntrySource
from cluster.owner.context import Disused, OwnerContext
from cluster.owner.dead_letters import DeadLetters
from cluster.owner.decisions import Annotations
from cluster.owner.disuse import Disuse
from cluster.owner.intake import publish_own
from cluster.owner.lost_front_ends import LostFrontEnds
from cluster.owner.proposal import (
    BURY_INTERVAL_S,
    HOLD_S,
    PROPOSE_AT_BYTES,
    SEQUENCES_PER_TERM_BITS,
    Proposal,
)
from cluster.owner.serving import Serving, serve
from cluster.owner.sessions import FrontEndSessions
from cluster.owner.two_phase_commit import TwoPhaseCommit
from cluster.peers.ports import NOT_FOUND, Delivery
from node.message.run import Run
from node.queue.applied import Applied
from node.queue.counters import Tally
from node.queue.dispatch import QueueOwner
from node.queue.entry import encode_entry
from node.queue.features.expires import EXPIRES
from node.queue.operation_format import encode_create_queue, encode_drop_queue, encode_mark
from node.queue.operations import OWNER
from node.queue.partition import PartitionMachine
from node.queue.settings import PLAIN, QueueSettings
from node.queue.weights import Weights


class PartitionOwner:
    """See the module's docstring; front ends speak with its `sessions`."""

    def __init__(self, partition: int, context: OwnerContext, source: EntrySource, *, durable: bool) -> None:
        self.partition, self.durable = partition, durable
        self.machine = PartitionMachine()
        self.queues: dict[int, QueueOwner] = {}
        self.active = self._reconciled = False
        self.past = Tally()
        """The counts of queues that this owner does not have any more."""
        self.published = self.delivered = 0
        # Octets of entries applied since the last `serve`.
        self.unserved_octets = 0
        self.next_sequence = 1
        self.arrivals = Arrivals(context.latencies, self.next_sequence)
        self.proposal = Proposal()
        self.awaiting_marks: set[int] = set()
        self.watched: set[int] = set()
        """Queues for which something is decided about every message that comes in."""
        self.upcoming: dict[int, Weights] = {}
        """What queues that may refuse messages have taken and not got yet."""
        self.alarms = Alarms()
        self.disuse = Disuse(context.auto_delete_after_s)
        self.now = self._bury_at = 0.0
        self._context = context
        self.tells_failures = context.tells_failures
        self._contents = Contents(self.machine, source)
        self._serving = Serving(self._contents, context.tells_failures)
        self.sessions = FrontEndSessions(self, context, self._serving)
        self.lost_front_ends = LostFrontEnds(self, context)
        self.dead_letters = DeadLetters(self, context.transit)
        self.two_phase_commit = TwoPhaseCommit(self, context)
        self._activation: int | None = None
        self._hold_until: float | None = None
        self._settings: dict[int, QueueSettings] = {}
        # What waits for the entry at an index to be applied, in log order.
        self._waiters: deque[tuple[int, Callable[[], None]]] = deque()
        self._last_proposed = self.term = 0

    # -- the replica ----------------------------------------------------------------------------

    def apply(self, index: int, data: bytes, now: float) -> None:
        """One committed entry."""
        self.now = now
        self.unserved_octets += len(data)
        applied = self.machine.apply(index, data)
        if self._activation is not None and index >= self._activation:
            self._take_over(now)
        if self.active:
            self._follow_up(index, applied)

    def restored(self) -> None:
        """The machine's state was replaced by a snapshot's."""
        self._contents.forget()

    def leading(self, term: int) -> None:
        """This replica was elected: it becomes owner once its first own entry is applied, and its state holds
        everything that former owners committed.
        """
        self.following()
        self.term = term
        self._activation = self._context.propose(self.partition, encode_entry(()))

    def following(self) -> None:
        """This replica leads no more: all soft state is void."""
        self.active, self._activation = False, None
        for owner in self.queues.values():
            self.past.add(owner.tally)
        self.queues, self._settings = {}, {}
        self.watched.clear()
        self.alarms.clear()
        self.upcoming.clear()
        self.disuse.clear()
        self.proposal = Proposal()
        self.awaiting_marks.clear()
        self.sessions.clear()
        self.dead_letters.clear()
        self.two_phase_commit.clear()
        self._waiters.clear()
        self._serving.clear()

    def _take_over(self, now: float) -> None:
        """Become owner, unless a catalog that is behind does not know what all the queues ask for.

        Who gets which message, and what is a duplicate, could not be decided then.
        """
        settings = self._context.queues_of(self.partition)
        if settings.keys() >= self.machine.queues.keys() or self._context.catalog_fresh():
            self._activate(settings, now)

    def _activate(self, wanted: dict[int, QueueSettings], now: float) -> None:
        self._activation, self.active = None, True
        self._hold_until = now + HOLD_S
        self._last_proposed = self.machine.applied_index
        self.next_sequence = max(self.machine.next_sequence, self.term << SEQUENCES_PER_TERM_BITS)
        self.arrivals = Arrivals(self._context.latencies, self.next_sequence)
        for queue, settings in wanted.items():
            self.set_settings(queue, settings)
        for queue, state in self.machine.queues.items():
            if state.sealed:
                self._context.queue_disused(queue, Disused.SEALED)
            else:
                self._own(queue, fresh=False)
                self._serving.mark(queue)
        self.two_phase_commit.take_over()
        self.dead_letters.take_over()
        self.reconcile()
        attached = {one for state in self.machine.queues.values() for one in state.attached}
        self.sessions.expect(attached)
        self._context.owner_active(self.partition, self.term)
        self._bury(now)
        self.lost_front_ends.take_over(attached)
        self._context.owner_dirty(self)

    def _bury(self, now: float) -> None:
        """Forget front ends whose process is gone for good, whenever this node learned of it."""
        self._bury_at = now + BURY_INTERVAL_S
        for front_end in self.machine.front_ends() | self.sessions.known():
            if self._context.front_ends.dead(front_end):
                self.sessions.front_end_dead(front_end)

    def _follow_up(self, index: int, applied: Applied) -> None:
        """Act, as the owner, on what an entry did."""
        for queue in applied.created:
            if queue in self.machine.queues:
                self._own(queue, fresh=True)
        for queue, first, last in applied.appended:
            if queue in self.queues:
                self.queues[queue].append(first, last)
                self._serving.mark(queue)
                if self.upcoming:
                    self.arrived(queue, first, last)
        for front_end, queue, first, last in applied.returned:
            # What the owner itself returns is ready since it decided so, and may be on its way again.
            if front_end != OWNER:
                self.sessions.returned(front_end, queue, first, last)
        for queue in applied.dropped:
            self._dropped(queue)
        for front_end, number in applied.acknowledged.items():
            self.sessions.acknowledge(front_end, number)
        waiters = self._waiters
        while waiters and waiters[0][0] <= index:
            waiters.popleft()[1]()
        if self._serving.dirty:
            self._context.owner_dirty(self)

    def _dropped(self, queue: int) -> None:
        owner = self.queues.pop(queue, None)
        if owner is None:
            return
        self.past.add(owner.tally)
        for front_end, consumer in list(owner.consumers):
            state = self.sessions.current(front_end)
            if state is not None and state.consumers.pop(consumer, None) is not None:
                state.port.consumer_cancelled(state.epoch, consumer)
        for front_end, request in self._serving.refused(owner, queue, gone=True):
            self.sessions.answer(front_end, request, NOT_FOUND)

    # -- queues ---------------------------------------------------------------------------------

    def _own(self, queue: int, *, fresh: bool) -> None:
        settings = self.settings_of(queue)
        owner = self.queues[queue] = QueueOwner(
            self.machine.queues[queue], fresh=fresh, settings=settings, now=self.wall_ms(), term=self.term
        )
        # Consumers that a former owner had are about to come back.
        self.disuse.watch(queue, EXPIRES.of(settings), self.now if fresh else self.now + HOLD_S)
        if not fresh:
            take_over(self, queue, owner)

    def settings_of(self, queue: int) -> QueueSettings:
        """PLAIN for a queue that the catalog does not know any more."""
        return self._settings.get(queue, PLAIN)

    def known_settings(self, queue: int) -> QueueSettings | None:
        """None for a queue that this node's catalog does not know."""
        return self._settings.get(queue)

    def set_settings(self, queue: int, settings: QueueSettings) -> None:
        """What the next messages of the queue are decided by."""
        self._settings[queue] = settings = settings.shared()
        (self.watched.discard if settings is PLAIN else self.watched.add)(queue)

    def reconcile(self) -> None:
        """Create queues as the catalog says, and drop what is not in it unless it is behind."""
        if not self.active:
            return
        wanted = self._context.queues_of(self.partition)
        for queue, settings in wanted.items():
            self.create_queue(queue, settings)
        self._reconciled = self._context.catalog_fresh()
        if self._reconciled:
            for queue in sorted(self.machine.queues.keys() - wanted.keys()):
                self.drop_queue(queue)

    def create_queue(self, queue: int, settings: QueueSettings) -> None:
        if not self.active:
            return
        self.set_settings(queue, settings)
        if queue not in self.machine.queues:
            self.operation(encode_create_queue(queue, settings.semantics))

    def drop_queue(self, queue: int) -> None:
        # Also one that is not there yet: its creation may be on its way.
        if self.active:
            self._settings.pop(queue, None)
            self.watched.discard(queue)
            self.disuse.forget(queue)
            self.upcoming.pop(queue, None)
            self.operation(encode_drop_queue(queue))

    def _in_use(self, queue: int) -> bool:
        return queue in self.queues and self.queues[queue].consumers.count > 0

    def used(self, queue: int, seconds: float = 0.0) -> None:
        """Somebody uses the queue, or has used it, or may use it for so long (queue argument x-expires)."""
        self.disuse.used(queue, self.now + seconds)

    # -- the next entry -------------------------------------------------------------------------

    def mark(self, queue: int) -> None:
        """Something changed that may let the queue hand out messages."""
        self._serving.mark(queue)

    def serve_again(self, queue: int) -> None:
        """There was more to do for the queue than is good for one turn."""
        self._serving.mark(queue)
        self._context.owner_dirty(self)

    def await_mark(self, queue: int) -> None:
        """A consumer of the queue waits for a higher mark."""
        self.awaiting_marks.add(queue)
        self._context.owner_dirty(self)

    def arrived(self, queue: int, first: int, last: int) -> None:
        """Messages that the queue has taken are in it."""
        upcoming = self.upcoming.get(queue)
        if upcoming is not None:
            upcoming.remove(first, last)
            if not upcoming:
                del self.upcoming[queue]

    def contents(self, first: int, last: int) -> list[tuple[int, Run]]:
        """Messages that are kept in the log, as runs with their first number."""
        return self._contents.runs(first, last)

    def publish(self, runs: Sequence[tuple[Run, tuple[int, ...]]], operations: Sequence[bytes]) -> None:
        """Publish runs to queues of the partition, and put operations into the same entry behind them."""
        publish_own(self, runs, operations)
        self._context.owner_dirty(self)

    def annotate(self, notes: Annotations) -> None:
        """Put decisions about messages of the next entry into it."""
        for queue, of_queue in notes.items():
            for aspect, spans in of_queue.items():
                self.proposal.annotate(queue, aspect, spans)

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._context.wall_ms()

    def wake(self) -> None:
        """There is something for the next entry."""
        self._context.owner_dirty(self)

    def operation(self, data: bytes) -> None:
        """Put an operation of the owner's own into the next entry."""
        self.proposal.add_operation(data)
        self._context.owner_dirty(self)

    def after_proposed(self, callback: Callable[[], None]) -> None:
        """Call back once everything that the owner has taken up to now is applied."""
        if self.proposal:
            self.proposal.committed.append(callback)
        elif self._last_proposed > self.machine.applied_index:
            self._waiters.append((self._last_proposed, callback))
        else:
            callback()

    # -- the turn -------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Front ends that have not answered in time hold nothing any more."""
        self.now = now
        if self._activation is not None and self.machine.applied_index >= self._activation:
            self._take_over(now)
        if self.lost_front_ends.tick() and self._hold_until is not None and now >= self._hold_until:
            self._hold_until = None
            self.sessions.expect_no_more()
            for queue, owner in self.queues.items():
                owner.consumers.resume_all()
                self._serving.mark(queue)
                if owner.awaited or owner.held:
                    self.proposal.add_return(queue, owner.state, list(owner.held.ranges()), failed=False)
                    owner.release_held(redelivered=True)
            self._context.owner_dirty(self)
        for queue in self.alarms.due(self.wall_ms()):
            self._serving.mark(queue)
        self.disuse.tell(now, self._in_use, self._context.queue_disused)
        self._serving.retry_crowded()
        if self._serving.dirty:
            self._context.owner_dirty(self)
        if self.active and now >= self._bury_at:
            self._bury(now)
            self.dead_letters.retry()
            self.two_phase_commit.retry()
            if not self._reconciled:
                self.reconcile()

    def propose(self) -> bool:
        """Propose what has been collected, unless it is better to let it grow; whether nothing waits."""
        if not self.active:
            return True
        self.dead_letters.bury()
        self._add_marks()
        proposal = self.proposal
        if not proposal:
            return True
        if proposal.size < PROPOSE_AT_BYTES and not self._context.disk_idle():
            return False
        index = self._context.propose(self.partition, proposal.encode())
        if index is None:
            return False
        self.proposal = Proposal()
        self._last_proposed = max(self._last_proposed, index)
        for callback in proposal.committed:
            self._waiters.append((index, callback))
        return True

    def _add_marks(self) -> None:
        for queue in self.awaiting_marks:
            owner = self.queues.get(queue)
            mark = None if owner is None else owner.wanted_mark(self.next_sequence - 1)
            if mark is not None:
                self.proposal.add_operation(encode_mark(queue, mark))
                self.proposal.committed.append(partial(self._serving.mark, queue))
        self.awaiting_marks.clear()

    def room(self, front_end: int) -> int | None:
        """Octets of deliveries that there is room for on the way to a front end; None: no bound."""
        return self._context.front_ends.room(front_end)

    def serve(self) -> None:
        """Hand out what is ready."""
        self.unserved_octets = 0
        if self.active and self._serving.dirty and self._context.may_serve(self.partition):
            serve(self, self._serving)

    def send(self, outgoing: dict[int, list[Delivery]]) -> None:
        """Give front ends what is for their consumers; what is for one that is gone waits for its return."""
        for front_end, deliveries in outgoing.items():
            state = self.sessions.current(front_end)
            if state is not None:
                self.delivered += sum(delivery.run.count for delivery in deliveries)
                state.port.delivered(state.epoch, deliveries)
