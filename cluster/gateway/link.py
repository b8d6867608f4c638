"""A front end's links to the owners of partitions: operations, consumers and requests on their way.

A link keeps each operation batch until the owner says that the batch is committed. It sends all kept batches
again, in order, to a new owner; the replicated machine drops the batches that it has applied already. So a
failover neither loses nor doubles a publish.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from cluster.gateway.barriers import take_barrier
from cluster.gateway.link_context import LinkContext
from cluster.gateway.link_targets import LinkTargets
from cluster.gateway.observer import LinkObserver
from cluster.gateway.state import (
    WINDOW_BATCHES,
    WINDOW_BYTES,
    Awaiting,
    Confirmation,
    HeldMessages,
    LinkConsumer,
    OperationBatch,
    PendingRequest,
    TakeAnswer,
    send_greeting,
)
from cluster.peers.link_messages import (
    GET_LINK,
    GET_LINK_NO_ACK,
    NOT_FOUND,
    UNREACHABLE,
    Delivery,
    OwnerPort,
    Ranges,
)
from node.delivery.settlements import BARRIER_TOKEN, NO_TOKEN, TOKEN_SHIFT
from node.message.run import Run
from node.queue.decision_format import encode_target
from node.queue.entry_format import encode_discard, encode_publish, encode_return, encode_settle
from node.queue.targets import UpdateTarget
from node.ranges.range_set import count_of, merged
from node.session.subscriber import Subscriber

EMPTY: Final[Mapping[int, Ranges]] = {}

SETTLED_AT_ONCE: Final = 256
"""So many settled messages make an operation batch of their own, an entry that three disks write. Fewer wait
a few milliseconds at most for the next batch: no client waits for an answer to settlements."""


class PartitionLink:
    """One front end's link to the owner of one partition (see `cluster.peers.link_messages.FrontEndPort`)."""

    def __init__(
        self,
        partition: int,
        context: LinkContext,
        mark_dirty: Callable[[PartitionLink], None],
        mark_waiting: Callable[[PartitionLink], None],
        observer: LinkObserver | None = None,
    ):
        """`mark_dirty` asks for `flush` in this turn, `mark_waiting` for `flush_waiting` a little later."""
        self.partition = partition
        self.owner: OwnerPort | None = None
        self.owner_node: str | None = None
        self.owner_term, self.unreachable = 0, False
        self.lost = False
        """Unreachable, and the partition was in memory: its messages are lost."""
        self.consumers: dict[int, LinkConsumer] = {}
        self.held = HeldMessages()
        self.unacknowledged: deque[OperationBatch] = deque()
        self._front_end, self._node = context.front_end, context.node
        self._mark_dirty, self._mark_waiting = mark_dirty, mark_waiting
        self._latencies, self._observer, self._tells = context.latencies, observer, context.tells
        self.unacknowledged_bytes = self._epoch = self._number = self._request = 0
        self._requests: dict[int, PendingRequest] = {}
        self._parts: list[bytes | memoryview] = []
        self._parts_bytes = self._messages = self._confirms = self._settled_count = 0
        self._since, self._credit_urgent, self._greets = 0.0, False, False
        self._awaiting: list[Awaiting] = []
        self._offsets: list[int] = []
        self._settled: dict[tuple[int, int], Ranges] = {}
        self._credits: dict[int, LinkConsumer] = {}
        self._leaving: list[int] = []
        self._waiting: list[Subscriber] = []
        self.targets = LinkTargets()

    # -- calls of sessions ----------------------------------------------------------------------

    def publish(
        self, run: Run, queues: list[int], confirmation: Confirmation | None, *, dead_letters: bool = False
    ) -> None:
        """Add a run to this turn's batch; the caller has counted this link in `confirmation.waiting`."""
        observed = None if self._observer is None else self._observer.published(run)
        self._flush_settled()
        if not self._messages:
            self._since = self._latencies.clock()
        if self.targets.receiving is not None:
            self._operation(self.targets.take_tags(self.targets.receiving, run.count))
        parts = encode_publish(run, queues, dead_letters=dead_letters)
        self._parts.extend(parts)
        self._parts_bytes += sum(map(len, parts))
        self._messages += run.count
        if confirmation is not None:
            self._awaiting.append(confirmation)
            self._offsets.append(self._messages)
            self._confirms += run.count
        if observed is not None:
            self._await(observed)
        self._mark_dirty(self)

    def update_target(self, step: UpdateTarget) -> None:
        """Carry out a step of a target."""
        self._operation(encode_target(step))

    def _await(self, waiting: Awaiting) -> None:
        """Tell `waiting` when the batch commits to which the last operation was added."""
        self._awaiting.append(waiting)
        self._offsets.append(self._messages)

    def transact(self, operation: bytes, settled: Iterable[tuple[int, int, int]], waiting: Awaiting) -> None:
        """Add a transaction's operation, which counts as one message. `settled`: leases, (queue, first,
        last).
        """
        for queue, first, last in settled:
            self._release(queue, [(first, last)])
        self._operation(operation)
        self._messages += 1
        self._await(waiting)

    @property
    def full(self) -> bool:
        """Whether publishers must be held back."""
        octets = self.unacknowledged_bytes + self._parts_bytes
        return octets > WINDOW_BYTES or len(self.unacknowledged) > WINDOW_BATCHES

    def wait(self, subscriber: Subscriber) -> None:
        """Have `subscriber.unblocked` called when the link is no longer full."""
        self._waiting.append(subscriber)

    def told_token(self, token: int) -> int:
        """The token of a lease as an operation may name it; NO_TOKEN while a member does not read tokens."""
        return token if token != NO_TOKEN and self._tells.tokens() else NO_TOKEN

    def settle(self, queue: int, ranges: Ranges, token: int = NO_TOKEN) -> None:
        """Settle messages that a consumer has acknowledged, and that came under the lease `token`."""
        observed = None if self._observer is None else self._observer.settled(queue, ranges)
        if observed is not None:
            self._await(observed)
        self._release(queue, ranges)
        settled = self._settled.setdefault((queue, token), [])
        if settled and len(ranges) == 1 and settled[-1][1] + 1 == ranges[0][0]:
            settled[-1] = (settled[-1][0], ranges[0][1])
        else:
            settled.extend(ranges)
        self._settled_count += count_of(ranges)
        if self._settled_count < SETTLED_AT_ONCE:
            self._mark_waiting(self)
        else:
            self._mark_dirty(self)

    def give_back(
        self, queue: int, ranges: Ranges, *, failed: bool, token: int = NO_TOKEN, cancelled: bool = False
    ) -> None:
        """Return leased messages to the queue; `failed` counts a failed delivery of each, and `cancelled`
        that a client has said so.
        """
        self._release(queue, ranges)
        told = self.told_token(token)
        self._operation(encode_return(queue, ranges, failed, told, cancelled=cancelled))

    def discard(self, queue: int, ranges: Ranges, token: int = NO_TOKEN, error: bytes = b"") -> None:
        """Discard messages that a consumer has rejected without requeue, with an encoded `error` or none."""
        self._release(queue, ranges)
        self._operation(encode_discard(queue, ranges, self.told_token(token), error))

    def attach(self, consumer: LinkConsumer, answer: TakeAnswer) -> None:
        """Ask the owner, and every later owner, to serve a consumer. The answer is None or a refusal."""
        self._ask(PendingRequest("attach", [], consumer, answer))

    def request(self, name: str, arguments: list[Any], answer: TakeAnswer) -> None:
        """Ask the owner. A new owner gets the same request again, until one has answered it."""
        self._ask(PendingRequest(name, arguments, None, answer))

    def detach(self, consumer: int) -> None:
        """Remove a consumer; its messages stay leased to this front end until it settles or returns them."""
        gone = self.consumers.pop(consumer, None)
        if gone is not None and gone.single_active:
            # The messages that it returns in this turn go first: the next active consumer gets them first.
            self._leaving.append(consumer)
            self._mark_dirty(self)
        elif gone is not None and self.owner is not None:
            self.owner.detach(self._front_end, self._epoch, consumer)

    def credit(self, consumer: int, limit: int) -> None:
        """Set a consumer's limit: how many messages it may have got since it was attached."""
        attached = self.consumers.get(consumer)
        if attached is None:
            return
        attached.drain = 0
        if attached.limit == limit:
            return
        attached.limit = limit
        self._credits[consumer] = attached
        if attached.credit_urgent:
            self._credit_urgent = True
            self._mark_dirty(self)
        else:
            self._mark_waiting(self)

    # -- owner changes --------------------------------------------------------------------------

    def owner_elected(self, node: str, term: int, owner: OwnerPort) -> None:
        """Greet a new owner, unless its term is older than that of the known one."""
        if term < self.owner_term:
            return
        self.owner, self.owner_node, self.owner_term = owner, node, term
        self.unreachable = self.lost = False
        self._begin_epoch()
        self.greet()

    def owner_lost(self) -> None:
        """The owner is gone: keep batches and requests until there is another one."""
        self.owner = self.owner_node = None

    def sole_replica_lost(self, *, kept: bool) -> None:
        """The only node that has the partition is down: refuse requests until it is back.

        The link keeps the batches that it has, and sends them again when the node is back. `kept`: the
        partition is on that node's disk, not in its memory.
        """
        self.owner_lost()
        self.unreachable, self.lost = True, not kept
        self._refuse_requests(UNREACHABLE)

    def give_up(self) -> None:
        """The only replica stays away: answer the publishers, which do not wait for its return."""
        self._take_batch()
        for batch in self.unacknowledged:
            batch.give_up()

    def resync(self) -> None:
        """Messages are lost: greet the owner in a new epoch, soon. Greetings at once would call for more."""
        self._begin_epoch()
        self._mark_waiting(self)

    def _begin_epoch(self) -> None:
        self._epoch += 1  # Of the answers in an earlier epoch one that is needed may be lost.
        self._greets = True

    def greet(self) -> None:
        """Greet the owner, if `resync` has left that for later."""
        owner = self.owner
        if not self._greets or owner is None:
            return
        self._greets = False
        front_end, epoch = self._front_end, self._epoch
        send_greeting(owner, front_end, epoch, self._node, self.consumers.values(), self.unacknowledged)
        self._take_batch()
        owner.held(front_end, epoch, self.held.told(self._tells))
        self._credits.clear()
        self._leaving.clear()
        self._credit_urgent = False
        for number, request in list(self._requests.items()):
            self._send_request(number, request)

    def abandon(self) -> None:
        """The partition is gone for good: confirm all batches, refuse requests, and cancel the consumers."""
        self.owner_lost()
        self._take_batch()
        self._committed(self._number)
        self._refuse_requests(NOT_FOUND)
        for consumer in list(self.consumers.values()):
            del self.consumers[consumer.id]
            consumer.subscriber.consumer_cancelled(consumer.known or consumer.id)

    # -- the turn -------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send this turn's operations as one batch, with the settlements and credit that waited for one."""
        enough = self._settled_count >= SETTLED_AT_ONCE
        if self._parts or self._credit_urgent or self._leaving or enough:
            self.flush_waiting()

    def flush_waiting(self) -> None:
        """Send all operations, then the credit: so no consumer seems to hold more than its prefetch."""
        self._take_batch()
        self._tell_credits()
        leaving, self._leaving = self._leaving, []
        for consumer in leaving:
            if self.owner is not None:
                self.owner.detach(self._front_end, self._epoch, consumer)

    def _tell_credits(self) -> None:
        if self._credits and self.owner is not None:
            for consumer in self._credits.values():
                consumer.told = consumer.limit
            limits = [(consumer.id, consumer.limit) for consumer in self._credits.values()]
            self._credits.clear()
            self._credit_urgent = False
            self.owner.credit(self._front_end, self._epoch, limits)

    def _take_batch(self) -> None:
        self._flush_settled()
        if not self._parts:
            return
        self._number, owner = self._number + 1, None if self._greets else self.owner
        data, waiting = b"".join(self._parts), (self._awaiting, self._offsets, self._since, self._confirms)
        batch = OperationBatch(self._number, data, owner is not None, *waiting)
        self.unacknowledged.append(batch)
        self.unacknowledged_bytes += len(data)
        self._parts, self._parts_bytes, self._messages = [], 0, 0
        self._awaiting, self._offsets, self._confirms = [], [], 0
        if owner is not None:
            owner.operations(self._front_end, self._epoch, batch.number, data)

    def _flush_settled(self) -> None:
        if self._settled:
            for (queue, token), ranges in self._settled.items():
                data = encode_settle(queue, merged(ranges), self.told_token(token))
                self._parts.append(data)
                self._parts_bytes += len(data)
            self._settled.clear()
            self._settled_count = 0

    def _operation(self, data: bytes) -> None:
        self._flush_settled()
        self._parts.append(data)
        self._parts_bytes += len(data)
        self._mark_dirty(self)

    def _release(self, queue: int, ranges: Ranges) -> None:
        self.held.released(queue, ranges)
        if self._observer is not None:
            self._observer.released(queue, ranges)

    def _ask(self, request: PendingRequest) -> None:
        # Earlier operations of the same client must have their effect on the answer (0-9-1 §4.7).
        self._take_batch()
        self._request += 1
        self._requests[self._request] = request
        self._send_request(self._request, request)

    def _send_request(self, number: int, request: PendingRequest) -> None:
        if self.owner is not None:
            request.send(self.owner, self._front_end, self._epoch, number)

    def _refuse_requests(self, refusal: list[object]) -> None:
        requests, self._requests = self._requests, {}
        for request in requests.values():
            request.answer(refusal, None)

    def _committed(self, number: int, refused: Mapping[int, Ranges] = EMPTY) -> None:
        unacknowledged = self.unacknowledged
        while unacknowledged and unacknowledged[0].number <= number:
            batch = unacknowledged.popleft()
            self.unacknowledged_bytes -= len(batch.data)
            self._latencies.confirmed(batch.confirms, batch.since)
            batch.committed(refused.get(batch.number))
        if self._waiting and not self.full:
            waiting, self._waiting = self._waiting, []
            for subscriber in waiting:
                subscriber.unblocked()

    # -- calls of the owner (FrontEndPort) ------------------------------------------------------

    def room(self) -> None:
        """Nothing limits deliveries within one process."""

    def acknowledged(self, epoch: int, number: int, refused: Sequence[tuple[int, Ranges]] = ()) -> None:
        if epoch == self._epoch:  # Of an earlier one, that which told of refused messages may be lost.
            self._committed(number, dict(refused))

    def delivered(self, epoch: int, deliveries: list[Delivery]) -> None:
        if epoch != self._epoch:
            return
        observer = self._observer
        since = 0 if observer is None else observer.arrived()
        for delivery in deliveries:
            consumer = self.consumers.get(delivery.consumer)
            if delivery.token == BARRIER_TOKEN:
                take_barrier(consumer, delivery, self.request, self.credit)
            elif consumer is None:
                # The consumer was cancelled while the delivery was on its way: no client has seen it.
                token = self.told_token(delivery.token)
                self._operation(encode_return(delivery.queue, merged(delivery.ranges), False, token))
            else:
                if not consumer.no_ack:
                    self.held.given(delivery, consumer.holder)
                consumer.deliver(delivery, delivery.token << TOKEN_SHIFT | consumer.id)
                if observer is not None:
                    leased = None if consumer.no_ack else self.held.leases.get(delivery.queue)
                    observer.delivered(delivery, since, leased)

    def result(self, epoch: int, request: int, value: Any, delivery: Delivery | None) -> None:
        if epoch != self._epoch:
            return
        pending = self._requests.pop(request, None)
        if pending is None:
            return
        if pending.consumer is not None and pending.consumer.joins(value):
            self.consumers[pending.consumer.id] = pending.consumer
        if delivery is not None and delivery.consumer == GET_LINK:
            self.held.given(delivery)
        observer = self._observer
        since = 0 if observer is None else observer.arrived()
        pending.answer(value, delivery)
        if observer is not None and delivery is not None:
            leased = None if delivery.consumer == GET_LINK_NO_ACK else self.held.leases.get(delivery.queue)
            observer.delivered(delivery, since, leased)

    def consumer_cancelled(self, epoch: int, consumer: int, stolen: bool = False) -> None:
        if epoch != self._epoch:
            return
        attached = self.consumers.pop(consumer, None)
        if attached is not None:
            attached.subscriber.consumer_cancelled(attached.known or consumer, stolen)
        else:
            self.targets.lost(consumer)

    def activity(self, epoch: int, consumer: int, joined: int, activated: int) -> None:
        attached = self.consumers.get(consumer)
        if epoch == self._epoch and attached is not None:
            attached.joined, attached.activated = joined, activated

    def lease_ends_changed(self, epoch: int, queue: int, ranges: Ranges, until: int) -> None:
        if epoch == self._epoch:
            self.held.renewed(queue, ranges, until)


class Links:
    """The links of one front end, by partition."""

    def __init__(
        self,
        context: LinkContext,
        wanted: Callable[[], None],
        waiting: Callable[[], None],
        observer: Callable[[int], LinkObserver | None],
    ) -> None:
        """`wanted` asks for a turn, which calls `flush`. `waiting` asks for a call of `flush_waiting` a few
        milliseconds later. `observer` makes the observer of a new link.
        """
        self.by_partition: dict[int, PartitionLink] = {}
        self.tells = context.tells
        self._context, self._observer = context, observer
        self._wanted, self._begins_to_wait = wanted, waiting
        self._dirty: dict[int, PartitionLink] = {}
        self._waiting: dict[int, PartitionLink] = {}

    def to(self, partition: int) -> PartitionLink:
        """The link to a partition, made at the first call."""
        link = self.by_partition.get(partition)
        if link is None:
            link = self.by_partition[partition] = PartitionLink(
                partition, self._context, self.mark_dirty, self.mark_waiting, self._observer(partition)
            )
        return link

    def request(self, link: PartitionLink, name: str, arguments: list[Any], answer: TakeAnswer) -> None:
        """Ask the owner in this turn: see `PartitionLink.request`."""
        link.request(name, arguments, answer)
        self._wanted()

    def attach(self, link: PartitionLink, consumer: LinkConsumer, answer: TakeAnswer) -> None:
        """Attach a consumer in this turn: see `PartitionLink.attach`."""
        link.attach(consumer, answer)
        self._wanted()

    @property
    def dirty(self) -> bool:
        """Whether a link has something for `flush`."""
        return bool(self._dirty)

    def mark_dirty(self, link: PartitionLink) -> None:
        if not self._dirty:
            self._wanted()
        self._dirty[link.partition] = link

    def mark_waiting(self, link: PartitionLink) -> None:
        if not self._waiting:
            self._begins_to_wait()
        self._waiting[link.partition] = link

    def flush(self) -> None:
        """Send this turn's operations."""
        links, self._dirty = self._dirty, {}
        for link in links.values():
            link.flush()

    def flush_waiting(self) -> None:
        """Send the settlements and credit that links have kept for a later batch."""
        links, self._waiting = self._waiting, {}
        for link in links.values():
            link.greet()
            link.flush_waiting()
