"""An owner's part in the takes of its queues (docs/decisions/0078). Pure.

A take is one entry, by which the owner holds ready messages for a reader. Each request is answered by the
state once the request's entry is applied, so that a request that comes again, at this owner or at a later
one, has the same answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from cluster.owner.context import OverdueTake, OwnerContext
from cluster.owner.intake import take_return, take_settle
from cluster.owner.serving import Serving
from cluster.owner.state import OwnerState
from cluster.peers.link_messages import NOT_FOUND, NOTHING_TO_GET
from cluster.peers.take_requests import (
    ENDED,
    HELD,
    NOT_KNOWN,
    NOT_NEXT,
    NOTHING_READY,
    RELEASE,
    SETTLE_TAKES,
    SHOW_TAKES,
    TAKE_REQUEST,
    TAKE_SETTLED,
    TOO_MANY_READERS,
    UNFIT,
)
from node.queue.delivery_state import DeliveryState
from node.queue.dispatch import QueueOwner
from node.queue.operations import TAKES, OpKind, Return, Settle
from node.queue.take_operations import LAST_TAKE, TakeStep, UpdateTake, encode_take
from node.queue.takes import EVERY_RELEASED_READER, MOST_READERS, QueueTakes, TakingReader
from node.ranges.range_set import Range, count_of

MOST_TAKEN_RANGES: Final = 65_536
"""Ranges of messages that one take has at most. A take that would have more has fewer messages."""

NUMBERS_UNDER_WAY: Final = 1024
"""So many numbers behind the last one a reader may have asked for when it is released."""


class TakeQuestion(NamedTuple):
    """A request of a front end. `number`: of the take, or the last one of a reader that is released; `rows`
    and `octets`: of a new take at most; `end`: the number behind its messages, 0 for none.
    """

    front_end: int
    request: int
    queue: int
    deed: str
    reader: bytes
    number: int = 0
    rows: int = 0
    octets: int = 0
    end: int = 0


class OwnedTakes:
    """See the module's docstring."""

    def __init__(self, owner: OwnerState, context: OwnerContext, serving: Serving) -> None:
        self._owner, self._context, self._serving = owner, context, serving
        # The queues with a step that is not applied yet: what follows waits for it.
        self._stepping: set[int] = set()
        # When this owner has heard of readers with takes, by queue and name, by the node's clock.
        self._heard: dict[tuple[int, bytes], float] = {}

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self._stepping.clear()
        self._heard.clear()

    # -- requests -------------------------------------------------------------------------------

    def asked(self, front_end: int, request: int, name: str, arguments: list[Any]) -> bool:
        """Carry out a request about takes. Returns False for every other request."""
        if name != TAKE_REQUEST:
            return False
        asked = TakeQuestion(front_end, request, *arguments[len(NOTHING_TO_GET) :])
        self._owner.used(asked.queue)
        self._heard[asked.queue, asked.reader] = self._owner.now
        # The entry that creates the queue, and what clients have published, may be on its way.
        self._owner.after_proposed(partial(self._take_applied, asked))
        return True

    def _take_applied(self, asked: TakeQuestion) -> None:
        if asked.queue in self._stepping:
            self._owner.after_proposed(partial(self._take_applied, asked))
        elif asked.queue not in self._owner.queues:
            self._read(asked, NOT_FOUND)
        elif asked.deed == SHOW_TAKES:
            self._read(asked, [SHOW_TAKES, *self._shown(asked.queue)])
        elif asked.deed == RELEASE:
            self._release(asked)
        elif asked.deed == SETTLE_TAKES:
            self._settle(asked)
        else:
            # Consumers that have credit, and what expires, come first.
            self._serving.when_served(asked.queue, partial(self._take, asked))
            self._owner.wake()

    def _takes(self, queue: int) -> QueueTakes:
        state = self._owner.machine.queues.get(queue)
        return QueueTakes() if state is None or state.takes is None else state.takes

    def _reader(self, asked: TakeQuestion) -> TakingReader | None:
        return self._takes(asked.queue).readers.get(asked.reader)

    def _read(self, asked: TakeQuestion, value: list[Any]) -> None:
        """Answer without an entry: a deposed owner does not know what readers have."""
        self._owner.linearizable_reads.answer(asked.front_end, asked.request, value)

    def _answer(self, asked: TakeQuestion, value: list[Any]) -> None:
        self._owner.front_ends.answer(asked.front_end, asked.request, value)

    def _step(self, updates: list[UpdateTake], then: Callable[[], None], before: bytes | None = None) -> None:
        """Log steps of one queue behind an operation, in one entry; `then` is called when the entry is
        applied.
        """
        queue = updates[0].queue
        self._stepping.add(queue)
        self._owner.operation((before or b"") + b"".join(encode_take(OpKind.TAKE, one) for one in updates))
        self._owner.proposal.committed.append(partial(self._stepped, queue, then))

    def _stepped(self, queue: int, then: Callable[[], None]) -> None:
        self._stepping.discard(queue)
        then()

    def _known(self, asked: TakeQuestion) -> list[Any] | None:
        """The answer about a number that the state has; None for the next number of a reader."""
        if asked.queue not in self._owner.machine.queues:
            return NOT_FOUND
        reader, number = self._reader(asked), asked.number
        if reader is None:
            last = self._takes(asked.queue).released_upto
            if number <= last:
                return [NOT_KNOWN]
        else:
            last = reader.last
            if number in reader.held:
                take = reader.held[number]
                return [HELD, take.time, list(take.messages.ranges())]
            # In front of a number that is committed no one knows which of the ended ones were committed.
            if number <= reader.ended and not number <= reader.committed <= reader.ended:
                return [ENDED]
            if number <= reader.committed:
                return [TAKE_SETTLED, reader.committed]
        return None if number == last + 1 else [NOT_NEXT, last]

    # -- steps ----------------------------------------------------------------------------------

    def _take(self, asked: TakeQuestion) -> None:
        if asked.queue in self._stepping:
            self._take_applied(asked)
            return
        queue, known = self._owner.queues.get(asked.queue), self._known(asked)
        if queue is None:
            self._read(asked, NOT_FOUND)
        elif known is not None:
            self._read(asked, known)
        elif (unfit := self._unfit(asked.queue, queue)) is not None:
            self._read(asked, [UNFIT, unfit])
        elif self._reader(asked) is None and len(self._takes(asked.queue).named()) >= MOST_READERS:
            self._read(asked, [TOO_MANY_READERS])
        elif ranges := self._chosen(queue, asked):
            _hold(queue.delivery, ranges)
            now = self._owner.wall_ms()
            step = UpdateTake(asked.queue, TakeStep.TAKEN, asked.reader, asked.number, now, tuple(ranges))
            self._step([*self._before_first(asked), step], partial(self._tell, asked))
        else:
            self._read(asked, [NOTHING_READY])

    def _before_first(self, asked: TakeQuestion) -> list[UpdateTake]:
        """The numbers of readers that were released have ended for a new reader, of the same name or not."""
        last = self._takes(asked.queue).released_upto
        if not last or self._reader(asked) is not None:
            return []
        return [UpdateTake(asked.queue, TakeStep.ENDED, asked.reader, last)]

    def _tell(self, asked: TakeQuestion) -> None:
        """The step of a request is applied."""
        self._answer(asked, self._known(asked) or [NOT_KNOWN])

    def _unfit(self, number: int, queue: QueueOwner) -> str | None:
        """Why no reader takes messages of the queue; None where readers do."""
        described, consumers = self._owner.described(number), queue.delivery.consumers
        reasons = {
            "removes messages before it delivers them": self._owner.settings_of(number).at_most_once,
            "is a stream, which is read without takes": described.stream,
            "has several owners": described.shared,
            "has groups of messages": described.by_consumer,
            "has a single active consumer": described.takes_turns,
            "has priorities": not queue.delivery.ready.by_age,
            "has a limit on unsettled messages": bool(queue.lifecycle.hooks.room),
            "has an exclusive consumer": consumers.exclusive,
        }
        return next((reason for reason, true in reasons.items() if true), None)

    def _chosen(self, queue: QueueOwner, asked: TakeQuestion) -> list[Range]:
        """The ready messages of a new take, the oldest first, as far as consumers may have them now.
        Transient messages, which are in no log, stay with the queue.
        """
        delivery, found, weighing = queue.delivery, list[Range](), _Weighing(self._owner, asked.octets)
        rows, alive = asked.rows, delivery.state.alive
        through = min(delivery.offered_to, delivery.deepest)
        if asked.end:
            through = min(through, asked.end - 1)
        for low, high in delivery.ready.ranges():
            for first, last in alive.intersection(low, min(high, through)) if low <= through else ():
                end = weighing.fitting(first, min(last, first + rows - 1))
                if end >= first:
                    found.append((first, end))
                    rows -= end - first + 1
                if end < last or not rows or len(found) >= MOST_TAKEN_RANGES:
                    return found
        return found

    def _settle(self, asked: TakeQuestion) -> None:
        known, reader = self._known(asked), self._reader(asked)
        if reader is None:
            self._read(asked, [NOT_KNOWN])
        elif known is None or known[0] != HELD:
            self._read(asked, known or [NOT_NEXT, reader.last])
        else:
            settled = Settle(asked.queue, reader.messages(asked.number))
            step = UpdateTake(asked.queue, TakeStep.COMMITTED, asked.reader, asked.number)
            self._step([step], partial(self._tell, asked), take_settle(self._owner, TAKES, settled))

    def _release(self, asked: TakeQuestion) -> None:
        """A reader that is not known may have requests under way all the same."""
        reader, released = self._reader(asked), self._takes(asked.queue).released_upto
        last = released if reader is None else reader.last
        if asked.number and asked.number < last + (reader is None):
            self._read(asked, [NOT_KNOWN])
            return
        upto = max(released, asked.number or min(last + NUMBERS_UNDER_WAY, LAST_TAKE - 1))
        steps = [UpdateTake(asked.queue, TakeStep.COMMITTED, EVERY_RELEASED_READER, upto)]
        if reader is not None:
            steps.insert(0, UpdateTake(asked.queue, TakeStep.RELEASED, asked.reader, last))
        self._give_back(steps, reader or TakingReader(), partial(self._answer, asked, [NOT_KNOWN]))

    def _give_back(self, steps: list[UpdateTake], reader: TakingReader, then: Callable[[], None]) -> None:
        """Return the messages of a reader's takes to their places in the queue. Their next deliveries are
        marked redelivered: the reader may have had them.
        """
        ranges, number = reader.messages(LAST_TAKE), steps[0].queue

        def returned() -> None:
            queue = self._owner.queues.get(number)
            if queue is not None:
                for part in ranges:
                    queue.lifecycle.release(TAKES, *part)
                self._owner.mark(number)
            then()

        given = take_return(self._owner, TAKES, Return(number, ranges, False)) if ranges else None
        self._step(steps, returned, given)

    def _shown(self, queue: int) -> list[Any]:
        takes = self._takes(queue)
        rows = [
            [
                name,
                one.committed,
                one.ended,
                [[number, take.time, len(take.messages)] for number, take in sorted(one.held.items())],
            ]
            for name, one in takes.named()
        ]
        return [rows, takes.released_upto, self._owner.machine.next_sequence]

    # -- time-outs ------------------------------------------------------------------------------

    def end_overdue(self) -> None:
        """End the takes of readers of which this owner has heard nothing for the time-out. Called every
        `RETRY_INTERVAL_S`.
        """
        now, told, heard = self._owner.now, self._context.overdue_takes, dict[tuple[int, bytes], float]()
        for queue, state in self._owner.machine.queues.items():
            for name, reader in state.takes.readers.items() if state.takes is not None else ():
                if not reader.held:
                    continue
                since = heard[queue, name] = self._heard.get((queue, name), now)
                if now - since >= told.timeout_s and queue in self._owner.queues:
                    self._end(queue, name, reader)
        self._heard = heard

    def _end(self, queue: int, name: bytes, reader: TakingReader) -> None:
        if queue not in self._stepping:
            messages = count_of(reader.messages(LAST_TAKE))
            overdue = OverdueTake(queue, name, len(reader.held), messages)
            step = UpdateTake(queue, TakeStep.ENDED, name, reader.last)
            self._give_back([step], reader, partial(self._context.overdue_takes.note, overdue))


def _hold(delivery: DeliveryState, ranges: list[Range]) -> None:
    """Ready messages are held for a reader from now on."""
    for part in ranges:
        delivery.ready.remove(*part)
        delivery.tally.redelivered += delivery.redelivered.count_in(*part)
    delivery.lease_of(TAKES).update(ranges)
    delivery.granted = max(delivery.granted, ranges[-1][1])
    delivery.tally.delivered += count_of(ranges)


class _Weighing:
    """Counts the octets of the entries that have the messages of a take, up to a limit; 0 for none. The first
    entry counts, however large it is.
    """

    def __init__(self, owner: OwnerState, limit: int) -> None:
        self._machine, self._entries, self._limit = owner.machine, owner.entries.source, limit
        self._octets = self._entry = 0

    def fitting(self, first: int, last: int) -> int:
        """The last message of a range that is within the limit; the one in front of `first` for none."""
        if not self._limit:
            return last
        at = first
        while at <= last:
            index = self._machine.locate(at)
            if index != self._entry:
                octets = self._octets + self._entries.octets_of(index)
                if self._entry and octets > self._limit:
                    break
                self._octets, self._entry = octets, index
            at = self._machine.first_behind(index)
        return min(last, at - 1)
