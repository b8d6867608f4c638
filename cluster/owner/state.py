"""The state that the parts of a partition's owner share: queues, the next entry, front ends. Pure.

The parts of the owner use this module, and it uses none of them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from cluster.owner.alarms import Alarms
from cluster.owner.barriers_under_way import BarriersUnderWay
from cluster.owner.contents import Contents, EntrySource
from cluster.owner.context import OwnedQueues, OwnerContext, RecoveryPoints
from cluster.owner.dead_messages import DeadMessages, SoftDeadMessages
from cluster.owner.histories import HistoryNotes
from cluster.owner.linearizable_reads import LinearizableReads
from cluster.owner.observer import PartitionObserver
from cluster.owner.pages import PageBudget
from cluster.owner.paging import Paging
from cluster.owner.past_entries import PastEntries
from cluster.owner.proposal import Cut, FrontEnds, Proposal, TakenBatches
from cluster.owner.row_changes import FedStream
from cluster.owner.transfers import FIRST_TRANSIT_ID
from cluster.owner.unused_queues import UnusedQueues
from cluster.peers.latencies import Arrivals
from cluster.peers.link_messages import Delivery, Ranges
from node.message.reason import Reason
from node.message.run import Run
from node.queue.decision_format import encode_annotate, encode_refuse
from node.queue.dispatch import QueueOwner
from node.queue.feature import Description
from node.queue.features.registry import PLAIN_RULES, rules_of
from node.queue.hooks import Rules
from node.queue.operations import Aspect
from node.queue.partition import PartitionMachine
from node.queue.settings import PLAIN, QueueSettings
from node.queue.subscriptions import MaxLag
from node.queue.weights import Weights
from node.ranges.range_map import Span

ReaderKey = tuple[int, bytes]
"""A stream, and the name of a reader."""

LagFloor = tuple[MaxLag, float, int]
"""A max lag, until when the owner remembers where it leads, and the message up to which it leads."""


class Copying(NamedTuple):
    """Copies of a stream's messages, from number `first` on, are on their way to a queue elsewhere."""

    queue: int
    first: int


OnTheWay = dict[int, dict[tuple[int, int], Copying]]
"""The copies that have not arrived, by stream, and by target partition and number of the transfer."""


class OwnerState:
    """The state of one partition's owner; `active` while this node owns the partition, in the term `term`.

    `awaiting_marks` has the queues with a consumer that waits for a higher mark. `watched` has the queues
    whose settings decide about every incoming message. `upcoming` counts, for queues with limits, the
    messages that are taken and not applied yet. `marked` has the queues that may have messages to hand out.
    `stale` has the queues that wait for a catalog which shows their present limits, and `filled` the queues
    over streams that this owner has created and filled with their streams' past, `revising` those whose other
    recovery point is logged and not applied yet. `borrowed` counts, by queue,
    the messages of loans that are taken and not applied yet. `new_readers` has, by stream, the places of
    readers whose entries are not applied yet, `passing_readers` has those that the next removals pass, and
    `lag_floors` has up to where their max lags lead (`cluster.owner.readers`). `copying` has the
    copies on their way to other partitions (`cluster.owner.feeding`), and `fed_streams` those that views
    feed (`cluster.owner.fed_streams`).
    """

    def __init__(
        self,
        partition: int,
        context: OwnerContext,
        source: EntrySource,
        *,
        durable: bool,
        observers: tuple[PartitionObserver, ...] = (),
    ) -> None:
        """`observers` are told of what the replica applies."""
        self.partition, self.durable, self.observers = partition, durable, observers
        self.machine = PartitionMachine(observed=bool(observers))
        self.queues, self.fed_streams = dict[int, QueueOwner](), dict[int, FedStream]()
        self.term = self.published = self.delivered = self.last_proposed = 0
        self.next_sequence, self.now = 1, 0.0
        self.handing_over, self.latencies = partial(context.handing_over, partition), context.latencies
        self.arrivals = Arrivals(context.latencies, self.next_sequence)
        self.proposal = Proposal()
        self.cut: Cut | None = None
        self.awaiting_marks, self.watched, self.stale, self.filled = (set[int]() for _ in range(4))
        self.upcoming, self.filling, self.revising = dict[int, Weights](), dict[int, bool](), set[int]()
        self.borrowed, self.new_readers, self.copying = Counter[int](), dict[int, list[int]](), OnTheWay()
        self.passing_readers, self.lag_floors = set[ReaderKey](), dict[ReaderKey, LagFloor]()
        self.alarms, self.unused_queues = Alarms(), UnusedQueues(context.auto_delete_after_s)
        self.tells_failures, self.catalog_fresh = context.queues.tells_failures, context.catalog_fresh
        self.queues_over, self.topic_of = context.queues.over, context.queues.topic_of
        self.keeps_remarks, self.knows_links = context.keeps_remarks, context.knows_links
        self.knows_targets, self.logs_links = context.knows_targets, context.logs_links
        self.knows_loans, self.overtaken_readers = context.knows_loans, context.overtaken_readers
        self.histories, self.entries = HistoryNotes(self.machine, context), Contents(self.machine, source)
        self.past_entries, self.pages = PastEntries(self.machine, source), PageBudget()
        self.marked, self.front_ends, self.barriers = dict[int, None](), FrontEnds(), BarriersUnderWay()
        self.active, self.dead_messages, self.paging = False, DeadMessages(), Paging(self.machine, context)
        self.linearizable_reads = LinearizableReads(partition, context.confirm_leading, self.front_ends)
        self.settings, self._rules = dict[int, QueueSettings](), dict[int, Rules]()
        self.waiters: deque[tuple[int, Callable[[], None]]] = deque()
        """Callbacks with the index of the entry whose application they wait for, in log order."""
        self._returning: Counter[int] = Counter()
        """How many batches that return messages to a queue are not applied yet, by queue."""
        self._context = context

    def clear(self) -> None:
        """Drop everything but the machine: this replica does not lead any more."""
        self.active = False
        self.queues.clear()
        self.settings.clear()
        self._rules.clear()
        self.watched.clear()
        self.stale.clear()
        self.passing_readers.clear()
        for by_queue in (self.borrowed, self.new_readers, self.lag_floors, self.copying, self.fed_streams):
            by_queue.clear()
        self.alarms.clear()
        self.upcoming.clear()
        self.unused_queues.clear()
        self.proposal, self.cut = Proposal(), None
        self.awaiting_marks.clear()
        self.filled.clear()
        self.revising.clear()
        self.filling.clear()
        self.front_ends.clear()
        self.linearizable_reads.clear()
        self._returning.clear()
        self.dead_messages.clear()
        self.barriers.clear()
        self.histories.clear()
        self.waiters.clear()
        self.marked.clear()
        self.paging.clear()

    # -- queues ---------------------------------------------------------------------------------

    @property
    def placed(self) -> OwnedQueues:
        """The queues of partitions."""
        return self._context.queues

    @property
    def recovery_points(self) -> RecoveryPoints:
        """Takes the changes of recovery points."""
        return self._context.queues.recovery_points

    def settings_of(self, queue: int) -> QueueSettings:
        """The settings of a queue; PLAIN where this node's catalog does not know it."""
        return self.settings.get(queue, PLAIN)

    def known_settings(self, queue: int) -> QueueSettings | None:
        """The settings of a queue; None where this node's catalog does not know it."""
        return self.settings.get(queue)

    def set_settings(self, queue: int, settings: QueueSettings) -> None:
        """Set the settings by which the owner decides about the queue's next messages."""
        self.settings[queue] = settings = settings.shared()
        self._rules[queue] = rules_of(settings)
        (self.watched.discard if settings is PLAIN else self.watched.add)(queue)
        if self.described(queue).history:
            self.histories.wanted.add(queue)

    def rules_of(self, queue: int) -> Rules:
        """The rules of the queue's settings; as `settings_of`."""
        return self._rules.get(queue, PLAIN_RULES)

    def described(self, queue: int) -> Description:
        """The queue as its settings ask for it; as `settings_of`."""
        return self._rules.get(queue, PLAIN_RULES).described

    def forget_queue(self, queue: int) -> None:
        """Forget the settings of a queue that is about to be dropped."""
        self.settings.pop(queue, None)
        self._rules.pop(queue, None)
        self.watched.discard(queue)
        self.borrowed.pop(queue, None)
        for key in [key for key in self.lag_floors if key[0] == queue]:
            del self.lag_floors[key]
        self.histories.wanted.discard(queue)
        self.unused_queues.forget(queue)
        self.upcoming.pop(queue, None)
        self.fed_streams.pop(queue, None)

    def used(self, queue: int, seconds: float = 0.0) -> None:
        """A client uses the queue, or may use it for so many `seconds` from now on (argument x-expires)."""
        self.unused_queues.used(queue, self.now + seconds)

    def mark(self, queue: int) -> None:
        """The queue may have messages to hand out."""
        self.marked[queue] = None

    def serve_again(self, queue: int) -> None:
        """Serve the queue again: one turn was not enough, or something has changed."""
        self.marked[queue] = None
        self.wake()

    def await_mark(self, queue: int) -> None:
        """A consumer of the queue waits for a higher mark."""
        self.awaiting_marks.add(queue)
        self.wake()

    def arrived(self, queue: int, first: int, last: int) -> None:
        """Messages that the queue has taken are in it, or will not come."""
        upcoming = self.upcoming.get(queue)
        if upcoming is not None:
            upcoming.remove(first, last)
            if not upcoming:
                del self.upcoming[queue]

    def contents(self, first: int, last: int) -> list[tuple[int, Run]]:
        """The contents of live messages in the log, as runs with their first numbers.

        Raises DamagedEntryError.
        """
        return self.entries.runs(first, last)

    def forget_contents(self) -> None:
        """Forget what was read from the log, which was replaced."""
        self.entries.forget()
        self.past_entries.forget()

    # -- the next entry -------------------------------------------------------------------------

    def annotate(self, notes: dict[int, dict[Aspect, list[Span]]]) -> None:
        """Put annotations of the next entry's messages into the entry, by queue and aspect."""
        for queue, of_queue in notes.items():
            for aspect, spans in of_queue.items():
                self.proposal.annotate(queue, aspect, spans)

    def annotate_behind(self, queue: int, aspect: Aspect, spans: Iterable[Span]) -> None:
        """Put values of a queue's messages into the next entry, behind its batches. Messages that are in no
        log are left out.
        """
        alive = self.queues[queue].delivery.state.alive
        durable = [(*part, value) for *one, value in spans for part in alive.intersection(*one)]
        if durable:
            self.proposal.add_decision(encode_annotate(queue, aspect, sorted(durable)))

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._context.wall_ms()

    def wake(self) -> None:
        """Have the owner propose and serve in this turn."""
        self._context.owner_dirty(self.partition)

    def operation(self, data: bytes) -> None:
        """Put an operation of the owner's own into the next entry."""
        self.proposal.add_operation(data)
        self.wake()

    def decision(self, data: bytes) -> None:
        """Put an operation of the owner's own into the next entry, behind the batches taken up to now."""
        self.proposal.add_decision(data)
        self.wake()

    def after_proposed(self, callback: Callable[[], None]) -> None:
        """Call back once everything that the owner has taken up to now is applied; at once if it is. While an
        entry is being applied, those that wait for it come first.
        """
        if self.proposal:
            self.proposal.committed.append(callback)
        elif self.waiters or self.last_proposed > self.machine.applied_index:
            self.waiters.append((self.last_proposed, callback))
        else:
            callback()

    def dead_letter_soft(self, number: int, runs: Iterable[tuple[int, Run]], reason: Reason) -> None:
        """Soft messages of a queue have died: publish their dead letters in this turn, at most once."""
        now = self.wall_ms()
        soft = [SoftDeadMessages(number, first, run, reason, now) for first, run in runs]
        if soft:
            self.dead_messages.soft += soft
            self.wake()

    # -- front ends -----------------------------------------------------------------------------

    def room(self, front_end: int) -> int | None:
        """The octets of deliveries that may be sent to a front end now; None: no limit."""
        state = self.front_ends.current(front_end)
        return None if state is None else state.port.room()

    def send(self, outgoing: dict[int, list[Delivery]]) -> None:
        """Send deliveries to front ends; those to a lost front end are dropped."""
        for front_end, deliveries in outgoing.items():
            state = self.front_ends.current(front_end)
            if state is not None:
                self.delivered += sum(delivery.run.count for delivery in deliveries)
                state.port.delivered(state.epoch, deliveries)

    def begin_history(self, queue: int) -> None:
        """Have the partition keep whole entries for a queue that asks for a history."""
        begun = self.histories.begin(queue)
        if begun is not None:
            self.operation(begun)

    def returned(self, front_end: int, queue: int, first: int, last: int) -> None:
        """The return of messages by a front end is applied: they are ready. The front end may have told them
        as its leases in a greeting before.
        """
        state = self.front_ends.current(front_end)
        if state is not None and queue in state.held:
            state.held[queue].remove(first, last)
        self.queues[queue].lifecycle.release(front_end, first, last)
        self.mark(queue)

    def resuming(self, front_end: int, queue: int) -> bool:
        """Whether the owner has yet to take over leases of the queue that the front end has told."""
        state = self.front_ends.current(front_end)
        return state is not None and bool(state.held.get(queue))

    def await_return(self, queue: int) -> None:
        """The next entry has a batch that returns messages to the queue."""
        self._returning[queue] += 1
        self.after_proposed(partial(self._return_applied, queue))

    def _return_applied(self, queue: int) -> None:
        self._returning[queue] -= 1
        if not self._returning[queue]:
            del self._returning[queue]

    def returning(self, queue: int) -> bool:
        """Whether the return of some messages to the queue is not applied yet."""
        return queue in self._returning

    def acknowledge(self, front_end: int, number: int) -> None:
        """Tell the front end that all its operation batches up to this number are committed. The front end of
        a node hears it later while a barrier is not in each part of its queue.
        """
        if self.barriers.unplaced and front_end < FIRST_TRANSIT_ID:
            self.barriers.untold[front_end] = max(number, self.barriers.untold.get(front_end, 0))
            return
        state = self.front_ends.current(front_end)
        if state is None:
            return
        refused = self.machine.refusals.between(front_end, state.told, number)
        refused += state.taken.refused.between(front_end, state.told, number)
        state.told = max(state.told, number)
        if refused:
            state.port.acknowledged(state.epoch, number, refused)
        else:
            state.port.acknowledged(state.epoch, number)

    def refuse(self, front_end: int, number: int, messages: Ranges, *, logged: bool) -> None:
        """Queues refuse these messages of a batch, counted from 0. The front end learns it with the batch's
        acknowledgement. `logged`: the batch goes into the log, and so does the refusal.
        """
        taken = self.front_ends.taken.get(front_end)
        if logged:
            self.proposal.add_decision(encode_refuse(front_end, number, messages))
        elif taken is not None:
            taken.refused.add(front_end, number, messages)
            taken.last_refused = number

    def log_refusals(self, front_end: int, taken: TakenBatches) -> None:
        """A batch of the front end goes into the log: tell there which messages of those before it are
        refused. A later owner takes the batches before it for committed, also those that are not in the log.
        """
        upto = taken.last_refused
        for number, messages in taken.refused.between(front_end, taken.told_log, upto):
            self.proposal.add_decision(encode_refuse(front_end, number, messages))
        taken.told_log = upto
        self.after_proposed(partial(taken.refused.drop, front_end, upto))
