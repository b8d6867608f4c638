"""Barriers of queues with several owners (docs/decisions/0091-barriers-over-several-owners.md). Pure.

The owner of the first part numbers the barriers, and gives each to the other parts by numbered transfers. It
asks all parts whether all before the oldest barrier is settled. A part answers when that is so. A loan may
be on its way from one part to another meanwhile: so the owner asks twice. Where no part has taken a loan
from its first answer to its second one, every message before the barrier was settled between the rounds.

Then the log of the first part gets the release of the barrier, which is the commit for all parts. The barrier
stays in the first part until the consumers of all parts have it: so each later owner there tells the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from cluster.owner.barriers import barrier_received, show_barrier
from cluster.owner.context import QueueParts
from cluster.owner.dead_letters import TRANSFERS_UNDER_WAY, DeadLetters
from cluster.owner.placing_barriers import barriers_of, log_release
from cluster.owner.proposal import RETRY_INTERVAL_S
from cluster.owner.state import OwnerState
from cluster.peers.link_messages import NOT_FOUND, NOTHING_TO_GET
from node.delivery.settlements import BARRIERS_AT_ONCE
from node.message.deaths import decode_death
from node.message.reason import Reason
from node.queue.barrier_values import BarrierState, BarrierValue
from node.queue.decision_format import encode_annotate, encode_transfer
from node.queue.dispatch import QueueOwner
from node.queue.operations import OWNER, Aspect
from node.queue.part_barriers import PartBarriers
from node.queue.queue import NONE
from node.queue.transfers import Transfer

BARRIER_REQUESTS: Final = ("barrier_placed", "barrier_settled", "barrier_released")
"""The requests of other parts' owners, each with the part and a generation. They are answered when each part
has the barrier; when all before it is settled in this part; and when the consumers of this part have it.
"""


class Word(NamedTuple):
    """The answer of a part in which all before a barrier is settled: the term of its owner, the loans that
    the owner has taken, and how many consumers the part has.
    """

    term: int
    loans: int
    consumers: int


class _Round:
    """The answers of the other parts about a barrier, by partition. `before` are those of the round before,
    with that of the first part under 0.
    """

    def __init__(self, generation: int, before: dict[int, Word] | None = None) -> None:
        self.generation, self.before = generation, before
        self.words: dict[int, Word] = {}


class _Ask(NamedTuple):
    name: str
    front_end: int
    request: int
    generation: int


class BarriersOfParts:
    """The barriers of one partition's parts, while this node owns the partition."""

    def __init__(self, owner: OwnerState, parts: QueueParts, dead_letters: DeadLetters) -> None:
        self._owner, self._parts, self._dead_letters = owner, parts, dead_letters
        self._asks: dict[int, dict[tuple[str, int, int], _Ask]] = {}
        """The requests that wait, by queue."""
        self._rounds: dict[int, _Round] = {}
        self._asking: set[tuple[int, int]] = set()
        """The barriers of publishers, by queue and number, of which the first part is asked whether each part
        has them.
        """
        self._telling: set[tuple[int, int]] = set()
        """The released barriers, by queue and number, of which the other parts are told."""
        self._last: dict[int, int] = {}
        """By queue the generation of the last barrier that this owner of the first part has numbered."""

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self._asks, self._rounds, self._last = {}, {}, {}
        self._asking, self._telling = set(), set()

    def forget(self, number: int) -> None:
        """A queue is dropped."""
        for ask in self._asks.pop(number, {}).values():
            self._owner.front_ends.answer(ask.front_end, ask.request, NOT_FOUND)
        self._rounds.pop(number, None)
        for place in [one for one in self._owner.barriers.unplaced if one[0] == number]:
            self._placed(*place, None)

    def taken_over(self, number: int) -> None:
        """This node owns a part that another one has owned: no publisher hears of what may not be in each
        part.
        """
        share = barriers_of(self._owner.queues.get(number))
        for barrier, value in [] if share is None else share.rows():
            if self._is_own(value) and value.state is not BarrierState.RELEASED:
                self._owner.barriers.unplaced.add((number, barrier))

    def asked(self, name: str, front_end: int, request: int, number: int, generation: int) -> None:
        """The owner of another part asks about a barrier."""
        if number not in self._owner.queues:
            self._owner.front_ends.answer(front_end, request, NOT_FOUND)
            return
        ask = _Ask(name, front_end, request, generation)
        self._asks.setdefault(number, {})[name, front_end, generation] = ask
        self._owner.serve_again(number)

    def served(self, number: int, queue: QueueOwner) -> None:
        """The part has given its consumers what they can take: go on with its barriers."""
        share = barriers_of(queue)
        if share is None or not (share.numbers or number in self._asks or self._owner.barriers.unplaced):
            return
        if not self._parts.others(number):
            # The queue is deleted, with all its parts.
            return
        first = self._parts.first(number)
        if first == number:
            self._number(number, share)
            self._release(number, queue, share)
        else:
            self._send(number, share, first)
        self._show(number, share, first)
        self._look_for_placed(number, share, first)
        asks = self._asks.get(number, {})
        for key, ask in list(asks.items()):
            if self._answered(ask, number, queue, share):
                del asks[key]
        if not asks:
            self._asks.pop(number, None)

    def _is_own(self, value: BarrierValue) -> bool:
        """Whether a publisher has given the barrier to this part."""
        return value.origin in (0, self._owner.partition)

    # -- each part has the barrier ----------------------------------------------------------------

    def _number(self, number: int, share: PartBarriers) -> None:
        """The first part numbers the barriers that have come, and gives them to the others."""
        others, rows = self._parts.others(number), share.rows()
        for barrier, value in rows:
            if value.state is BarrierState.ASKED and (number, barrier) not in self._owner.barriers.placing:
                if not all(self._has_room(partition) for partition, _ in others):
                    return
                self._last[number] = max(self._last.get(number, 0), share.numbered_through()) + 1
                origin = value.origin or self._owner.partition
                numbered = BarrierValue(BarrierState.PENDING, self._last[number], origin)
                self._give(number, barrier, numbered, others)

    def _send(self, number: int, share: PartBarriers, first: int) -> None:
        """Another part sends the barriers of its publishers to the first one, in their order."""
        target = next(one for one in self._parts.others(number) if one[1] == first)
        for barrier, value in share.rows():
            if value.state is BarrierState.ASKED and (number, barrier) not in self._owner.barriers.placing:
                if not self._has_room(target[0]):
                    return
                self._give(number, barrier, BarrierValue(BarrierState.SENT), [target])

    def _has_room(self, partition: int) -> bool:
        return len(self._dead_letters.link(partition)) < TRANSFERS_UNDER_WAY

    def _give(
        self, number: int, barrier: int, value: BarrierValue, targets: Sequence[tuple[int, int]]
    ) -> None:
        """Put the transfers of a barrier to other parts into the next entry, and that they are made."""
        operations, begun = [encode_annotate(number, Aspect.BARRIER, [(barrier, barrier, value.encoded)])], []
        for partition, part in targets:
            following = self._dead_letters.next_number(partition)
            transfer = Transfer(number, following, (part, number), ((barrier, barrier),))
            begun.append((partition, transfer))
            operations.append(encode_transfer(partition, transfer))
        owner = self._owner
        owner.barriers.placing.add((number, barrier))
        owner.proposal.add_batch(OWNER, 0, owner.next_sequence, operations)
        owner.proposal.committed.append(partial(self._given, number, barrier, begun))
        owner.wake()

    def _given(self, number: int, barrier: int, begun: list[tuple[int, Transfer]]) -> None:
        """The entry is committed."""
        self._owner.barriers.placing.discard((number, barrier))
        for partition, transfer in begun:
            self._dead_letters.link(partition).send(transfer)
        self._owner.serve_again(number)

    def _look_for_placed(self, number: int, share: PartBarriers, first: int) -> None:
        """Find out whether each part has the barriers of this part's publishers."""
        owner, values = self._owner, dict(share.rows())
        for _, barrier in sorted(place for place in owner.barriers.unplaced if place[0] == number):
            value = values.get(barrier)
            if value is None:
                # Not in the log yet, or out of the queue.
                if barrier < owner.machine.next_sequence:
                    self._placed(number, barrier, None)
            elif first == number:
                if value.generation and self._everywhere(number, value.generation, share):
                    self._placed(number, barrier, None)
            elif value.generation and (number, barrier) not in self._asking:
                self._asking.add((number, barrier))
                partition = next(one for one, part in self._parts.others(number) if part == first)
                arguments = [*NOTHING_TO_GET, first, value.generation]
                placed = partial(self._placed, number, barrier)
                self._dead_letters.link(partition).ask("barrier_placed", arguments, placed)

    def _everywhere(self, number: int, generation: int, share: PartBarriers) -> bool:
        """Whether each part has the barriers up to a generation, as far as the first part knows."""
        under_way = self._owner.machine.transfers.staying(number)
        left = (value.generation <= generation for barrier, value in share.rows() if barrier in under_way)
        return share.numbered_through() >= generation and not any(left)

    def _placed(self, number: int, barrier: int, _: Any) -> None:
        """Each part has a barrier: publishers hear of it, and of what came behind it."""
        barriers = self._owner.barriers
        self._asking.discard((number, barrier))
        barriers.unplaced.discard((number, barrier))
        if not barriers.unplaced:
            untold, barriers.untold = barriers.untold, {}
            for front_end, batch in untold.items():
                self._owner.acknowledge(front_end, batch)

    # -- the release ------------------------------------------------------------------------------

    def _release(self, number: int, queue: QueueOwner, share: PartBarriers) -> None:
        """The first part asks the others about the next barrier, and releases it."""
        found = share.pending()
        if found is None or (number, found[0]) in self._owner.barriers.releasing:
            return
        barrier, value = found
        asking = self._rounds.get(number)
        if asking is None or asking.generation != value.generation:
            asking = self._begin(number, value.generation, None)
        others = self._parts.others(number)
        if len(asking.words) < len(others) or not self._settled(number, queue, share, value.generation):
            return
        words = {**asking.words, 0: self._word(number, queue)}
        same = asking.before is not None and all(
            word[:2] == asking.before[partition][:2] for partition, word in words.items()
        )
        if not same:
            self._begin(number, value.generation, words)
        elif any(word.consumers for word in words.values()):
            del self._rounds[number]
            self._log_release(number, barrier, value)
        else:
            # A consumer may come to any part.
            del self._rounds[number]
            self._again_later(number)

    def _log_release(self, number: int, barrier: int, value: BarrierValue) -> None:
        """The commit for all parts."""
        barriers = self._owner.barriers
        if barriers.count >= BARRIERS_AT_ONCE:
            barriers.full.add(number)
        else:
            self._put_release(number, barrier, value)

    def _put_release(self, number: int, barrier: int, value: BarrierValue) -> None:
        """Put the release of a barrier into the next entry."""
        self._owner.barriers.releasing.add((number, barrier))
        log_release(self._owner, number, barrier, value)
        self._owner.proposal.committed.append(partial(self._logged, number, barrier))

    def _logged(self, number: int, barrier: int) -> None:
        self._owner.barriers.releasing.discard((number, barrier))
        self._owner.serve_again(number)

    def _begin(self, number: int, generation: int, before: dict[int, Word] | None) -> _Round:
        asking = self._rounds[number] = _Round(generation, before)
        for partition, part in self._parts.others(number):
            arguments = [*NOTHING_TO_GET, part, generation]
            told = partial(self._told, number, asking, partition)
            self._dead_letters.link(partition).ask("barrier_settled", arguments, told)
        return asking

    def _told(self, number: int, asking: _Round, partition: int, value: Any) -> None:
        if self._rounds.get(number) is not asking:
            return
        if value == NOT_FOUND:
            del self._rounds[number]
            self._again_later(number)
        else:
            asking.words[partition] = Word(*value)
            self._owner.serve_again(number)

    def _again_later(self, number: int) -> None:
        self._owner.alarms.set(number, self._owner.wall_ms() + int(RETRY_INTERVAL_S * 1000))

    def _settled(self, number: int, queue: QueueOwner, share: PartBarriers, generation: int) -> bool:
        """Whether all before a barrier is settled in this part. A message that is lent counts here until it
        has come to the borrower: an owner lends nothing behind the barrier.
        """
        if self._owner.borrowed[number] or not share.settled(share.before(generation)):
            return False
        leaving = self._owner.dead_messages.leaving.get(number, NONE)
        deaths = queue.delivery.state.annotations.get(Aspect.DEATH)
        for first, last in leaving.ranges():
            # The entry of a loan may not be applied yet.
            values = [0] if deaths is None else [one[2] for one in deaths.cover(first, last)]
            if any(not value or decode_death(value)[0] is Reason.LENT for value in values):
                return False
        return True

    def _word(self, number: int, queue: QueueOwner) -> Word:
        owner = self._owner
        return Word(owner.term, owner.barriers.loans[number], queue.delivery.consumers.count)

    # -- consumers have the barrier ---------------------------------------------------------------

    def _show(self, number: int, share: PartBarriers, first: int) -> None:
        """Send the released barriers, in their order. The first part keeps each until the consumers of all
        parts have it.
        """
        released = [row for row in share.unsent() if row[1].state is BarrierState.RELEASED]
        for barrier, value in sorted(released, key=lambda row: row[1].generation):
            place = (number, barrier)
            if first == number and place not in self._telling:
                self._telling.add(place)
                others = self._parts.others(number)
                self._owner.barriers.elsewhere[place] = {-partition for partition, _ in others}
                for partition, part in others:
                    had = partial(self._had, number, barrier, partition)
                    arguments = [*NOTHING_TO_GET, part, value.generation]
                    self._dead_letters.link(partition).ask("barrier_released", arguments, had)
            show_barrier(self._owner, number, barrier)

    def _had(self, number: int, barrier: int, partition: int, _: Any) -> None:
        """The consumers of another part have a barrier."""
        self._owner.barriers.elsewhere.get((number, barrier), set()).discard(-partition)
        barrier_received(self._owner, -partition, number, barrier)

    # -- requests of other parts ------------------------------------------------------------------

    def _answered(self, ask: _Ask, number: int, queue: QueueOwner, share: PartBarriers) -> bool:
        """Carry out what another part asks. Returns whether nothing is left to do."""
        owner, generation = self._owner, ask.generation
        if owner.front_ends.current(ask.front_end) is None:
            # A new owner there, or this one when it greets again, asks anew.
            return True
        if ask.name == "barrier_placed":
            if not self._everywhere(number, generation, share):
                return False
            owner.front_ends.answer(ask.front_end, ask.request, None)
        elif ask.name == "barrier_settled":
            found = share.pending()
            if found is None or found[1].generation != generation:
                return share.released_through() >= generation
            if not self._settled(number, queue, share, generation):
                return False
            word = [*self._word(number, queue)]
            # The settlements that the owner has taken are in the log then, and there is no later owner.
            tell = partial(owner.linearizable_reads.answer, ask.front_end, ask.request, word)
            owner.after_proposed(tell)
        else:
            return self._released(ask, number, share)
        return True

    def _released(self, ask: _Ask, number: int, share: PartBarriers) -> bool:
        """The first part has released a barrier. The answer comes when the consumers of this part have it."""
        owner = self._owner
        left = [row for row in share.rows() if 0 < row[1].generation <= ask.generation]
        for barrier, value in left:
            if value.state is BarrierState.PENDING and (number, barrier) not in owner.barriers.releasing:
                self._put_release(number, barrier, value)
        if left or share.released_through() < ask.generation:
            return False
        owner.front_ends.answer(ask.front_end, ask.request, None)
        return True
