"""What the parts of a partition's owner share: its queues, its next entry, its front ends. Pure.

It stands below all parts of the owner and knows none of them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial

from cluster.owner.alarms import Alarms
from cluster.owner.contents import Contents, EntrySource
from cluster.owner.context import OwnerContext
from cluster.owner.dead_messages import DeadMessages, SoftDeadMessages
from cluster.owner.linearizable_reads import LinearizableReads
from cluster.owner.proposal import FrontEnds, Proposal
from cluster.owner.unused_queues import UnusedQueues
from cluster.peers.latencies import Arrivals
from cluster.peers.ports import Delivery, Ranges
from node.message.reason import Reason
from node.message.run import Run
from node.queue.dispatch import QueueOwner
from node.queue.feature import Description
from node.queue.features.registry import PLAIN_RULES, rules_of
from node.queue.hooks import Rules
from node.queue.operation_format import encode_refuse
from node.queue.operations import Aspect
from node.queue.partition import PartitionMachine
from node.queue.settings import PLAIN, QueueSettings
from node.queue.weights import Weights
from node.ranges.range_map import Span


class OwnerState:
    """Of one partition; `active` while this node owns it, in the `term` that it was elected in.

    `awaiting_marks`: queues with a consumer that waits for a higher mark. `watched`: queues for which
    something is decided about every message that comes in. `upcoming`: what queues that may refuse messages
    have taken and not got yet. `marked`: queues that may have something to hand out.
    """

    def __init__(self, partition: int, context: OwnerContext, source: EntrySource, *, durable: bool) -> None:
        self.partition, self.durable = partition, durable
        self.machine = PartitionMachine()
        self.queues: dict[int, QueueOwner] = {}
        self.active = False
        self.term = self.published = self.delivered = 0
        self.next_sequence = 1
        self.now = 0.0
        self.latencies = context.latencies
        self.arrivals = Arrivals(context.latencies, self.next_sequence)
        self.proposal = Proposal()
        self.awaiting_marks: set[int] = set()
        self.watched: set[int] = set()
        self.upcoming: dict[int, Weights] = {}
        self.alarms = Alarms()
        self.unused_queues = UnusedQueues(context.auto_delete_after_s)
        self.tells_failures = context.tells_failures
        self.entries = Contents(self.machine, source)
        self.marked: dict[int, None] = {}
        self.front_ends = FrontEnds()
        self.dead_messages = DeadMessages(self.machine)
        self.linearizable_reads = LinearizableReads(partition, context.confirm_leading, self.front_ends)
        self.settings: dict[int, QueueSettings] = {}
        self._rules: dict[int, Rules] = {}
        self.waiters: deque[tuple[int, Callable[[], None]]] = deque()
        """What waits for the entry at an index to be applied, in log order."""
        self.last_proposed = 0
        self._returning: Counter[int] = Counter()
        """How many batches with messages for a queue to take back are not applied yet."""
        self._context = context

    def clear(self) -> None:
        """This replica leads no more: all soft state is void."""
        self.active = False
        self.queues.clear()
        self.settings.clear()
        self._rules.clear()
        self.watched.clear()
        self.alarms.clear()
        self.upcoming.clear()
        self.unused_queues.clear()
        self.proposal = Proposal()
        self.awaiting_marks.clear()
        self.front_ends.clear()
        self.linearizable_reads.clear()
        self._returning.clear()
        self.dead_messages.clear()
        self.waiters.clear()
        self.marked.clear()

    # -- queues ---------------------------------------------------------------------------------

    def settings_of(self, queue: int) -> QueueSettings:
        """PLAIN for a queue that the catalog does not know any more."""
        return self.settings.get(queue, PLAIN)

    def known_settings(self, queue: int) -> QueueSettings | None:
        """None for a queue that this node's catalog does not know."""
        return self.settings.get(queue)

    def set_settings(self, queue: int, settings: QueueSettings) -> None:
        """What the next messages of the queue are decided by."""
        self.settings[queue] = settings = settings.shared()
        self._rules[queue] = rules_of(settings)
        (self.watched.discard if settings is PLAIN else self.watched.add)(queue)

    def rules_of(self, queue: int) -> Rules:
        """The rules of the queue's settings; as `settings_of`."""
        return self._rules.get(queue, PLAIN_RULES)

    def described(self, queue: int) -> Description:
        """The queue as its settings ask for it; as `settings_of`."""
        return self._rules.get(queue, PLAIN_RULES).described

    def forget_queue(self, queue: int) -> None:
        """The queue is about to go: its settings are not known any more."""
        self.settings.pop(queue, None)
        self._rules.pop(queue, None)
        self.watched.discard(queue)
        self.unused_queues.forget(queue)
        self.upcoming.pop(queue, None)

    def used(self, queue: int, seconds: float = 0.0) -> None:
        """Somebody uses the queue, or has used it, or may use it for so long (queue argument x-expires)."""
        self.unused_queues.used(queue, self.now + seconds)

    def mark(self, queue: int) -> None:
        """Something changed that may let the queue hand out messages."""
        self.marked[queue] = None

    def serve_again(self, queue: int) -> None:
        """There was more to do for the queue than is good for one turn."""
        self.marked[queue] = None
        self.wake()

    def await_mark(self, queue: int) -> None:
        """A consumer of the queue waits for a higher mark."""
        self.awaiting_marks.add(queue)
        self.wake()

    def arrived(self, queue: int, first: int, last: int) -> None:
        """Messages that the queue has taken are in it."""
        upcoming = self.upcoming.get(queue)
        if upcoming is not None:
            upcoming.remove(first, last)
            if not upcoming:
                del self.upcoming[queue]

    def contents(self, first: int, last: int) -> list[tuple[int, Run]]:
        """Messages that are kept in the log, as runs with their first number."""
        return self.entries.runs(first, last)

    # -- the next entry -------------------------------------------------------------------------

    def annotate(self, notes: dict[int, dict[Aspect, list[Span]]]) -> None:
        """Put decisions about messages of the next entry into it."""
        for queue, of_queue in notes.items():
            for aspect, spans in of_queue.items():
                self.proposal.annotate(queue, aspect, spans)

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._context.wall_ms()

    def wake(self) -> None:
        """There is something for the next entry."""
        self._context.owner_dirty(self.partition)

    def operation(self, data: bytes) -> None:
        """Put an operation of the owner's own into the next entry."""
        self.proposal.add_operation(data)
        self.wake()

    def after_proposed(self, callback: Callable[[], None]) -> None:
        """Call back once everything that the owner has taken up to now is applied."""
        if self.proposal:
            self.proposal.committed.append(callback)
        elif self.last_proposed > self.machine.applied_index:
            self.waiters.append((self.last_proposed, callback))
        else:
            callback()

    def dead_letter_soft(self, number: int, runs: Iterable[tuple[int, Run]], reason: Reason) -> None:
        """Messages that no log knows are dead letters from this turn on: at most once, as all such."""
        now = self.wall_ms()
        soft = [SoftDeadMessages(number, first, run, reason, now) for first, run in runs]
        if soft:
            self.dead_messages.soft += soft
            self.wake()

    # -- front ends -----------------------------------------------------------------------------

    def room(self, front_end: int) -> int | None:
        """Octets of deliveries that there is room for on the way to a front end; None: no bound."""
        return self._context.front_ends.room(front_end)

    def send(self, outgoing: dict[int, list[Delivery]]) -> None:
        """Give front ends what is for their consumers; what is for one that is gone waits for its return."""
        for front_end, deliveries in outgoing.items():
            state = self.front_ends.current(front_end)
            if state is not None:
                self.delivered += sum(delivery.run.count for delivery in deliveries)
                state.port.delivered(state.epoch, deliveries)

    def returned(self, front_end: int, queue: int, first: int, last: int) -> None:
        """The front end has given messages back, maybe after it has told of them as its leases."""
        state = self.front_ends.current(front_end)
        if state is not None and queue in state.held:
            state.held[queue].remove(first, last)
        self.queues[queue].lifecycle.release(front_end, first, last)
        self.mark(queue)

    def resuming(self, front_end: int, queue: int) -> bool:
        """Whether the front end has told of leases of the queue that are not taken over yet."""
        state = self.front_ends.current(front_end)
        return state is not None and bool(state.held.get(queue))

    def await_return(self, queue: int) -> None:
        """A batch that returns messages of the queue was taken into the next entry."""
        self._returning[queue] += 1
        self.after_proposed(partial(self._return_applied, queue))

    def _return_applied(self, queue: int) -> None:
        self._returning[queue] -= 1
        if not self._returning[queue]:
            del self._returning[queue]

    def returning(self, queue: int) -> bool:
        """Whether messages that were given back to the queue are not in it yet."""
        return queue in self._returning

    def acknowledge(self, front_end: int, number: int) -> None:
        """All operation batches of the front end up to this number are committed."""
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
        """Queues do not take these messages of a batch, counted from 0; the front end hears it with the
        batch's commit.
        """
        taken = self.front_ends.taken.get(front_end)
        if logged:
            self.proposal.add_decision(encode_refuse(front_end, number, messages))
        elif taken is not None:
            taken.refused.add(front_end, number, messages)
