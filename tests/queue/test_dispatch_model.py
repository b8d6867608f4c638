"""QueueOwner against a model that knows every single message."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from node.queue.dispatch import Grant
from node.queue.life import LEGAL, Place
from node.queue.operations import OWNER, Annotate, Aspect, Semantics
from node.queue.queue import QueueState
from node.queue.settings import PLAIN, QueueSettings
from node.ranges.range_map import spans_of
from node.ranges.range_set import RangeSet
from tests.queue.building import uniform_run
from tests.queue.owners import owner_of

FRONT_ENDS = st.sampled_from((5, 6, 7))
CONSUMERS = st.tuples(FRONT_ENDS, st.integers(1, 2))
PARTS = st.tuples(st.integers(0, 30), st.integers(0, 30))
VALUES = st.lists(st.integers(0, 2), min_size=1, max_size=9)

READY, HELD, GONE = "ready", "held", "gone"


def life_of(place: str | int) -> Place:
    """The place in the table of a message's life."""
    if isinstance(place, int):
        return Place.REMOVING if place == OWNER else Place.LEASED
    return Place(place)


@dataclass
class Message:
    """Where a message is: a place, or the front end that leases it (OWNER: it is being removed).

    A message goes no way that the table lacks, and the owner's places are the same after each rule.
    """

    soft: bool
    place: str | int = READY
    redelivered: bool = False
    logged_return: bool = False
    level: int = 0
    group: int = 0
    consumer: tuple[int, int] | None = None
    """Who has it, as far as the owner knows."""

    def goes(self, place: str | int) -> None:
        """The message is somewhere else."""
        way = life_of(self.place), life_of(place)
        # What is in no log is gone with its owner, wherever it was.
        assert way[0] == way[1] or way in LEGAL or (self.soft and place == GONE), way
        self.place = place


@dataclass
class ModelConsumer:
    no_ack: bool
    priority: int
    sent: int = 0
    limit: int = 0


def ranges_of(numbers: list[int]) -> list[tuple[int, int]]:
    return list(RangeSet((number, number) for number in numbers).ranges())


class OwnerAgainstModel(RuleBasedStateMachine):
    """Publish, consume, settle, give back, purge, lose front ends and owners, in any order."""

    settings = PLAIN

    @initialize(semantics=st.sampled_from((Semantics.AT_LEAST_ONCE, *Semantics)))
    def create(self, semantics: Semantics) -> None:
        self.at_most_once = semantics is Semantics.AT_MOST_ONCE
        self.state = QueueState(semantics)
        self.owner = owner_of(self.state, fresh=True, settings=self.settings)
        self.messages: dict[int, Message] = {}
        self.consumers: dict[tuple[int, int], ModelConsumer] = {}
        self.next = 1
        self.granted = 0
        self.attach((5, 1), False, 0)
        self.credit((5, 1), 20)
        self.publish(9, 0, False, [1, 0, 1, 2])
        self.commit_the_wanted_mark()

    def settle_in_log(self, parts: list[tuple[int, int]]) -> None:
        for first, last in parts:
            self.state.remove_all([(first, last)])

    def at(self, place: str | int) -> list[int]:
        return [number for number, message in self.messages.items() if message.place == place]

    def window(self, part: tuple[int, int]) -> tuple[int, int]:
        first = max(1, self.next - part[0])
        return first, first + part[1]

    # -- messages come --------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 9),
        gap=st.integers(0, 1),
        soft=st.sampled_from((False, False, True)),
        values=VALUES,
    )
    def publish(self, count: int, gap: int, soft: bool, values: list[int]) -> None:
        first = self.next + gap
        self.next = first + count
        values = [values[i % len(values)] for i in range(count)]
        asked = {
            Aspect.PRIORITY: self.settings.asked.get("max_priority"),
            Aspect.GROUP: self.settings.asked.get("group_by"),
        }
        noted = [(aspect, spans_of(values, first)) for aspect, value in asked.items() if value]
        if soft:
            for aspect, spans in noted:
                self.owner.delivery.soft.annotate(aspect, spans)
            self.owner.lifecycle.add_soft(first, uniform_run(count))
        else:
            self.state.append(first, self.next - 1)
            for aspect, spans in noted:
                columns = (array("Q", numbers) for numbers in zip(*spans, strict=True))
                self.state.annotate(Annotate(1, aspect, *columns))
            self.owner.lifecycle.append(first, self.next - 1)
        for number, value in zip(range(first, self.next), values, strict=True):
            self.messages[number] = Message(
                soft,
                level=value if self.settings.asked.get("max_priority") else 0,
                group=value if self.settings.asked.get("group_by") else 0,
            )

    def in_order(self, consumer: tuple[int, int]) -> list[int]:
        """What is ready for the consumer, in the order in which it should come."""
        ready = sorted(self.at(READY), key=lambda number: (-self.messages[number].level, number))
        busy = {
            message.group
            for message in self.messages.values()
            if message.place not in (READY, GONE) and message.consumer != consumer
        }
        return [number for number in ready if self.messages[number].group not in busy - {0}]

    @rule()
    def commit_the_wanted_mark(self) -> None:
        wanted = self.owner.wanted_mark(self.next - 1)
        needed = any(not each.no_ack for each in self.consumers.values()) and not self.at_most_once
        assert needed or wanted is None
        if wanted is not None:
            assert wanted > self.state.mark
            self.state.mark = wanted
        if needed:
            assert self.state.mark >= self.next - 1

    # -- consumers ------------------------------------------------------------------------------

    @rule(key=CONSUMERS, no_ack=st.sampled_from((False, False, True)), priority=st.integers(0, 1))
    def attach(self, key: tuple[int, int], no_ack: bool, priority: int) -> None:
        if key not in self.consumers:
            self.owner.delivery.consumers.attach(*key, no_ack=no_ack, priority=priority)
            self.state.attached.add(key[0])
            self.consumers[key] = ModelConsumer(no_ack, priority)

    @rule(key=CONSUMERS)
    def detach(self, key: tuple[int, int]) -> None:
        self.owner.delivery.consumers.detach(*key)
        self.consumers.pop(key, None)

    @rule(key=CONSUMERS, more=st.integers(0, 12))
    def credit(self, key: tuple[int, int], more: int) -> None:
        consumer = self.consumers.get(key)
        if consumer is not None:
            consumer.limit = consumer.sent + more
            self.owner.delivery.consumers.credit(*key, consumer.limit)

    @rule(key=CONSUMERS)
    def drain(self, key: tuple[int, int]) -> None:
        consumer = self.consumers.get(key, ModelConsumer(False, 0))
        credit = consumer.limit - consumer.sent
        waiting = self.in_order(key) + self.at(HELD)
        revoked = self.owner.drain(*key)
        if revoked is None:
            # Also where the last turn ended before all that is ready had been looked at.
            assert credit and (waiting or self.owner.unfinished)
        else:
            assert revoked == credit and not (credit and waiting)
            consumer.limit = consumer.sent

    @rule(budget=st.sampled_from((1, 5, 100)))
    def dispatch(self, budget: int) -> None:
        granted = 0
        for grant in self.owner.dispatch(budget):
            self.check(grant)
            granted += grant.messages
        assert granted <= budget
        for key, consumer in self.consumers.items():
            ready = self.in_order(key)
            if granted < budget and ready and consumer.sent < consumer.limit:
                assert self.owner.blocked
                assert not consumer.no_ack
                assert not self.at_most_once
                assert ready[0] > self.state.mark
                assert not self.messages[ready[0]].soft

    def check(self, grant: Grant) -> None:
        key = grant.front_end, grant.consumer
        consumer = self.consumers[key]
        numbers = [number for first, last in grant.ranges for number in range(first, last + 1)]
        assert numbers
        assert grant.removal == (consumer.no_ack or self.at_most_once)
        assert self.in_order(key)[: len(numbers)] == numbers
        for other, each in self.consumers.items():
            if each.priority > consumer.priority and each.sent < each.limit:
                assert numbers[0] > self.state.mark or numbers[0] not in self.in_order(other)
        self.granted = max(self.granted, *numbers)
        for number in numbers:
            message = self.messages[number]
            assert (message.redelivered, message.soft) == (grant.redelivered, grant.soft)
            assert grant.removal or grant.soft or number <= self.state.mark
            message.goes(OWNER if grant.removal else grant.front_end)
            message.consumer = key
        consumer.sent += len(numbers)
        assert consumer.sent <= consumer.limit

    def keep_busy(self, front_end: int) -> None:
        """A consumer with credit at the front end, and what that moves."""
        self.attach((front_end, 1), False, 0)
        for key, consumer in self.consumers.items():
            self.credit(key, consumer.limit - consumer.sent + 5)
        self.commit_the_wanted_mark()
        self.dispatch(100)

    @rule(settling=st.sampled_from((5, 6)), returning=st.booleans(), values=VALUES)
    def take_turns(self, settling: int, returning: bool, values: list[int]) -> None:
        """Two consumers have one message or two each; one of them answers for all; both go on."""
        self.publish(6, 0, False, values)
        self.commit_the_wanted_mark()
        for front_end in (5, 6):
            self.attach((front_end, 1), False, 0)
            self.credit((front_end, 1), 2)
        self.dispatch(100)
        for first, last in ranges_of(self.at(settling)):
            if returning:
                self.release(settling, (self.next - first, last - first), False, (True, False))
            else:
                self.settle(settling, (self.next - first, last - first), False)
        for front_end in (11 - settling, settling):
            self.credit((front_end, 1), 3)
            self.dispatch(100)

    # -- consumers answer -----------------------------------------------------------------------

    @rule(front_end=FRONT_ENDS, part=PARTS, busy=st.booleans())
    def settle(self, front_end: int, part: tuple[int, int], busy: bool) -> None:
        if busy:
            self.keep_busy(front_end)
        first, last = self.window(part)
        given = ranges_of([number for number in self.at(front_end) if first <= number <= last])
        numbers = [number for start, end in given for number in range(start, end + 1)]
        settled = self.owner.lifecycle.settle(front_end, given)
        assert settled.count == len(numbers)
        assert settled.durable == ranges_of([n for n in numbers if not self.messages[n].soft])
        if settled.durable:
            self.state.settle(front_end, settled.durable)
        for number in numbers:
            self.messages[number].goes(GONE)

    @rule()
    def removals_are_committed(self) -> None:
        removed = self.at(OWNER)
        self.settle_in_log(ranges_of(removed))
        assert self.owner.lifecycle.settle(OWNER, ranges_of(removed)).count == len(removed)
        for number in removed:
            self.messages[number].goes(GONE)

    @rule(front_end=FRONT_ENDS, part=PARTS, busy=st.booleans(), flags=st.tuples(st.booleans(), st.booleans()))
    def release(self, front_end: int, part: tuple[int, int], busy: bool, flags: tuple[bool, bool]) -> None:
        redelivered, logged = flags
        if busy:
            self.keep_busy(front_end)
        first, last = self.window(part)
        given = [number for number in self.at(front_end) if first <= number <= last]
        if logged:
            redelivered = True
            self.state.give_back(ranges_of(given), failed=True)
        assert self.owner.lifecycle.release(front_end, first, last, redelivered) == len(given)
        redelivered = redelivered or (bool(given) and given[-1] < self.granted)
        for number in given:
            message = self.messages[number]
            message.goes(READY)
            message.redelivered |= redelivered
            message.logged_return |= logged

    @rule()
    def purge(self) -> None:
        ready = self.at(READY)
        purged = self.owner.lifecycle.purge()
        assert purged.count == len(ready)
        durable = [number for number in ready if not self.messages[number].soft]
        assert ranges_of([n for part in purged.durable for n in range(part[0], part[1] + 1)]) == ranges_of(
            durable
        )
        self.settle_in_log(purged.durable)
        for number in ready:
            self.messages[number].goes(GONE)

    @rule(front_end=FRONT_ENDS)
    def lose_front_end(self, front_end: int) -> None:
        given = self.at(front_end)
        self.owner.lifecycle.lost_front_end(front_end)
        self.state.attached.discard(front_end)
        self.consumers = {key: each for key, each in self.consumers.items() if key[0] != front_end}
        for number in given:
            self.messages[number].goes(READY)
            self.messages[number].redelivered = True

    # -- owners change --------------------------------------------------------------------------

    @rule(lost=st.frozensets(FRONT_ENDS, max_size=2), forgets=st.booleans())
    @precondition(lambda self: self.messages)
    def change_owner(self, lost: frozenset[int], forgets: bool) -> None:
        """Removals that were not committed are undone, soft messages are gone, leases come back."""
        attached = frozenset(self.state.attached)
        self.owner = owner_of(self.state, settings=self.settings)
        self.granted = self.state.settled if self.settings is PLAIN else 0
        self.consumers.clear()
        leased = {front_end: self.at(front_end) for front_end in (5, 6, 7)}
        for number, message in self.messages.items():
            if message.place == GONE:
                continue
            if message.soft:
                message.goes(GONE)
                continue
            message.redelivered = message.logged_return
            held = attached and not self.at_most_once and number <= self.state.mark
            message.goes(HELD if held else READY)
        self.check_places()
        for front_end in sorted(attached):
            if front_end in lost:
                self.owner.lifecycle.lost_front_end(front_end)
                self.state.attached.discard(front_end)
            elif not forgets:
                mine = [number for number in leased[front_end] if not self.messages[number].soft]
                assert self.owner.lifecycle.reattached(front_end, ranges_of(mine)) == ranges_of(mine)
                for number in mine:
                    self.messages[number].goes(front_end)
                    self.messages[number].consumer = front_end, 0
                    self.granted = max(self.granted, number if self.settings is PLAIN else 0)
        self.owner.lifecycle.release_held(redelivered=bool(lost))
        for number in self.at(HELD):
            self.messages[number].goes(READY)
            self.messages[number].redelivered |= bool(lost & attached) or (bool(lost) and forgets)
            # Something newer was given out: so was this, and did not arrive.
            self.messages[number].redelivered |= number < self.granted

    @invariant()
    def check_places(self) -> None:
        if not hasattr(self, "owner"):
            return
        for place, found in ((READY, self.owner.delivery.ready), (HELD, self.owner.delivery.held)):
            assert list(found.ranges()) == ranges_of(self.at(place))
            assert len(found) == len(self.at(place))
        for holder in (OWNER, 5, 6, 7):
            assert list(self.owner.delivery.leases.get(holder, RangeSet()).ranges()) == ranges_of(
                self.at(holder)
            )
        living = {number: message for number, message in self.messages.items() if message.place != GONE}
        soft = [number for number, message in living.items() if message.soft]
        assert list(self.owner.delivery.soft.numbers.ranges()) == ranges_of(soft)
        kept = [
            n
            for first, run in self.owner.delivery.soft.runs(0, self.next)
            for n in range(first, first + run.count)
        ]
        assert kept == soft
        redelivered = [number for number, message in living.items() if message.redelivered]
        assert list(self.owner.delivery.redelivered.ranges()) == ranges_of(redelivered)


class PriorityOwnerAgainstModel(OwnerAgainstModel):
    settings = QueueSettings(max_priority=9)


class GroupOwnerAgainstModel(OwnerAgainstModel):
    settings = QueueSettings(group_by="key")


def test_a_way_that_the_table_lacks_fails() -> None:
    settled = Message(soft=False, place=GONE)
    with pytest.raises(AssertionError):
        settled.goes(READY)


RUNS_OF_MODEL = settings(max_examples=60, stateful_step_count=40)

TestOwnerAgainstModel = OwnerAgainstModel.TestCase
TestOwnerAgainstModel.settings = RUNS_OF_MODEL
TestPriorityOwnerAgainstModel = pytest.mark.requirement("A20.1")(PriorityOwnerAgainstModel.TestCase)
TestPriorityOwnerAgainstModel.settings = RUNS_OF_MODEL
TestGroupOwnerAgainstModel = pytest.mark.requirement("X3.1", "X3.2")(GroupOwnerAgainstModel.TestCase)
TestGroupOwnerAgainstModel.settings = RUNS_OF_MODEL
