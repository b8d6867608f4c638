"""The rules of `QueueOwner` against a model of single messages."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from node.expressions.selector import Selector
from node.message.run import Run
from node.queue.dispatch import Grant
from node.queue.filtering import LookBudget
from node.queue.operations import OWNER, Aspect, Semantics
from node.queue.schedule import SLOT_MS
from node.queue.settings import PLAIN
from node.ranges.range_set import RangeSet
from tests.queue.building import uniform_run
from tests.queue.grant_order import check_order
from tests.queue.model_queue import (
    DEAD,
    GONE,
    HELD,
    READY,
    SCHEDULED,
    WITHHELD,
    ModelConsumer,
    ModelQueue,
    ranges_of,
)
from tests.queue.owners import owner_of
from tests.queue.places import check_places

FRONT_ENDS = st.sampled_from((5, 6, 7))
CONSUMERS = st.tuples(FRONT_ENDS, st.integers(1, 2))
PARTS = st.tuples(st.integers(0, 30), st.integers(0, 30))
VALUES = st.lists(st.integers(0, 2), min_size=1, max_size=9)

DELAYS = st.sampled_from((0, 0, 0, 1, 2))
"""The delays of messages, in slots of the schedule."""

REST_MS = 2 * SLOT_MS
"""The rest of a message after a failed delivery, in milliseconds."""


class OwnerAgainstModel(RuleBasedStateMachine):
    """Publishes, consumes, settles, returns and purges, and loses front ends and owners, in any order."""

    settings = PLAIN

    @initialize(semantics=st.sampled_from((Semantics.AT_LEAST_ONCE, *Semantics)))
    def create(self, semantics: Semantics) -> None:
        self.at_most_once = semantics is Semantics.AT_MOST_ONCE
        self.queue = ModelQueue(semantics, self.settings)
        self.owner = owner_of(self.queue.state, fresh=True, settings=self.settings, read=self.read)
        self.consumers: dict[tuple[int, int], ModelConsumer] = {}
        self.granted = self.now = 0
        self.dead_before: list[int] = []
        self.attach((5, 1), False, 0)
        self.credit((5, 1), 20)
        self.publish(9, 0, False, [1, 0, 1, 2], 0)
        self.commit_the_wanted_mark()

    def run(self, first: int, count: int) -> Run:
        """The contents of messages, numbered from `first` on."""
        return uniform_run(count)

    def filter_of(self, key: tuple[int, int]) -> Selector | None:
        """The filter of a consumer."""
        return None

    def wanted(self, key: tuple[int, int], numbers: list[int]) -> list[int]:
        """Those of the messages that the consumer's filter takes."""
        return numbers

    def read(self, first: int, last: int) -> list[tuple[int, Run]]:
        """The first ones of some messages in the log."""
        return [(first, self.run(first, min(3, last - first + 1)))]

    # -- messages come --------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 9),
        gap=st.integers(0, 1),
        soft=st.sampled_from((False, False, True)),
        values=VALUES,
        delay=DELAYS,
    )
    def publish(self, count: int, gap: int, soft: bool, values: list[int], delay: int) -> None:
        due = self.now + delay * SLOT_MS if delay else 0
        first, notes = self.queue.numbered(count, gap, soft, values, due)
        if soft:
            self.owner.lifecycle.add_soft(first, self.run(first, count), notes)
        else:
            self.queue.append(first, count, notes)
            self.owner.lifecycle.append(first, self.queue.next - 1)
        for number in range(first, self.queue.next):
            self.queue.messages[number].goes(SCHEDULED if delay else READY)

    @rule(count=st.integers(1, 3), values=VALUES, delay=DELAYS)
    def publish_in_a_transaction(self, count: int, values: list[int], delay: int) -> None:
        due = self.now + delay * SLOT_MS if delay else 0
        first, notes = self.queue.numbered(count, 0, False, values, due)
        self.queue.append(first, count, notes)
        self.queue.state.withhold(first, self.queue.next - 1)
        for number in range(first, self.queue.next):
            self.queue.messages[number].goes(WITHHELD)

    @rule(committed=st.sampled_from((True, True, False)))
    def conclude_transactions(self, committed: bool) -> None:
        withheld = self.queue.at(WITHHELD)
        for first, last in ranges_of(withheld):
            parts = self.queue.state.release(first, last)
            assert parts == [(first, last)]
            if committed:
                self.owner.lifecycle.append(first, last)
            else:
                self.queue.state.remove_all(parts)
        for number in withheld:
            message = self.queue.messages[number]
            shown = SCHEDULED if message.due > self.now else READY
            if committed and message.due and shown == READY:
                # The message is due, which the owner notices at the next step of its schedule.
                message.goes(SCHEDULED)
            message.goes(shown if committed else GONE)
        self.pass_time(0)

    @rule(count=st.integers(1, 2), values=VALUES)
    def refuse_as_dead_letters(self, count: int, values: list[int]) -> None:
        first, notes = self.queue.numbered(count, 0, False, values, 0)
        self.queue.append(first, count, notes)
        self.queue.kill([(first, self.queue.next - 1)])
        self.owner.lifecycle.append(first, self.queue.next - 1)
        for number in range(first, self.queue.next):
            self.queue.messages[number].goes(DEAD)

    @rule()
    def dead_letters_are_moved(self) -> None:
        dead = self.queue.at(DEAD)
        self.queue.settle(ranges_of(dead))
        for number in dead:
            self.queue.messages[number].goes(GONE)

    # -- time passes ----------------------------------------------------------------------------

    @rule(slots=st.integers(1, 2))
    def wait(self, slots: int) -> None:
        self.pass_time(slots)

    def pass_time(self, slots: int) -> None:
        """Let time pass: due messages are ready. While the owner waits for front ends, it holds due messages
        that a former owner may have leased.
        """
        self.now += slots * SLOT_MS
        while self.owner.delivery.scheduled is not None and self.owner.delivery.scheduled.wake <= self.now:
            self.owner.lifecycle.let_go(self.now)
        for number in self.queue.at(SCHEDULED):
            message = self.queue.messages[number]
            if message.due <= self.now:
                message.goes(HELD if self.owner.delivery.awaited and number <= self.inherited else READY)
                message.resting = False

    def in_order(self, consumer: tuple[int, int]) -> list[int]:
        """The ready messages for the consumer, in the order of delivery."""
        ready = sorted(self.queue.at(READY), key=lambda number: (-self.queue.messages[number].level, number))
        busy = {
            message.group
            for message in self.queue.messages.values()
            if message.place == HELD
            or message.resting
            or (isinstance(message.place, int) and message.consumer != consumer)
        }
        free = [number for number in ready if self.queue.messages[number].group not in busy - {0}]
        return self.wanted(consumer, free)

    @rule()
    def commit_the_wanted_mark(self) -> None:
        wanted = self.owner.wanted_mark(self.queue.next - 1)
        needed = any(not each.no_ack for each in self.consumers.values()) and not self.at_most_once
        assert needed or wanted is None
        if wanted is not None:
            assert wanted > self.queue.state.mark
            self.queue.state.mark = wanted
        if needed:
            assert self.queue.state.mark >= self.queue.next - 1

    # -- consumers ------------------------------------------------------------------------------

    @rule(key=CONSUMERS, no_ack=st.sampled_from((False, False, True)), priority=st.integers(0, 1))
    def attach(self, key: tuple[int, int], no_ack: bool, priority: int) -> None:
        if key not in self.consumers:
            terms = {"no_ack": no_ack, "priority": priority, "selector": self.filter_of(key)}
            self.owner.delivery.consumers.attach(*key, **terms)
            self.queue.state.attached.add(key[0])
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
        waiting = self.in_order(key) + self.queue.at(HELD)
        revoked = self.owner.drain(*key)
        if revoked is None:
            # Also where the last turn ended before it had looked at all ready messages.
            assert credit and (waiting or self.owner.unfinished or self.owner.looking)
        else:
            assert revoked == credit and not (credit and waiting)
            consumer.limit = consumer.sent

    @rule(budget=st.sampled_from((1, 5, 100)))
    def dispatch(self, budget: int) -> None:
        granted, looks = 0, LookBudget(1, 40)
        self.owner.looking = True
        while self.owner.looking and granted < budget:
            for grant in self.owner.dispatch(budget - granted, None, looks):
                self.check(grant)
                granted += grant.messages
        assert granted <= budget
        for key, consumer in self.consumers.items():
            ready = self.in_order(key)
            if granted < budget and ready and consumer.sent < consumer.limit:
                assert self.owner.blocked
                assert not consumer.no_ack
                assert not self.at_most_once
                assert ready[0] > self.queue.state.mark
                assert not self.queue.messages[ready[0]].soft

    def check(self, grant: Grant) -> None:
        key = grant.front_end, grant.consumer
        consumer = self.consumers[key]
        numbers = [number for first, last in grant.ranges for number in range(first, last + 1)]
        assert numbers
        assert grant.removal == (consumer.no_ack or self.at_most_once)
        check_order(self.in_order(key), numbers, self.queue.messages, "group_by" in self.settings.asked)
        for other, each in self.consumers.items():
            if each.priority > consumer.priority and each.sent < each.limit:
                later = numbers[0] > self.queue.state.mark or numbers[0] not in self.in_order(other)
                assert later or self.owner.looking
        self.granted = max(self.granted, *numbers)
        for number in numbers:
            message = self.queue.messages[number]
            assert (message.redelivered, message.soft) == (grant.redelivered, grant.soft)
            assert grant.removal or grant.soft or number <= self.queue.state.mark
            message.goes(OWNER if grant.removal else grant.front_end)
            message.consumer = key
        consumer.sent += len(numbers)
        assert consumer.sent <= consumer.limit

    def keep_busy(self, front_end: int) -> None:
        """Give a consumer at the front end credit, and dispatch."""
        self.attach((front_end, 1), False, 0)
        for key, consumer in self.consumers.items():
            self.credit(key, consumer.limit - consumer.sent + 5)
        self.commit_the_wanted_mark()
        self.dispatch(100)

    @rule(settling=st.sampled_from((5, 6)), returning=st.booleans(), values=VALUES)
    def take_turns(self, settling: int, returning: bool, values: list[int]) -> None:
        """Give two consumers messages; one of them settles or returns all; dispatch again."""
        self.publish(6, 0, False, values, 0)
        self.commit_the_wanted_mark()
        for front_end in (5, 6):
            self.attach((front_end, 1), False, 0)
            self.credit((front_end, 1), 2)
        self.dispatch(100)
        for first, last in ranges_of(self.queue.at(settling)):
            if returning:
                self.release(settling, (self.queue.next - first, last - first), False, (True, False))
            else:
                self.settle(settling, (self.queue.next - first, last - first), False)
        for front_end in (11 - settling, settling):
            self.credit((front_end, 1), 3)
            self.dispatch(100)

    # -- consumers answer -----------------------------------------------------------------------

    @rule(front_end=FRONT_ENDS, part=PARTS, busy=st.booleans(), rejected=st.booleans())
    def settle(self, front_end: int, part: tuple[int, int], busy: bool, rejected: bool = False) -> None:
        """Settle messages; `rejected`: reject them, on a queue with a dead-letter exchange."""
        if busy:
            self.keep_busy(front_end)
        first, last = self.queue.window(part)
        given = ranges_of([number for number in self.queue.at(front_end) if first <= number <= last])
        numbers = [number for start, end in given for number in range(start, end + 1)]
        self.settle_all(front_end, numbers, rejected)

    def settle_all(self, front_end: int, numbers: list[int], rejected: bool) -> None:
        settled = self.owner.lifecycle.settle(front_end, ranges_of(numbers))
        assert settled.count == len(numbers)
        assert settled.durable == ranges_of([n for n in numbers if not self.queue.messages[n].soft])
        if rejected:
            self.queue.kill(settled.durable)
        elif settled.durable:
            self.queue.state.settle(settled.durable)
        for message in [self.queue.messages[number] for number in numbers]:
            message.goes(DEAD if rejected and not message.soft else GONE)
            message.resting = False

    @rule(place=st.sampled_from((READY, SCHEDULED)), part=PARTS, rejected=st.booleans())
    def settle_what_was_lost(self, place: str, part: tuple[int, int], rejected: bool) -> None:
        """A consumer settles messages whose lease it has lost."""
        first, last = self.queue.window(part)
        numbers = [number for number in self.queue.at(place) if first <= number <= last]
        if numbers and not self.at_most_once:
            self.was_given_out(max(numbers))
            self.settle_all(5, numbers, rejected)

    def was_given_out(self, number: int) -> None:
        """A former owner has leased the message, and all older ones where the order is by age."""
        if self.queue.by_age and self.owner.delivery.ready.by_age:
            self.granted = max(self.granted, number)

    @rule()
    def removals_are_committed(self) -> None:
        removed = self.queue.at(OWNER)
        self.queue.settle(ranges_of(removed))
        assert self.owner.lifecycle.settle(OWNER, ranges_of(removed)).count == len(removed)
        for number in removed:
            self.queue.messages[number].goes(GONE)

    @rule(front_end=FRONT_ENDS, part=PARTS, busy=st.booleans(), flags=st.tuples(st.booleans(), st.booleans()))
    def release(self, front_end: int, part: tuple[int, int], busy: bool, flags: tuple[bool, bool]) -> None:
        redelivered, logged = flags
        if busy:
            self.keep_busy(front_end)
        first, last = self.queue.window(part)
        given = [number for number in self.queue.at(front_end) if first <= number <= last]
        self.give_back(front_end, given, [(first, last)], redelivered, logged)

    def give_back(
        self,
        front_end: int,
        given: list[int],
        parts: list[tuple[int, int]],
        redelivered: bool,
        logged: bool,
    ) -> None:
        """Return the `given` messages of the parts. `logged`: the log counts a failed delivery."""
        rests: list[tuple[int, int, int]] = []
        if logged:
            redelivered = True
            rests = self.owner.lifecycle.rest(front_end, ranges_of(given), self.now)
            self.queue.state.give_back(ranges_of(given), failed=True)
            durable = [
                (*part, due)
                for first, last, due in sorted(rests)
                for part in self.queue.state.alive.intersection(first, last)
            ]
            if durable:
                self.queue.annotate(Aspect.DUE, durable)
        resting = {number for first, last, _ in rests for number in range(first, last + 1)}
        assert resting == (set(given) if logged and self.settings.asked.get("redelivery_backoff") else set())
        held = self.queue.at(HELD)
        if held and given:  # Only now: messages that rest end the order by age.
            self.was_given_out(max(given))
        back = sum(self.owner.lifecycle.release(front_end, *part, redelivered) for part in parts)
        assert back == len(set(given).difference(held))
        newest = self.queue.newest_delivered(given, self.granted)
        for number in given:
            message = self.queue.messages[number]
            message.goes(HELD if number in held else SCHEDULED if number in resting else READY)
            message.redelivered |= redelivered or number < newest
            message.logged_return |= logged
            if number in resting:
                message.resting, message.due = True, self.now + REST_MS

    @rule(part=PARTS, dead_letters=st.booleans())
    def discard_what_is_ready(self, part: tuple[int, int], dead_letters: bool) -> None:
        """Discard ready messages, as expiry and limits do."""
        first, last = self.queue.window(part)
        numbers = [number for number in self.queue.at(READY) if first <= number <= last]
        durable = [one for each in ranges_of(numbers) for one in self.owner.lifecycle.take_out(*each)]
        if dead_letters:
            self.queue.kill(durable)
        else:
            self.queue.settle(durable)
        for number in numbers:
            message = self.queue.messages[number]
            message.goes(DEAD if dead_letters and not message.soft else GONE)

    @rule()
    def purge(self) -> None:
        ready = sorted(self.queue.at(READY) + self.queue.at(SCHEDULED))
        purged = self.owner.lifecycle.purge()
        assert purged.count == len(ready)
        durable = ranges_of([number for number in ready if not self.queue.messages[number].soft])
        assert ranges_of([n for part in purged.durable for n in range(part[0], part[1] + 1)]) == durable
        self.queue.settle(purged.durable)
        for number in ready:
            self.queue.messages[number].goes(GONE)
            self.queue.messages[number].resting = False

    @rule(front_end=FRONT_ENDS)
    def lose_front_end(self, front_end: int) -> None:
        given = self.queue.at(front_end)
        self.owner.lifecycle.lost_front_end(front_end)
        self.queue.state.attached.discard(front_end)
        self.consumers = {key: each for key, each in self.consumers.items() if key[0] != front_end}
        for number in given:
            self.queue.messages[number].goes(READY)
            self.queue.messages[number].redelivered = True

    # -- owners change --------------------------------------------------------------------------

    @rule(
        lost=st.frozensets(FRONT_ENDS, max_size=2),
        forgets=st.booleans(),
        clock=st.tuples(st.sampled_from((0, 0, 1, 3)), st.integers(0, 2)),
        early=st.sampled_from((None, "settle", "reject", "give back")),
    )
    @precondition(lambda self: self.queue.messages)
    def change_owner(
        self, lost: frozenset[int], forgets: bool, clock: tuple[int, int] = (0, 0), early: str | None = None
    ) -> None:
        """Change the owner: removals under way are void, soft messages are gone, front ends tell leases.

        `clock` has the lag of the new owner's clock, and the time for which it waits for front ends, both in
        slots. `early`: the action of front ends on their messages before they answer.
        """
        attached = frozenset(self.queue.state.attached)
        leased = {
            front_end: [number for number in self.queue.at(front_end) if not self.queue.messages[number].soft]
            for front_end in (5, 6, 7)
        }
        self.begin(attached, max(0, self.now - clock[0] * SLOT_MS))
        self.check_places()
        self.pass_time(clock[1])
        for front_end in sorted(attached):
            if front_end in lost:
                self.owner.lifecycle.lost_front_end(front_end)
                self.queue.state.attached.discard(front_end)
            elif not forgets:
                done = self.act_early(front_end, leased[front_end][::2], early) if early else []
                mine = [number for number in leased[front_end] if number not in done]
                accepted = self.owner.lifecycle.reattached(front_end, ranges_of(mine))
                assert list(RangeSet(accepted).ranges()) == ranges_of(mine)
                if mine:
                    self.was_given_out(max(mine))
                for number in mine:
                    self.queue.messages[number].goes(front_end)
                    self.queue.messages[number].consumer = front_end, 0
                    self.queue.messages[number].resting = False
        self.owner.lifecycle.release_held(redelivered=bool(lost))
        for number in self.queue.at(HELD):
            message = self.queue.messages[number]
            message.goes(SCHEDULED if message.resting else READY)
            # A newer message was leased, so this one was leased, too, and did not arrive.
            passed_over = number < self.granted
            message.redelivered |= passed_over or bool(lost & attached) or (bool(lost) and forgets)

    def begin(self, attached: frozenset[int], now: int) -> None:
        """Begin with a new owner, before any front end has answered."""
        self.now, self.inherited = now, self.queue.state.mark
        # The owner gets no call when these messages are gone.
        self.dead_before = self.queue.at(DEAD)
        self.owner = owner_of(self.queue.state, settings=self.settings, now=now, read=self.read)
        self.granted = 0
        if attached and not self.at_most_once:
            self.was_given_out(self.queue.state.delivered)
        self.consumers.clear()
        for number, message in self.queue.messages.items():
            if message.place == GONE:
                continue
            if message.soft:
                message.goes(GONE)
                message.resting = False
                continue
            message.redelivered = message.logged_return
            message.resting = False
            if message.place not in (WITHHELD, DEAD):
                held = attached and not self.at_most_once and number <= self.queue.state.mark
                later = message.due > now
                message.goes(SCHEDULED if later else HELD if held else READY)
                message.resting = later and message.redelivered

    def act_early(self, front_end: int, numbers: list[int], what: str) -> list[int]:
        """A front end that has not answered yet settles or returns its messages; returns their numbers."""
        numbers = [number for number in numbers if self.queue.messages[number].place == HELD]
        if numbers and what == "give back":
            self.give_back(front_end, numbers, ranges_of(numbers), True, True)
        elif numbers:
            self.was_given_out(max(numbers))
            self.settle_all(front_end, numbers, what == "reject")
        return numbers

    @invariant()
    def check_places(self) -> None:
        if not hasattr(self, "owner"):
            return
        check_places(self.owner, self.queue, self.dead_before)
