"""The replicated machine: all replicas agree, no batch is applied twice, and no live message is lost."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from node.message.reason import Reason
from node.message.run import Run
from node.queue import partition
from node.queue.decision_format import (
    encode_annotate,
    encode_forget_ids,
    encode_refuse,
    encode_remember_ids,
    encode_remove,
    encode_transfer,
    encode_transferred,
)
from node.queue.entry_format import (
    EntryFormatError,
    encode_attach,
    encode_batch,
    encode_create_queue,
    encode_detach,
    encode_discard,
    encode_drop_queue,
    encode_entry,
    encode_forget,
    encode_mark,
    encode_publish,
    encode_purge,
    encode_return,
    encode_settle,
)
from node.queue.operations import OWNER, Applied, Aspect, Cause, Semantics
from node.queue.partition import (
    PartitionMachine,
    SequenceOrderError,
)
from node.queue.seen_ids import SeenIds
from node.queue.transfers import Transfer
from tests.queue.building import RUNS, contents, one_batch, published, uniform_run, varied_run
from tests.simulation.feed import FeedReader, numbers_in

QUEUES = st.integers(1, 3)
CHANGES = ("settle", "return", "failed", "discard", "purge", "remove")
CAUSES = {"discard": Cause.REJECTED, "purge": Cause.PURGED, "remove": Cause.EXPIRED}


def machine_with(*queues: int, semantics: Semantics = Semantics.AT_LEAST_ONCE) -> PartitionMachine:
    machine = PartitionMachine()
    machine.apply(1, one_batch(encode_create_queue(queue, semantics) for queue in queues))
    return machine


def alive(machine: PartitionMachine, queue: int) -> list[tuple[int, int]]:
    return list(machine.queues[queue].alive.ranges())


@dataclass
class QueueModel:
    """A queue, message by message."""

    counts: dict[int, int] = field(default_factory=dict)
    returned: set[int] = field(default_factory=set)
    values: dict[Aspect, dict[int, int]] = field(default_factory=lambda: {each: {} for each in Aspect})
    seen: list[tuple[int, bytes]] = field(default_factory=list)


def numbers(transfer: Transfer) -> set[int]:
    return {number for first, last in transfer.ranges for number in range(first, last + 1)}


class PartitionAgainstModel(RuleBasedStateMachine):
    """Any operations: a machine that is at times restored from its snapshot, a machine that never is, and a
    model of single messages stay equal.
    """

    def __init__(self) -> None:
        super().__init__()
        self.prune_records = partition.PRUNE_RECORDS
        partition.PRUNE_RECORDS = 2
        self.machine, self.steady = PartitionMachine(observed=True), PartitionMachine(observed=True)
        self.feed = FeedReader()
        self.model: dict[int, QueueModel] = {}
        self.stored: dict[int, tuple[int, bytes]] = {}
        self.index, self.number, self.next_sequence = 0, {5: 0, 6: 0}, 1
        self.entries: dict[int, bytes] = {}
        self.freed: set[int] = set()
        self.under_way: list[tuple[int, Transfer]] = []
        self.time = 100
        for queue in (1, 2):
            self.create(queue, Semantics.AT_LEAST_ONCE)
        self.publish(OWNER, [(uniform_run(9), [1]), (uniform_run(9), [1, 2])], 0)

    def teardown(self) -> None:
        partition.PRUNE_RECORDS = self.prune_records

    def apply(self, data: bytes) -> Applied:
        self.index += 1
        self.entries[self.index] = data
        applied = self.machine.apply(self.index, data)
        assert self.steady.apply(self.index, data) == applied
        self.feed.read(applied)
        return applied

    @rule(queue=QUEUES, semantics=st.sampled_from(Semantics))
    def create(self, queue: int, semantics: Semantics) -> None:
        applied = self.apply(one_batch([encode_create_queue(queue, semantics)]))
        assert applied.created == ([] if queue in self.model else [queue])
        self.model.setdefault(queue, QueueModel())

    @rule(queue=st.integers(2, 3))
    def drop(self, queue: int) -> None:
        applied = self.apply(one_batch([encode_drop_queue(queue)]))
        assert applied.dropped == ([queue] if queue in self.model else [])
        self.model.pop(queue, None)

    @rule(
        front_end=st.sampled_from((OWNER, 5, 6)),
        runs=st.lists(st.tuples(RUNS, st.lists(QUEUES, unique=True)), min_size=1, max_size=3),
        gap=st.integers(0, 2),
    )
    def publish(self, front_end: int, runs: list[tuple[Run, list[int]]], gap: int) -> None:
        if front_end != OWNER:
            self.number[front_end] += 1
        first = self.next_sequence = self.next_sequence + gap
        operations = []
        for run, queues in runs:
            operations += encode_publish(run, queues)
            for content in run.contents():
                self.stored[self.next_sequence] = (self.index + 1, content)
                for queue in queues:
                    if queue in self.model:
                        self.model[queue].counts[self.next_sequence] = 0
                self.next_sequence += 1
        number = self.number.get(front_end, 0)
        applied = self.apply(one_batch(operations, front_end, number, first))
        assert applied.acknowledged == ({} if front_end == OWNER else {front_end: number})

    @rule(front_end=st.sampled_from((5, 6)), back=st.integers(0, 3))
    def publish_again(self, front_end: int, back: int) -> None:
        number = self.number[front_end]
        if number:
            operations = encode_publish(uniform_run(2), [1, 2, 3])
            applied = self.apply(one_batch(operations, front_end, max(1, number - back), self.next_sequence))
            assert applied == Applied(self.index, {front_end: number})

    @rule(
        queue=QUEUES,
        kinds=st.lists(
            st.sampled_from(("settle", "return", "failed", "discard", "purge", "remove")), min_size=1
        ),
        picks=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1, max_size=3),
    )
    def change(self, queue: int, kinds: list[str], picks: list[tuple[int, int]]) -> None:
        """Apply operations to ranges that begin at a live message, where there is one."""
        for kind in kinds:
            live = sorted(self.model[queue].counts) if queue in self.model else []
            firsts = [(live[pick % len(live)] if live else 1 + pick, size) for pick, size in picks]
            self.change_one(queue, kind, [(first, first + size) for first, size in firsts])

    def change_one(self, queue: int, kind: str, ranges: list[tuple[int, int]]) -> None:
        encoded = {
            "settle": encode_settle(queue, ranges),
            "return": encode_return(queue, ranges, False),
            "failed": encode_return(queue, ranges, True),
            "discard": encode_discard(queue, ranges),
            "purge": encode_purge(queue, ranges),
            "remove": encode_remove(queue, Reason.EXPIRED, ranges),
        }
        applied = self.apply(one_batch([encoded[kind]]))
        if queue not in self.model:
            assert applied == Applied(self.index)
            return
        model = self.model[queue]
        hit = [
            number for first, last in ranges for number in range(first, last + 1) if number in model.counts
        ]
        if kind in ("return", "failed"):
            rows = [
                (first, last) for *_, first, last, failed in applied.returned if failed is (kind == "failed")
            ]
            assert numbers_in(rows) == hit
            assert len(rows) == len(applied.returned)
            model.returned.update(hit)
            for number in hit if kind == "failed" else []:
                model.counts[number] += 1
            return
        dead = {number for number in hit if number in model.values[Aspect.DEATH]}
        told = {cause: set(numbers_in(gone)) for _, cause, gone in applied.removed}
        if kind == "settle":
            assert told == ({Cause.SETTLED: set(hit)} if hit else {})
        else:
            expected = {CAUSES[kind]: set(hit) - dead, Cause.DEAD_LETTERED: dead}
            assert told == {cause: gone for cause, gone in expected.items() if gone}
        self.remove(model, set(hit))

    @rule(
        queue=QUEUES,
        aspect=st.sampled_from(Aspect),
        sizes=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 2)), max_size=5),
        at_end=st.booleans(),
    )
    def annotate(self, queue: int, aspect: Aspect, sizes: list[tuple[int, int, int]], at_end: bool) -> None:
        """Sorted, disjoint spans of (gap before, size, value), over the latest messages or the first."""
        spans = []
        at = max(1, self.next_sequence - sum(gap + size for gap, size, _ in sizes)) if at_end else 1
        for gap, size, value in sizes:
            spans.append((at + gap, at + gap + size - 1, value))
            at += gap + size
        applied = self.apply(one_batch([encode_annotate(queue, aspect, spans)]))
        expected = Applied(self.index)
        if aspect is Aspect.DEATH:
            expected.dead = applied.dead
        assert applied == expected
        if queue in self.model:
            values = self.model[queue].values[aspect]
            dying = [row[1:3] for row in applied.dead]
            died = {n for first, last, _ in spans for n in range(first, last + 1)} & self.model[
                queue
            ].counts.keys()
            assert set(numbers_in(dying)) == (died - values.keys() if aspect is Aspect.DEATH else set())
            for first, last, value in spans:
                values |= {n: value for n in range(first, last + 1) if n in self.model[queue].counts}

    @rule(
        queue=QUEUES,
        front_end=st.integers(5, 7),
        step=st.sampled_from(("attach", "detach", "mark", "forget")),
    )
    def attach(self, queue: int, front_end: int, step: str) -> None:
        encoded = {
            "attach": encode_attach(queue, front_end),
            "detach": encode_detach(queue, front_end),
            "mark": encode_mark(queue, self.next_sequence + front_end),
            "forget": encode_forget(7),
        }
        self.apply(one_batch([encoded[step]]))

    @rule(front_end=st.sampled_from((5, 6)), first=st.integers(0, 3), size=st.integers(0, 2))
    def refuse(self, front_end: int, first: int, size: int) -> None:
        number = self.number[front_end]
        if number:
            messages = [(first, first + size)]
            self.apply(one_batch([encode_refuse(front_end, number, messages)]))
            assert self.machine.refusals.between(front_end, number - 1, number) == [(number, messages)]
            assert self.machine.refusals.between(front_end, number, number + 9) == []

    @rule(partition=st.integers(8, 9), queue=QUEUES, pick=st.integers(0, 30), size=st.integers(0, 9))
    def begin_transfer(self, partition: int, queue: int, pick: int, size: int) -> None:
        live = sorted(self.model[queue].counts) if queue in self.model else []
        first = live[pick % len(live)] if live else 1
        number = self.machine.transfers.last_number(partition) + 1
        transfer = Transfer(queue, number, (7, partition), ((first, first + size),))
        self.apply(one_batch([encode_transfer(partition, transfer)]))
        self.under_way.append((partition, transfer))
        assert self.machine.transfers.to(partition)[-1] == transfer

    @rule(partition=st.integers(8, 9), pick=st.integers(0, 5))
    def end_transfers(self, partition: int, pick: int) -> None:
        waiting = [one.number for to, one in self.under_way if to == partition]
        number = waiting[pick % len(waiting)] if waiting else 0
        self.apply(one_batch([encode_transferred(partition, number)]))
        ended = [(to, one) for to, one in self.under_way if to == partition and one.number <= number]
        self.under_way = [each for each in self.under_way if each not in ended]
        for _, one in ended:
            others = {n for _, each in self.under_way if each.queue == one.queue for n in numbers(each)}
            if one.queue in self.model:
                self.remove(self.model[one.queue], numbers(one) - others)

    def remove(self, model: QueueModel, gone: set[int]) -> None:
        for number in gone & model.counts.keys():
            del model.counts[number]
            for values in model.values.values():
                values.pop(number, None)
        model.returned.difference_update(gone)

    @rule(queue=QUEUES, count=st.integers(0, 3), passed=st.integers(0, 9), back=st.integers(0, 30))
    def see_ids(self, queue: int, count: int, passed: int, back: int) -> None:
        self.time += passed
        digests = [bytes([self.time % 256, each] * 8) for each in range(count)]
        ids = encode_remember_ids(queue, self.time, digests), encode_forget_ids(queue, self.time - back)
        applied = self.apply(one_batch(ids))
        assert applied == Applied(self.index)
        if queue in self.model:
            seen = self.model[queue].seen + [(self.time, digest) for digest in digests]
            seen = self.model[queue].seen = [one for one in seen if one[0] >= self.time - back]
            held = self.machine.queues[queue].seen or SeenIds()
            assert list(zip(*held.all(), strict=True)) == seen

    @rule()
    def snapshot_and_restore(self) -> None:
        data = self.machine.snapshot()
        self.machine = PartitionMachine(observed=True)
        self.machine.restore(data)
        assert self.machine.snapshot() == data
        assert self.machine.applied_index == self.index

    @rule()
    def free_dead_entries_and_rewrite_live_ones(self) -> None:
        if self.index % 2:
            self.machine.snapshot()
        live = {i for first, last in self.machine.live_indexes() for i in range(first, last + 1)}
        for index in list(self.entries):
            if index not in live:
                del self.entries[index]
                self.freed.add(index)
            else:
                self.entries[index] = self.machine.rewrite(index, self.entries[index])

    @invariant()
    def replicas_are_equal(self) -> None:
        # Digests of copies, because a digest prunes, and the two machines are to be pruned at different
        # times.
        assert deepcopy(self.machine).digest() == deepcopy(self.steady).digest()

    @invariant()
    def the_feed_tells_what_there_is(self) -> None:
        self.feed.compare(self.machine.queues)

    @invariant()
    def queues_are_as_in_the_model(self) -> None:
        assert self.machine.queues.keys() == self.model.keys()
        for queue, model in self.model.items():
            state = self.machine.queues[queue]
            numbers = [number for first, last in state.alive.ranges() for number in range(first, last + 1)]
            assert numbers == sorted(model.counts)
            assert {number: state.failure_count(number) for number in numbers} == model.counts
            assert {number for number in numbers if number in state.returned} == model.returned
            assert len(state.returned) == len(model.returned)
            found = {
                aspect: {n: value for first, last, value in held.all() for n in range(first, last + 1)}
                for aspect, held in state.annotations.items()
            }
            assert found == {aspect: values for aspect, values in model.values.items() if values}
            assert sum(map(len, state.failures.values())) == sum(map(bool, model.counts.values()))

    @invariant()
    def every_live_message_is_found_in_an_entry_that_was_kept(self) -> None:
        needed = {number for model in self.model.values() for number in model.counts}
        live = [i for first, last in self.machine.live_indexes() for i in range(first, last + 1)]
        assert self.freed.isdisjoint(live)
        assert set(live) >= {self.stored[number][0] for number in needed}
        for number in needed:
            index, content = self.stored[number]
            assert self.machine.locate(number) == index
            assert contents(self.entries[index], number, number) == {number: content}


TestPartitionAgainstModel = pytest.mark.interpreted(PartitionAgainstModel.TestCase)
TestPartitionAgainstModel.settings = settings(max_examples=60, stateful_step_count=30)


def test_a_message_is_alive_while_any_queue_needs_it() -> None:
    machine = machine_with(1, 2)
    machine.apply(2, published(1, uniform_run(10), 1, 2))
    machine.apply(3, one_batch([encode_settle(1, [(1, 10)])]))
    assert machine.live_indexes() == [(2, 3)]
    machine.apply(4, one_batch([encode_settle(2, [(1, 9)])]))
    assert machine.live_indexes() == [(2, 4)]
    machine.apply(5, one_batch([encode_settle(2, [(10, 10)])]))
    assert machine.live_indexes() == []


def test_a_rewritten_entry_holds_exactly_its_live_messages() -> None:
    machine = machine_with(1, 2)
    run = varied_run([3, 1, 4, 1, 5])
    data = published(1, run, 1, 2)
    machine.apply(2, data)
    machine.apply(3, one_batch([encode_settle(1, [(1, 5)]), encode_settle(2, [(1, 1), (3, 4)])]))
    rewritten = machine.rewrite(2, data)
    assert contents(rewritten, 1, 99) == {2: b"\1", 5: b"\4\4\4\4\4"}
    assert machine.rewrite(2, rewritten) == rewritten
    machine.apply(4, one_batch([encode_drop_queue(2)]))
    assert machine.rewrite(2, data) == encode_entry([])


def test_live_indexes_never_name_an_entry_that_was_freed_before() -> None:
    machine = machine_with(1)
    machine.apply(2, published(2, uniform_run(1), 1))
    machine.apply(3, one_batch([encode_mark(1, 9)]))
    for index in range(4, 7):
        machine.apply(index, published(index - 1, uniform_run(1), 1))
    machine.apply(7, one_batch([encode_settle(1, [(3, 4)])]))
    assert machine.live_indexes() == [(2, 3), (6, 7)]
    machine.snapshot()
    machine.apply(8, published(6, uniform_run(1), 1))
    assert machine.live_indexes() == [(2, 3), (6, 8)]


def test_where_a_message_is() -> None:
    machine = machine_with(1)
    machine.apply(4, published(10, uniform_run(5), 1))
    machine.apply(6, published(15, uniform_run(5), 1))
    assert [machine.locate(number) for number in (10, 14, 15)] == [4, 4, 6]
    with pytest.raises(KeyError):
        machine.locate(9)


def test_a_batch_that_is_sent_again_is_dropped_and_acknowledged() -> None:
    machine = machine_with(1)
    batch = encode_batch(5, 1, 1, encode_publish(uniform_run(3), [1]))
    again = encode_batch(5, 1, 4, encode_publish(uniform_run(3), [1]))
    other = encode_batch(6, 1, 7, encode_publish(uniform_run(3), [1]))
    assert machine.apply(2, encode_entry([batch])).acknowledged == {5: 1}
    applied = machine.apply(3, encode_entry([again, other]))
    assert applied.acknowledged == {5: 1, 6: 1}
    assert applied.appended == [(1, 7, 9)]
    assert alive(machine, 1) == [(1, 3), (7, 9)]
    assert (machine.number_of(5), machine.number_of(99)) == (1, 0)


def test_a_forgotten_front_end_is_attached_nowhere() -> None:
    machine = machine_with(1, 2)
    machine.apply(2, one_batch([encode_attach(1, 5), encode_attach(2, 5), encode_attach(2, 6)], 5, 3))
    machine.apply(3, one_batch([encode_forget(5)]))
    assert machine.number_of(5) == 0
    assert [state.attached for state in machine.queues.values()] == [set(), {6}]


def test_a_message_for_unknown_queues_is_dropped() -> None:
    machine = machine_with(1)
    applied = machine.apply(2, published(1, uniform_run(2), 1, 8, 9))
    assert applied.appended == [(1, 1, 2)]
    assert machine.apply(3, published(3, uniform_run(2), 8)).appended == []
    assert machine.queues.keys() == {1}
    assert machine.live_indexes() == [(2, 3)]
    assert machine.next_sequence == 5


def test_failed_deliveries_are_counted_and_returns_are_not() -> None:
    machine = machine_with(1)
    machine.apply(2, published(1, uniform_run(6), 1))
    machine.apply(3, one_batch([encode_return(1, [(1, 4)], True), encode_return(1, [(2, 3)], True)]))
    machine.apply(4, one_batch([encode_return(1, [(3, 5)], False), encode_settle(1, [(2, 2)])]))
    state = machine.queues[1]
    assert [state.failure_count(number) for number in (1, 3, 4, 5, 6)] == [1, 2, 1, 0, 0]
    assert list(state.returned.ranges()) == [(1, 1), (3, 5)]


@pytest.mark.requirement("D2.3")
def test_nothing_returns_to_an_at_most_once_queue() -> None:
    """The removal is committed before the delivery, so a consumer's settlement afterwards has no effect."""
    machine = machine_with(1, semantics=Semantics.AT_MOST_ONCE)
    machine.apply(2, published(1, uniform_run(3), 1))
    machine.apply(3, one_batch([encode_settle(1, [(1, 2)])]))
    applied = machine.apply(
        4, one_batch([encode_return(1, [(1, 2)], True), encode_discard(1, [(1, 2)])], 5, 1)
    )
    assert applied == Applied(4, {5: 1})
    assert alive(machine, 1) == [(3, 3)]


def test_a_purge_removes_the_messages_that_it_names() -> None:
    machine = machine_with(1)
    machine.apply(2, published(1, uniform_run(9), 1))
    machine.apply(3, one_batch([encode_purge(1, [(3, 5), (8, 20)])]))
    assert alive(machine, 1) == [(1, 2), (6, 7)]


def test_a_mark_never_falls() -> None:
    machine = machine_with(1)
    machine.apply(2, one_batch([encode_mark(1, 9), encode_mark(1, 4)]))
    assert machine.queues[1].mark == 9


def test_sequence_numbers_must_grow() -> None:
    machine = machine_with(1)
    machine.apply(2, published(5, uniform_run(2), 1))
    with pytest.raises(SequenceOrderError, match="6 in entry 3, next is 7"):
        machine.apply(3, published(6, uniform_run(1), 1))


def test_an_entry_of_a_newer_release_stops_the_replica() -> None:
    with pytest.raises(EntryFormatError):
        PartitionMachine().apply(1, b"\x09")


def test_annotations_of_messages_of_the_same_entry_count_once_they_are_alive() -> None:
    machine = machine_with(1, 2)
    notes = [encode_annotate(queue, Aspect.EXPIRY, [(1, 9, 7)]) for queue in (1, 2, 3)]
    publish = encode_batch(5, 1, 1, encode_publish(uniform_run(3), [1]))
    machine.apply(2, encode_entry([publish, encode_batch(OWNER, 0, 0, notes)]))
    assert list(machine.queues[1].annotations[Aspect.EXPIRY].all()) == [(1, 3, 7)]
    assert machine.queues[2].annotations == {}
    machine.apply(3, one_batch([encode_settle(1, [(1, 3)])]))
    assert machine.queues[1].annotations == {}
