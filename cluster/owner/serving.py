"""Delivers an owner's ready messages to consumers, and answers basic.get. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cluster.owner.annotating import annotated
from cluster.owner.contents import Contents, runs_with_ranges
from cluster.owner.failures import with_failure_counts
from cluster.owner.feature_context import Act
from cluster.owner.filling import fill
from cluster.owner.get_links import GetLinks, kind_of_get
from cluster.owner.state import OwnerState
from cluster.owner.upkeep import after_serving, before_serving
from cluster.peers.link_messages import FIRST_CONSUMER, GET_LINK, GET_LINK_KEPT, GET_LINK_NO_ACK, Delivery
from node.message.run import Run, fitting_messages
from node.queue.consumers import ConsumerKey
from node.queue.decision_format import encode_remark
from node.queue.dispatch import Grant, QueueOwner
from node.queue.entry_format import encode_settle
from node.queue.filtering import LookBudget
from node.queue.operations import OWNER
from node.queue.remarks import Remark, Subject
from node.ranges.range_set import Range, count_of, merged, numbers_of

DISPATCH_BUDGET: Final = 4096
"""Most messages of one queue that are handed out in one turn, so that queues take turns."""


@dataclass(init=False, slots=True)
class Handout:
    """A grant with the contents of its messages. With `grant.removal` the owner must not send it before the
    removal is committed. With `link`, the octets of a link, it must not before the log leases the messages to
    that link.
    """

    grant: Grant
    queue: int
    deliveries: list[Delivery]
    link: bytes

    def __init__(self, grant: Grant, queue: int, deliveries: list[Delivery], link: bytes) -> None:
        self.grant = grant
        self.queue = queue
        self.deliveries = deliveries
        self.link = link


Outgoing = dict[int, list[Delivery]]
"""Deliveries by front end."""


class Serving:
    """The queues that may have messages to hand out, the requests that wait for them, and handouts that wait
    for a commit.
    """

    def __init__(
        self,
        contents: Contents,
        tells_failures: Callable[[int], bool],
        marked: dict[int, None],
        wall_ms: Callable[[], int],
    ) -> None:
        """`tells_failures`: see `OwnedQueues`; `wall_ms`: see `OwnerContext`. `marked`: queues that may have
        messages to hand out.
        """
        self._contents = contents
        self._tells_failures = tells_failures
        self._wall_ms = wall_ms
        self._dirty = marked
        # Requests of basic.get that wait, by queue, and by front end and link.
        self._gets: dict[int, dict[ConsumerKey, deque[int]]] = {}
        self._counts: dict[int, list[Callable[[], None]]] = {}
        self._returning: dict[int, list[Callable[[], None]]] = {}
        self._crowded: set[int] = set()
        self._leaving: dict[tuple[int, ConsumerKey], deque[Handout]] = {}
        self._get_links = GetLinks()
        self.looks, self.turn = LookBudget(), 0

    def clear(self) -> None:
        self._dirty.clear()
        self._crowded.clear()
        self._gets.clear()
        self._get_links.clear()
        self._counts.clear()
        self._returning.clear()
        self._leaving.clear()

    def mark(self, queue: int) -> None:
        """The queue may have messages to hand out."""
        self._dirty[queue] = None

    def retry_crowded(self) -> None:
        """Serve again the queues that lacked room on the way to a front end."""
        crowded, self._crowded = sorted(self._crowded), set()
        self._dirty.update(dict.fromkeys(crowded))

    @property
    def dirty(self) -> bool:
        return bool(self._dirty)

    def take_dirty(self) -> list[int]:
        """Take the queues that are marked, in the order in which they were marked: a turn begins."""
        dirty = list(self._dirty)
        self._dirty.clear()
        self.turn += 1
        return dirty

    # -- removals and leases of links on their way to the log --------------------------------------

    def held(self, handout: Handout) -> bool:
        """Hold the handout back, behind others to its consumer whose removal, or whose lease to a link, is
        not committed yet. Returns False where it need not wait.

        Soft messages need no commit. But a consumer gets the messages of one channel in one queue in the
        order of publication (0-9-1 §4.7), whatever their delivery mode.
        """
        grant = handout.grant
        key = handout.queue, (grant.front_end, grant.consumer)
        if grant.soft and key not in self._leaving:
            return False
        self._leaving.setdefault(key, deque()).append(handout)
        return True

    def released(self, handout: Handout) -> list[Handout]:
        """The handouts that may be sent now that this one's operation is committed, itself first. None if
        this one is forgotten.
        """
        key = handout.queue, (handout.grant.front_end, handout.grant.consumer)
        leaving = self._leaving.get(key)
        if not leaving or leaving[0] is not handout:
            return [] if handout.link else [handout]
        found = [leaving.popleft()]
        while leaving and leaving[0].grant.soft:
            found.append(leaving.popleft())
        if not leaving:
            del self._leaving[key]
        return found

    def forget_links(self, front_end: int) -> None:
        """Forget the handouts to links of a front end that wait for the log: the front end greets anew, and
        tells what it has, or is lost.
        """
        for queue, key in [place for place in self._leaving if place[1][0] == front_end]:
            self.forget_link(queue, key)

    def forget_link(self, queue: int, key: ConsumerKey) -> list[Range]:
        """Forget the handouts to the link of a consumer that wait for the log; returns their messages."""
        waiting = self._leaving.get((queue, key), ())
        if not any(one.link for one in waiting):
            return []
        del self._leaving[queue, key]
        return [part for one in waiting for part in one.grant.ranges]

    def on_the_way(self, queue: int, key: ConsumerKey) -> int:
        """The number of a queue's messages that are held back for a consumer until a commit."""
        return sum(one.grant.messages for one in self._leaving.get((queue, key), ()))

    # -- basic.get ------------------------------------------------------------------------------

    def ask(
        self, owner: QueueOwner, queue: int, front_end: int, request: int, link: int, filter: bytes = b""
    ) -> bool:
        """A front end asks for one message, one that the filter takes. The log has that it may hold leases of
        the queue. Returns False where the queue has too many filters.
        """
        of_queue = self._gets.setdefault(queue, {})
        number = self._get_links.attached(owner, queue, (front_end, link, filter), of_queue)
        if number is None:
            return False
        of_queue.setdefault((front_end, number), deque()).append(request)
        self.mark(queue)
        return True

    def admit_gets(self, owner: QueueOwner, queue: int) -> bool:
        """Give credit to waiting requests without a message on its way. Returns whether there are any."""
        found = False
        for key, waiting in self._gets.get(queue, {}).items():
            wanted = len(waiting) - self.on_the_way(queue, key)
            consumer = owner.delivery.consumers.get(*key) if wanted > 0 else None
            if consumer is not None:
                owner.delivery.consumers.credit(*key, consumer.sent + wanted)
                found = True
        return found

    def hold_gets(self, owner: QueueOwner, queue: int) -> None:
        """Take the credit of waiting requests back: consumers come before them in the next turn."""
        for key, waiting in self._gets.get(queue, {}).items():
            consumer = owner.delivery.consumers.get(*key) if waiting else None
            if consumer is not None:
                owner.delivery.consumers.revoke(consumer)

    def forget_gets(self, front_end: int) -> None:
        """Forget a front end's requests: it repeats them, or is lost."""
        for of_queue in self._gets.values():
            for key in [key for key in of_queue if key[0] == front_end]:
                del of_queue[key]

    def served(self, queue: int, grant: Grant) -> list[int]:
        """Take the requests that a grant to a get link answers; fewer if the front end was lost since.

        A message that was removed for a lost request is lost with it, as on a broken connection to any
        at-most-once consumer.
        """
        waiting = self._gets.get(queue, {}).get((grant.front_end, grant.consumer)) or deque()
        return [waiting.popleft() for _ in range(min(len(waiting), grant.messages))]

    def refused(self, owner: QueueOwner, queue: int, *, gone: bool = False) -> list[tuple[int, int]]:
        """Take the requests, as (front end, request), that get no message from the queue, which may be
        `gone`.
        """
        found: list[tuple[int, int]] = []
        for key, waiting in self._gets.get(queue, {}).items():
            served = 0 if gone else self.on_the_way(queue, key)
            if len(waiting) > served and (gone or owner.drain(*key)):
                refused = [waiting.pop() for _ in range(len(waiting) - served)]
                found.extend((key[0], request) for request in reversed(refused))
                owner.delivery.tally.got_empty += len(refused)
        if gone:
            self._gets.pop(queue, None)
            self._get_links.forget(queue)
        return found

    # -- redelivery -----------------------------------------------------------------------------

    def before_served(self, queue: int, callback: Callable[[], None]) -> None:
        """Call back in the queue's next turn, before it hands out messages."""
        self.before_served_again(queue, callback)
        self.mark(queue)

    def before_served_again(self, queue: int, callback: Callable[[], None]) -> None:
        """As `before_served`, when the queue has something to hand out again, or is dropped."""
        self._returning.setdefault(queue, []).append(callback)

    def returning(self, queue: int) -> list[Callable[[], None]]:
        """Take the callbacks of `before_served`."""
        return self._returning.pop(queue, [])

    # -- counts ---------------------------------------------------------------------------------

    def when_served(self, queue: int, callback: Callable[[], None]) -> None:
        """Call back once the queue has given consumers all messages that their credit allows, and has dropped
        those beyond its limits.
        """
        self.when_served_again(queue, callback)
        self.mark(queue)

    def when_served_again(self, queue: int, callback: Callable[[], None]) -> None:
        """As `when_served`, when the queue has something to hand out again, or is dropped."""
        self._counts.setdefault(queue, []).append(callback)

    def counted(self, queue: int) -> list[Callable[[], None]]:
        """Take the callbacks of `when_served`."""
        return self._counts.pop(queue, [])

    # -- contents -------------------------------------------------------------------------------

    def hand_out(self, owner: QueueOwner, queue: int, room: Room) -> list[Handout]:
        """Grant ready messages to consumers, with their contents."""
        fitting = Fitting(owner, self._contents, room)
        handouts = self.filled(owner, queue, owner.dispatch(DISPATCH_BUDGET, fitting, self.looks), fitting)
        if owner.crowded:
            self._crowded.add(queue)
        return handouts

    def hand_out_again(
        self, owner: QueueOwner, queue: int, consumer: ConsumerKey, messages: Range, room: Room
    ) -> list[Handout]:
        """Grant a consumer messages that it had before and that are ready again, with their contents."""
        fitting = Fitting(owner, self._contents, room)
        return self.filled(owner, queue, owner.regrant(*consumer, *messages, fitting), fitting)

    def filled(self, owner: QueueOwner, queue: int, grants: list[Grant], fitting: Fitting) -> list[Handout]:
        """Grants with the contents of their messages, as far as they are known from the grants' fitting."""
        handouts = []
        for grant in grants:
            by_get = grant.consumer < FIRST_CONSUMER
            owner.delivery.tally.served(
                grant.messages,
                by_get=by_get,
                no_ack=grant.removal or (by_get and kind_of_get(grant.consumer) == GET_LINK_KEPT),
                redelivered=grant.redelivered,
            )
            deliveries = [
                Delivery(grant.consumer, queue, ranges, grant.redelivered, run, grant.token, grant.until)
                for ranges, run in self._runs(owner, queue, grant, fitting)
            ]
            link = owner.link_of(grant) if owner.delivery.consumers.by_link else b""
            handouts.append(Handout(grant, queue, deliveries, link))
        return handouts

    def _runs(
        self, owner: QueueOwner, queue: int, grant: Grant, fitting: Fitting
    ) -> list[tuple[list[Range], Run]]:
        """The messages of a grant, as runs with the ranges of their messages."""
        source = owner.delivery.soft if grant.soft else self._contents
        failed = grant.redelivered and bool(owner.delivery.state.failures or owner.delivery.soft.failures)
        telling = failed and self._tells_failures(queue)
        if telling:
            runs = [each for part in grant.ranges for each in source.runs(*part)]
            runs = [each for one in runs for each in with_failure_counts(owner, *one)]
            found = [([(first, first + run.count - 1)], run) for first, run in runs]
        else:
            found = fitting.read(grant.ranges) or runs_with_ranges(source, grant.ranges)
        for feature in owner.lifecycle.hooks.as_told:
            now = self._wall_ms()
            found = [each for ranges, run in found for each in feature.as_told(ranges, run, now)]
        remarks = owner.delivery.soft.remarks if grant.soft else owner.delivery.state.remarks
        return [each for one in found for each in annotated(remarks, *one)] if remarks else found


Room = Callable[[int], int | None]
"""Octets that may be sent to a front end now; None: no limit but the credit of its consumers."""


class Fitting:
    """Bounds the grants of one dispatch by the room on the way to each front end (`dispatch.Fit`).

    Credit counts messages, and the owner learns the size of a message only from its contents. The transport
    would drop messages that do not fit, and those whose removal is committed would be lost.
    """

    def __init__(self, owner: QueueOwner, contents: Contents, room: Room) -> None:
        self._owner = owner
        self._contents = contents
        self._room = room
        self._left: dict[int, int] = {}
        # The messages that were read, by the identity of the list of their ranges. The list is held as well:
        # no other list can have its identity. A list that is longer by now has further messages.
        self._read: dict[int, tuple[list[Range], int, list[tuple[list[Range], Run]]]] = {}

    def read(self, ranges: list[Range]) -> list[tuple[list[Range], Run]] | None:
        """The messages of a list of ranges that was found to fit as it is; None for any other list."""
        kept = self._read.get(id(ranges))
        return kept[2] if kept is not None and kept[1] == len(ranges) else None

    def __call__(self, front_end: int, ranges: list[Range], soft: bool) -> int:
        left = self._left.get(front_end)
        if left is None:
            room = self._room(front_end)
            if room is None:
                return count_of(ranges)
            left = room
        fitting = 0
        delivery = self._owner.delivery
        found = runs_with_ranges(delivery.soft if soft else self._contents, ranges) if left > 0 else []
        self._read[id(ranges)] = ranges, len(ranges), found
        remarks = delivery.soft.remarks if soft else delivery.state.remarks
        for _, run in [each for one in found for each in annotated(remarks, *one)] if remarks else found:
            count = fitting_messages(run, left)
            left -= len(run.raw) if count == run.count else sum(run.each_length()[:count])
            fitting += count
            if count < run.count:
                left = 0
                break
        self._left[front_end] = left
        return fitting


def serve(owner: OwnerState, serving: Serving, now: float, lend: Act, feed: Act) -> None:
    """Hand out the ready messages of the owner's marked queues, and answer requests that wait for that.
    `lend` lends messages of a queue, or borrows some; `feed` goes on with the rows of a stream.
    """
    outgoing, counted = Outgoing(), list[Callable[[], None]]()
    serving.looks.now = now
    for number in serving.take_dirty():
        for callback in serving.returning(number):
            callback()
        queue = owner.queues.get(number)
        if queue is None or (owner.filling and fill(owner, number, queue)):
            counted += serving.counted(number)
            continue
        if queue.lifecycle.attended:
            before_serving(owner, number, queue, owner.wall_ms())
        _hand_out(owner, serving, number, queue, outgoing)
        if queue.lifecycle.attended:
            after_serving(owner, number, queue, serving.looks, lend, feed)
        # Consumers with credit have got their messages, and limits have been applied: a basic.get that was
        # sent behind publishes gets a message that they have left (0-9-1 §4.7).
        if queue.served and serving.admit_gets(queue, number):
            _hand_out(owner, serving, number, queue, outgoing)
            for front_end, request in serving.refused(queue, number):
                owner.linearizable_reads.answer(front_end, request, None)
            serving.hold_gets(queue, number)
        if queue.served:
            counted += serving.counted(number)
        if queue.blocked:
            owner.await_mark(number)
        if queue.unfinished or queue.looking:
            owner.serve_again(number)
    owner.send(outgoing)
    # Answers about the remaining messages come behind the deliveries.
    for callback in counted:
        callback()


def _hand_out(
    owner: OwnerState, serving: Serving, number: int, queue: QueueOwner, outgoing: Outgoing
) -> None:
    for handout in serving.hand_out(queue, number, owner.room):
        if handout.link:
            _lease_first(owner, serving, queue, handout)
        elif not handout.grant.removal:
            waits = handout.grant.soft and queue.delivery.consumers.by_link and serving.held(handout)
            if not waits:
                _hand_over(owner, serving, handout, outgoing)
        elif handout.grant.soft:
            _removed(serving, queue, handout)
            if not serving.held(handout):
                _hand_over(owner, serving, handout, outgoing)
        else:
            _remove_first(owner, serving, queue, handout)


def regrant(owner: OwnerState, serving: Serving, number: int, consumer: ConsumerKey, messages: Range) -> None:
    """Deliver to a consumer messages that it has returned (0-9-1, basic.recover without requeue)."""
    queue = owner.queues[number]
    queue.delivery.now = owner.wall_ms()
    outgoing: Outgoing = {}
    for handout in serving.hand_out_again(queue, number, consumer, messages, owner.room):
        _hand_over(owner, serving, handout, outgoing)
    owner.send(outgoing)


def _remove_first(owner: OwnerState, serving: Serving, queue: QueueOwner, handout: Handout) -> None:
    """Commit the removal of an at-most-once delivery before the owner sends the delivery."""

    def removed() -> None:
        _removed(serving, queue, handout)
        _release(owner, serving, handout)

    settle = encode_settle(handout.queue, merged(handout.grant.ranges))
    _commit_first(owner, serving, handout, settle, removed)


def _lease_first(owner: OwnerState, serving: Serving, queue: QueueOwner, handout: Handout) -> None:
    """Commit to which link the messages are leased before the owner sends them. A node that is lost later
    does not end the lease.
    """

    def leased() -> None:
        queue.delivery.links.leasing.remove_all(remark.ranges)
        _release(owner, serving, handout)

    remark = Remark(handout.queue, Subject.LINK, merged(handout.grant.ranges), handout.link)
    queue.delivery.links.leasing.update(remark.ranges)
    _commit_first(owner, serving, handout, encode_remark(remark), leased)


def _commit_first(
    owner: OwnerState, serving: Serving, handout: Handout, operation: bytes, committed: Callable[[], None]
) -> None:
    """Hold a handout back until an operation about its messages is committed."""
    serving.held(handout)
    owner.proposal.committed.append(committed)
    owner.operation(operation)


def _release(owner: OwnerState, serving: Serving, handout: Handout) -> None:
    """Send a handout whose operation is committed, and those that have waited behind it."""
    outgoing: Outgoing = {}
    for one in serving.released(handout):
        _hand_over(owner, serving, one, outgoing)
    owner.send(outgoing)


def _removed(serving: Serving, queue: QueueOwner, handout: Handout) -> None:
    """The removal is committed; that of soft messages needs no commit."""
    queue.lifecycle.settle(OWNER, merged(handout.grant.ranges))
    if queue.lifecycle.passes_on:
        serving.mark(handout.queue)


def _hand_over(owner: OwnerState, serving: Serving, handout: Handout, outgoing: Outgoing) -> None:
    grant = handout.grant
    if not grant.redelivered:
        owner.arrivals.delivered(merged(grant.ranges))
    if handout.queue in owner.machine.chronicle.kept:
        owner.histories.leased(handout.queue, grant)
    if grant.consumer >= FIRST_CONSUMER:
        outgoing.setdefault(grant.front_end, []).extend(handout.deliveries)
        return
    queue = owner.queues.get(handout.queue)
    left = 0 if queue is None else len(queue.delivery.ready)
    link = kind_of_get(grant.consumer)
    if link == GET_LINK_KEPT:
        link = GET_LINK_NO_ACK if grant.removal else GET_LINK
    ones = (
        Delivery(
            link, one.queue, [(number, number)], one.redelivered, one.run.slice(i, 1), one.token, one.until
        )
        for one in handout.deliveries
        for i, number in enumerate(numbers_of(one.ranges))
    )
    for request, one in zip(serving.served(handout.queue, grant), ones, strict=False):
        owner.front_ends.answer(grant.front_end, request, left, one)
