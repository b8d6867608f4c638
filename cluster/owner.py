"""A partition's replica on this node, and its owner while this node leads the partition's group.

The owner takes operation batches from front ends, numbers the messages in them, proposes one entry
a turn, and after the commit hands messages to consumers. Pure: what it decides leaves through
`cluster.ports.FrontEndPort` and `OwnerContext`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from cluster.contents import Contents, EntrySource
from cluster.intake import take_batch
from cluster.owner_context import OwnerContext
from cluster.ports import ACCESS_REFUSED, FIRST_CONSUMER, NOT_FOUND, ConsumerTerms, Delivery, Ranges
from cluster.proposal import (
    BURY_INTERVAL_S,
    HOLD_S,
    NO_EPOCH,
    PROPOSE_AT_BYTES,
    SEQUENCES_PER_TERM_BITS,
    FrontEndState,
    Proposal,
)  # fmt: skip
from cluster.serving import Serving, serve
from node.engine.dispatch import ExclusiveConsumerError, QueueOwner
from node.engine.entry import (
    OWNER,
    Semantics,
    encode_attach,
    encode_create_queue,
    encode_drop_queue,
    encode_entry,
    encode_forget,
    encode_mark,
    encode_purge,
)
from node.engine.partition import Applied, PartitionMachine


class PartitionOwner:
    """See the module's docstring; implements `cluster.ports.OwnerPort`."""

    def __init__(self, partition: int, context: OwnerContext, source: EntrySource, *, durable: bool) -> None:
        self.partition = partition
        self.durable = durable
        self.machine = PartitionMachine()
        self.queues: dict[int, QueueOwner] = {}
        self.active = False
        self.term = 0
        self.published = 0
        self.delivered = 0
        self.next_sequence = 1
        self.proposal = Proposal()
        self.awaiting_marks: set[int] = set()
        self._consumers: dict[tuple[int, int], int] = {}
        self._context = context
        self._contents = Contents(self.machine, source)
        self._serving = Serving(self._contents)
        self._front_ends: dict[int, FrontEndState] = {}
        self._activation: int | None = None
        self._hold_until: float | None = None
        self._bury_at = 0.0
        self._reconciled = False
        # What waits for the entry at an index to be applied, in log order.
        self._waiters: deque[tuple[int, Callable[[], None]]] = deque()
        self._last_proposed = 0

    # -- the replica ----------------------------------------------------------------------------

    def apply(self, index: int, data: bytes, now: float) -> None:
        """One committed entry."""
        applied = self.machine.apply(index, data)
        if self._activation is not None and index >= self._activation:
            self._activate(now)
        if self.active:
            self._follow_up(index, applied)

    def restored(self) -> None:
        """The machine's state was replaced by a snapshot's."""
        self._contents.forget()

    def leading(self, term: int) -> None:
        """This replica was elected: it becomes owner once its first own entry is applied.

        Only then does its state hold everything that former owners committed.
        """
        self.following()
        self.term = term
        self._activation = self._context.propose(self.partition, encode_entry(()))

    def following(self) -> None:
        """This replica leads no more: all soft state is void."""
        self.active = False
        self._activation = None
        self.queues = {}
        self.proposal = Proposal()
        self.awaiting_marks.clear()
        self._consumers.clear()
        self._front_ends = {}
        self._waiters.clear()
        self._serving.clear()

    def _activate(self, now: float) -> None:
        self._activation = None
        self.active = True
        self._hold_until = now + HOLD_S
        self._last_proposed = self.machine.applied_index
        self.next_sequence = max(self.machine.next_sequence, self.term << SEQUENCES_PER_TERM_BITS)
        for queue, state in self.machine.queues.items():
            self.queues[queue] = QueueOwner(state)
            self._serving.mark(queue)
        self.reconcile()
        self._context.owner_active(self.partition, self.term)
        self._bury(now)
        for front_end in {one for state in self.machine.queues.values() for one in state.attached}:
            if not self._context.front_end_alive(front_end):
                self.front_end_lost(front_end)
        self._context.owner_dirty(self)

    def _bury(self, now: float) -> None:
        """Forget front ends whose process is gone for good, whenever this node learned of it."""
        self._bury_at = now + BURY_INTERVAL_S
        for front_end in self.machine.front_ends() | self._front_ends.keys():
            if self._context.front_end_dead(front_end):
                self.front_end_dead(front_end)

    def _follow_up(self, index: int, applied: Applied) -> None:
        """Act, as the owner, on what an entry did."""
        for queue in applied.created:
            if queue in self.machine.queues:
                self.queues[queue] = QueueOwner(self.machine.queues[queue], fresh=True)
        for queue, first, last in applied.appended:
            if queue in self.queues:
                self.queues[queue].append(first, last)
                self._serving.mark(queue)
        for front_end, queue, first, last in applied.returned:
            # What the owner itself returns is ready since it decided so, and may be on its way again.
            if front_end != OWNER:
                self.queues[queue].release(front_end, first, last)
                self._serving.mark(queue)
        for queue in applied.dropped:
            self._dropped(queue)
        for front_end, number in applied.acknowledged.items():
            self._acknowledge(front_end, number)
        waiters = self._waiters
        while waiters and waiters[0][0] <= index:
            waiters.popleft()[1]()
        if self._serving.dirty:
            self._context.owner_dirty(self)

    def _dropped(self, queue: int) -> None:
        owner = self.queues.pop(queue, None)
        if owner is None:
            return
        for front_end, consumer in list(owner.consumers):
            state = self._front_ends.get(front_end)
            if state is not None and consumer >= FIRST_CONSUMER:
                state.port.consumer_cancelled(state.epoch, consumer)
        for front_end, request in self._serving.refused(owner, queue):
            self.answer(front_end, request, NOT_FOUND)

    def _acknowledge(self, front_end: int, number: int) -> None:
        state = self._front_ends.get(front_end)
        if state is not None:
            state.port.acknowledged(state.epoch, number)

    # -- queues ---------------------------------------------------------------------------------

    def reconcile(self) -> None:
        """Create queues as the catalog says, and drop what is not in it unless it is behind."""
        if not self.active:
            return
        wanted = self._context.queues_of(self.partition)
        for queue, semantics in wanted.items():
            self.create_queue(queue, semantics)
        self._reconciled = self._context.catalog_fresh()
        if self._reconciled:
            for queue in sorted(self.machine.queues.keys() - wanted.keys()):
                self.drop_queue(queue)

    def create_queue(self, queue: int, semantics: Semantics) -> None:
        if self.active and queue not in self.machine.queues:
            self.operation(encode_create_queue(queue, semantics))

    def drop_queue(self, queue: int) -> None:
        # Also one that is not there yet: its creation may be on its way.
        if self.active:
            self.operation(encode_drop_queue(queue))

    # -- greetings (OwnerPort) ------------------------------------------------------------------

    def hello(self, front_end: int, epoch: int, node: str, consumers: list[ConsumerTerms]) -> None:
        port = self._context.front_end_port(self.partition, front_end)
        if not self.active or port is None:
            return
        known = self._front_ends.get(front_end)
        accepted = 0 if known is None else known.accepted
        self._front_ends[front_end] = FrontEndState(front_end, epoch, port, consumers, accepted=accepted)
        self._detach_all(front_end)

    def lost_words(self, front_end: int) -> None:
        """Something that the front end said is lost: what it says next counts only in a new greeting.

        The end of a greeting without its operations would give away what these have settled.
        """
        state = self._front_ends.get(front_end)
        if state is not None:
            state.epoch = NO_EPOCH
            self._detach_all(front_end)

    def _detach_all(self, front_end: int) -> None:
        for owner in self.queues.values():
            owner.detach_all(front_end)
        self._serving.forget_gets(front_end)

    def held(self, front_end: int, epoch: int, leases: dict[int, Ranges]) -> None:
        if self._state(front_end, epoch) is None:
            return
        # What the front end has given back is in no lease of its, but must not be taken for
        # undelivered before its RETURN is applied.
        self.after_proposed(partial(self._resume, front_end, epoch, leases))
        self._context.owner_dirty(self)

    def _resume(self, front_end: int, epoch: int, leases: dict[int, Ranges]) -> None:
        """Take over the leases of a front end that has greeted, then its consumers."""
        state = self._state(front_end, epoch)
        if state is None:
            return
        for queue, owner in self.queues.items():
            mine = leases.get(queue, [])
            owner.release_unheld(front_end, mine)
            owner.reattached(front_end, mine)
            self._serving.mark(queue)
        greeted, state.greeted = state.greeted, []
        for terms in greeted:
            if terms.queue in self.queues:
                self._when_attached(terms.queue, front_end, partial(self._rejoin, front_end, epoch, terms))
            else:
                state.port.consumer_cancelled(epoch, terms.consumer)
        self._context.owner_dirty(self)

    def front_end_lost(self, front_end: int) -> None:
        """A front end cannot be reached: what its consumers had goes back to the queues."""
        if not self.active:
            return
        self._front_ends.pop(front_end, None)
        self._serving.forget_gets(front_end)
        for queue, owner in self.queues.items():
            consumers = owner.consumer_count
            unsure = list(owner.held.ranges()) if front_end in owner.awaited else []
            self.proposal.add_return(queue, owner.state, owner.lost_front_end(front_end), failed=True)
            self.proposal.add_return(queue, owner.state, unsure, failed=False)
            self._serving.mark(queue)
            if consumers and not owner.consumer_count:
                self._context.queue_unused(queue)
        self._context.owner_dirty(self)

    def front_end_dead(self, front_end: int) -> None:
        """A front end's process is gone for good.

        Only now may its operation batch numbers be forgotten: one that is merely out of reach sends
        again what was not acknowledged, and it would be done twice.
        """
        if self.active:
            self.front_end_lost(front_end)
            self.operation(encode_forget(front_end))

    # -- operations (OwnerPort) -----------------------------------------------------------------

    def operations(self, front_end: int, epoch: int, number: int, data: bytes) -> None:
        state = self._state(front_end, epoch)
        if state is None:
            return
        if state.next_number not in (0, number):
            state.port.resync()
            return
        state.next_number = number + 1
        known = number <= max(self.machine.number_of(front_end), state.accepted)
        state.accepted = max(state.accepted, number)
        if known or take_batch(self, front_end, number, data):
            self.after_proposed(partial(self._acknowledge, front_end, number))
        self._context.owner_dirty(self)

    def mark(self, queue: int) -> None:
        """Something changed that may let the queue hand out messages."""
        self._serving.mark(queue)

    def await_mark(self, queue: int) -> None:
        """A consumer of the queue waits for a higher mark."""
        self.awaiting_marks.add(queue)
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

    # -- consumers and requests (OwnerPort) -----------------------------------------------------

    def attach(self, front_end: int, epoch: int, request: int, terms: ConsumerTerms) -> None:
        if self._state(front_end, epoch) is None:
            return

        def join() -> None:
            if self._state(front_end, epoch) is not None:
                self.answer(front_end, request, self._join(front_end, terms))

        self._when_attached(terms.queue, front_end, join)

    def _join(self, front_end: int, terms: ConsumerTerms) -> list[Any] | None:
        """Add a consumer whose front end is known to all replicas; what is wrong with it, if anything."""
        owner = self.queues.get(terms.queue)
        if owner is None:
            return NOT_FOUND
        try:
            owner.attach(
                front_end, terms.consumer, priority=terms.priority, no_ack=terms.no_ack,
                exclusive=terms.exclusive, sent=terms.delivered,
            )  # fmt: skip
        except ExclusiveConsumerError:
            return ACCESS_REFUSED
        self._consumers[front_end, terms.consumer] = terms.queue
        owner.credit(front_end, terms.consumer, terms.limit)
        self._serving.mark(terms.queue)
        self._context.owner_dirty(self)
        return None

    def _rejoin(self, front_end: int, epoch: int, terms: ConsumerTerms) -> None:
        state = self._state(front_end, epoch)
        if state is not None and self._join(front_end, terms) is not None:
            state.port.consumer_cancelled(epoch, terms.consumer)

    def _when_attached(self, queue: int, front_end: int, callback: Callable[[], None]) -> None:
        """Call back once the log says that the front end may hold leases of the queue.

        A new owner asks exactly those front ends what they hold; one that it does not know of must
        never have got anything.
        """
        if queue in self.machine.queues:
            self._attach_first(queue, front_end, callback)
        else:
            # Its creation may be on its way.
            self.after_proposed(partial(self._attach_first, queue, front_end, callback))

    def _attach_first(self, queue: int, front_end: int, callback: Callable[[], None]) -> None:
        state = self.machine.queues.get(queue)
        if state is not None and front_end not in state.attached:
            self.operation(encode_attach(queue, front_end))
        self.after_proposed(callback)

    def detach(self, front_end: int, epoch: int, consumer: int) -> None:
        if self._state(front_end, epoch) is None:
            return
        queue = self._consumers.pop((front_end, consumer), 0)
        if queue in self.queues:
            self.queues[queue].detach(front_end, consumer)
            if not self.queues[queue].consumer_count:
                self._context.queue_unused(queue)

    def credit(self, front_end: int, epoch: int, limits: list[tuple[int, int]]) -> None:
        if self._state(front_end, epoch) is None:
            return
        for consumer, limit in limits:
            queue = self._consumers.get((front_end, consumer), 0)
            if queue in self.queues:
                self.queues[queue].credit(front_end, consumer, limit)
                self._serving.mark(queue)
        self._context.owner_dirty(self)

    def request(self, front_end: int, epoch: int, request: int, name: str, arguments: list[Any]) -> None:
        if self._state(front_end, epoch) is None:
            return
        queue = arguments[0]
        if name == "count":
            self.after_proposed(partial(self._count, front_end, request, queue))
        elif name == "purge":
            self.after_proposed(partial(self._purge, front_end, request, queue))
        else:
            get = partial(self._get, front_end, epoch, request, queue, arguments[1])
            self._when_attached(queue, front_end, get)
        self._context.owner_dirty(self)

    def _purge(self, front_end: int, request: int, queue: int) -> None:
        owner = self.queues.get(queue)
        if owner is None:
            self.answer(front_end, request, NOT_FOUND)
            return
        purged = owner.purge()
        if purged.durable:
            self.operation(encode_purge(queue, purged.durable))
        self.after_proposed(lambda: self.answer(front_end, request, purged.count))

    def _count(self, front_end: int, request: int, queue: int) -> None:
        owner = self.queues.get(queue)
        counts = [len(owner.ready), owner.consumer_count, owner.leased_count] if owner else NOT_FOUND
        self.answer(front_end, request, counts)

    def _get(self, front_end: int, epoch: int, request: int, queue: int, no_ack: bool) -> None:
        owner = self.queues.get(queue)
        if self._state(front_end, epoch) is None:
            # It has greeted again since, and asked again.
            return
        if owner is None:
            self.answer(front_end, request, NOT_FOUND)
        else:
            self._serving.ask(owner, queue, front_end, request, no_ack)
            self._context.owner_dirty(self)

    def answer(self, front_end: int, request: int, value: Any, delivery: Delivery | None = None) -> None:
        """Answer a front end's request, if it is still there."""
        state = self._front_ends.get(front_end)
        if state is not None:
            state.port.result(state.epoch, request, value, delivery)

    def _state(self, front_end: int, epoch: int) -> FrontEndState | None:
        state = self._front_ends.get(front_end)
        return state if state is not None and state.epoch == epoch and self.active else None

    # -- the turn -------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Front ends that have not answered in time hold nothing any more."""
        if self.active and self._hold_until is not None and now >= self._hold_until:
            self._hold_until = None
            for queue, owner in self.queues.items():
                if owner.held:
                    self.proposal.add_return(queue, owner.state, list(owner.held.ranges()), failed=False)
                    owner.release_held(redelivered=True)
                    self._serving.mark(queue)
            self._context.owner_dirty(self)
        if self._serving.retry_crowded():
            self._context.owner_dirty(self)
        if self.active and now >= self._bury_at:
            self._bury(now)
            if not self._reconciled:
                self.reconcile()

    def propose(self) -> bool:
        """Propose what has been collected, unless it is better to let it grow; whether nothing waits."""
        if not self.active:
            return True
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
        return self._context.room(front_end)

    def serve(self) -> None:
        """Hand out what is ready."""
        if self.active and self._serving.dirty and self._context.may_serve(self.partition):
            serve(self, self._serving)

    def send(self, outgoing: dict[int, list[Delivery]]) -> None:
        """Give front ends what is for their consumers; what is for one that is gone waits for its return."""
        for front_end, deliveries in outgoing.items():
            state = self._front_ends.get(front_end)
            if state is not None:
                self.delivered += sum(delivery.run.count for delivery in deliveries)
                state.port.delivered(state.epoch, deliveries)
