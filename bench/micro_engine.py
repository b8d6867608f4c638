"""How fast the queue engine is by itself, on one core, and what waiting messages cost it.

    python -m bench.micro_engine [--rounds 2000]

Prints microseconds for each step that the hot path takes once a batch, with the target where one is
set. Prints further the memory of 1,000,000 waiting messages, how exactly 1,000,000 scheduled ones are let go,
and how long the turns of the owner are while a selector looks for the last of 1,000,000.
"""

from __future__ import annotations

import argparse
import random
import tracemalloc
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, process_time

from cluster.owner.contents import Contents
from node.expressions.names import Dialect
from node.expressions.nodes import encode_tree
from node.expressions.parsing import parse_expression
from node.expressions.selector import Selector
from node.message.run import Run
from node.queue.decision_format import encode_annotate
from node.queue.dispatch import Grant, QueueOwner
from node.queue.entry_format import (
    encode_batch,
    encode_create_queue,
    encode_entry,
    encode_publish,
    encode_settle,
)
from node.queue.features.registry import REGISTRY
from node.queue.filtering import LookBudget
from node.queue.operations import OWNER, Aspect, Semantics
from node.queue.partition import PartitionMachine
from node.ranges.range_set import RangeSet
from node.routing.exchange import Exchanges
from node.routing.matching import Binding, Destination, DestinationKind
from node.wire.amqp10.definitions import SectionCode
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.values import Described, ULong
from node.wire.formats import AMQP_1_0

QUEUE = 7
BATCH = 200
MESSAGE = 300
FRAGMENTS = 500_000
UNLIMITED = 1 << 62
SCHEDULED = 1_000_000
NOW = 1_700_000_000_000
DELAY_MS = 30_000
SPREAD_MS = 60_000
SEARCHED = 1_000_000
TICK_MS = 20
"""Between two looks of a node at what is due."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured step: what it is, how much of what, and the most that it may be, if that is set."""

    what: str
    value: float
    unit: str
    limit: float | None = None

    def __str__(self) -> str:
        limit = "" if self.limit is None else f"  (at most {self.limit:g})"
        return f"{self.what:<62}{self.value:>10.2f} {self.unit}{limit}"


def machine() -> PartitionMachine:
    """A partition with one queue."""
    made = PartitionMachine()
    create = encode_create_queue(QUEUE, Semantics.AT_LEAST_ONCE)
    made.apply(1, encode_entry([encode_batch(OWNER, 0, 0, [create])]))
    return made


def run_of(count: int) -> Run:
    return Run("", "queue", 1, True, count, 40, MESSAGE, None, 260, bytes(MESSAGE * count))


def publishes(rounds: int, runs: int = 1) -> list[bytes]:
    """Entries of 200 messages each."""
    operations = [*encode_publish(run_of(BATCH // runs), [QUEUE])] * runs
    return [encode_entry([encode_batch(5, i + 1, 1 + BATCH * i, operations)]) for i in range(rounds)]


def settlements(rounds: int, size: int) -> list[bytes]:
    """Entries that settle the oldest messages."""
    settled = [encode_settle(QUEUE, [(1 + size * i, size * (i + 1))]) for i in range(rounds)]
    return [encode_entry([encode_batch(6, i + 1, 0, [each])]) for i, each in enumerate(settled)]


def each_us(step: Callable[[int], object], rounds: int) -> float:
    """Microseconds that a step takes, the median of five rounds of it."""
    share = rounds // 5
    found = []
    for turn in range(5):
        start = perf_counter()
        for i in range(turn * share, (turn + 1) * share):
            step(i)
        found.append((perf_counter() - start) / share * 1e6)
    return sorted(found)[2]


def applying(rounds: int) -> list[Figure]:
    partition, scattered = machine(), machine()
    entries, singles = publishes(rounds), publishes(rounds, BATCH)
    settled = settlements(rounds, 50)
    return [
        Figure("apply: entry with one run of 200 publishes",
               each_us(lambda i: partition.apply(2 + i, entries[i]), rounds), "µs", 15),
        Figure("apply: entry with 200 runs of one publish",
               each_us(lambda i: scattered.apply(2 + i, singles[i]), rounds), "µs"),
        Figure("apply: SETTLE of 50 messages at the front",
               each_us(lambda i: partition.apply(2 + rounds + i, settled[i]), rounds), "µs", 5),
    ]  # fmt: skip


def encoding(rounds: int) -> list[Figure]:
    run = run_of(BATCH)

    def encode(i: int) -> bytes:
        return encode_entry([encode_batch(5, i, i, encode_publish(run, [QUEUE]))])

    return [Figure("encode: entry with one run of 200 publishes", each_us(encode, rounds), "µs")]


def dispatching(rounds: int) -> list[Figure]:
    partition = machine()
    state = partition.queues[QUEUE]
    state.append(1, 1000 * rounds)
    state.mark = UNLIMITED
    owner = QueueOwner(state, REGISTRY, fresh=True)
    owner.delivery.consumers.attach(5, 1)
    owner.delivery.consumers.credit(5, 1, UNLIMITED)
    return [
        Figure(
            "dispatch: 1000 messages to one consumer",
            each_us(lambda _: owner.dispatch(1000), rounds), "µs", 20,
        ),
        Figure(
            "owner: settle 50 leased messages",
            each_us(lambda i: owner.lifecycle.settle(5, [(1 + 50 * i, 50 * (i + 1))]), rounds), "µs",
        ),
    ]  # fmt: skip


def routing(rounds: int) -> list[Figure]:
    exchanges = Exchanges()
    for i in range(1000):
        exchanges.add_queue(f"q{i}")
        to = Destination(DestinationKind.QUEUE, f"q{i}")
        exchanges.bind(Binding.of("amq.topic", to, f"a.*.{i}.#"))
        exchanges.bind(Binding.of("amq.match", to, "", {"number": i}))
    headers = {"number": 7}
    return [
        Figure("route: topic, 1000 bindings, key seen before",
               each_us(lambda _: exchanges.route("amq.topic", "a.b.7.c"), rounds), "µs"),
        Figure("route: topic, 1000 bindings, new key",
               each_us(lambda i: exchanges.route("amq.topic", f"a.b.7.{i}"), rounds), "µs"),
        Figure("route: headers, 1000 bindings",
               each_us(lambda _: exchanges.route("amq.match", "", headers), rounds // 10), "µs"),
    ]  # fmt: skip


def fragments(rounds: int) -> list[Figure]:
    """Every second message of a million settled: the worst that acknowledging out of order can do."""
    source = random.Random(1)
    tracemalloc.start()
    found = RangeSet((number, number) for number in range(0, 2 * FRAGMENTS, 2))
    octets, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    numbers = [2 * source.randrange(FRAGMENTS) for _ in range(rounds)]
    return [
        Figure("ranges: remove one of 500,000 anywhere",
               each_us(lambda i: found.remove(numbers[i], numbers[i]), rounds), "µs"),
        Figure("ranges: add one to 500,000 anywhere",
               each_us(lambda i: found.add(numbers[i], numbers[i]), rounds), "µs"),
        Figure("ranges: memory of 500,000", octets / FRAGMENTS, "octets each"),
    ]  # fmt: skip


def waiting() -> list[Figure]:
    entries = publishes(5000)
    tracemalloc.start()
    partition = machine()
    for i, entry in enumerate(entries):
        partition.apply(2 + i, entry)
    owner = QueueOwner(partition.queues[QUEUE], REGISTRY, fresh=True)
    octets, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    start = perf_counter()
    size = len(partition.snapshot())
    took = (perf_counter() - start) * 1e6
    count = len(owner.delivery.ready)
    return [
        Figure(f"memory of {count:,} messages in {len(entries):,} entries", octets / 1e6, "MB", 2),
        Figure(f"snapshot of them ({size:,} octets)", took, "µs"),
    ]


def scheduled() -> list[Figure]:
    """Messages that are due at a time of their own each, spread over a minute, and how late they are let go.

    Time passes in ticks of a node, and by the work of each step itself.
    """
    source = random.Random(1)
    dues = [NOW + DELAY_MS + source.randrange(SPREAD_MS) for _ in range(SCHEDULED)]
    entries = publishes(SCHEDULED // BATCH)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    partition = machine()
    for i, entry in enumerate(entries):
        spans = [(1 + at, 1 + at, dues[at]) for at in range(BATCH * i, BATCH * (i + 1))]
        partition.apply(2 + 2 * i, entry)
        operation = encode_annotate(QUEUE, Aspect.DUE, spans)
        partition.apply(3 + 2 * i, encode_entry([encode_batch(OWNER, 0, 0, [operation])]))
    replica, _ = tracemalloc.get_traced_memory()
    owner = QueueOwner(partition.queues[QUEUE], REGISTRY, fresh=True, now=NOW)
    owned, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    late, longest = _let_go(owner, dues)
    return [
        Figure(f"memory of {SCHEDULED:,} scheduled messages on a replica",
               (replica - before) / SCHEDULED, "octets each"),
        Figure("the same, what their owner has besides", (owned - replica) / SCHEDULED, "octets each"),
        Figure("how late the last of them is let go", late, "ms", 100),
        Figure("longest step in which any are let go", longest, "ms", 100),
    ]  # fmt: skip


def _let_go(owner: QueueOwner, dues: list[int]) -> tuple[float, float]:
    """The most that a message is late, and the longest step, in milliseconds."""
    now, late, longest, left = float(NOW), 0.0, 0.0, len(dues)
    while left:
        start = process_time()
        owner.lifecycle.let_go(int(now))
        took = (process_time() - start) * 1e3
        now, longest = now + took, max(longest, took)
        for first, last in list(owner.delivery.ready.ranges()):
            late = max(late, now - min(dues[first - 1 : last]))
            assert int(now) >= max(dues[first - 1 : last]), "early"
            left -= last - first + 1
        owner.delivery.ready.clear()
        now += TICK_MS
    return late, longest


class _Entries:
    """The entries of a log in memory; see `EntrySource`."""

    def __init__(self, entries: list[bytes]) -> None:
        self._entries = entries

    def data(self, index: int) -> bytes:
        return self._entries[index - 2]

    def read_past(self, index: int) -> list[tuple[int, bytes]]:
        return [(index, self.data(index))]

    def octets_from(self, index: int) -> int:
        return sum(map(len, self._entries[index - 2 :]))

    def last_within(self, octets: int) -> int:
        return 0

    def octets_of(self, index: int) -> int:
        return len(self._entries[index - 2])


def _search_run(first: int) -> Run:
    """Messages of AMQP 1.0, each with its number in the application property `number`, and 256 octets."""
    body = encode_amqp(Described(ULong(SectionCode.DATA), bytes(256)))
    heads = (
        encode_amqp(Described(ULong(SectionCode.APPLICATION_PROPERTIES), {"number": number}))
        for number in range(first, first + BATCH)
    )
    pieces = [head + body for head in heads]
    lengths = array("I", map(len, pieces))
    return Run("", "queue", 1, True, BATCH, 0, 0, lengths, max(lengths), b"".join(pieces), False, AMQP_1_0)


def searching() -> list[Figure]:
    """A new selector takes the last of a million waiting messages: how long the turns of the owner are."""
    runs = [_search_run(1 + BATCH * i) for i in range(SEARCHED // BATCH)]
    operations = [encode_publish(run, [QUEUE]) for run in runs]
    entries = [encode_entry([encode_batch(5, i + 1, 1 + BATCH * i, one)]) for i, one in enumerate(operations)]
    partition = machine()
    for i, entry in enumerate(entries):
        partition.apply(2 + i, entry)
    state = partition.queues[QUEUE]
    state.mark = UNLIMITED
    contents = Contents(partition, _Entries(entries))
    owner = QueueOwner(state, REGISTRY, fresh=True, read=contents.first_runs)
    selector = Selector(encode_tree(parse_expression(f"number = {SEARCHED}", Dialect.SELECTOR)))
    owner.delivery.consumers.attach(5, 1, selector=selector)
    owner.delivery.consumers.credit(5, 1, 1)
    took: list[float] = []
    grants: list[Grant] = []
    while not grants:
        start = process_time()
        grants = owner.dispatch(1000, None, LookBudget())
        took.append((process_time() - start) * 1e3)
        assert grants or owner.looking
    return [
        Figure(f"selector: the last of {SEARCHED:,} is found, in {len(took):,} turns", sum(took), "ms", 3000),
        Figure("the same: longest turn", max(took), "ms", 10),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=2000, help="how often each step is taken")
    rounds: int = parser.parse_args().rounds
    for measure in (applying, encoding, dispatching, routing, fragments):
        for figure in measure(rounds):
            print(figure)
    for figure in (*waiting(), *scheduled(), *searching()):
        print(figure)


if __name__ == "__main__":
    main()
