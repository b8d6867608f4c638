"""How the queue engine copes with many leases that lapse at once, and what many keys cost it, on one core.

    python -m bench.micro_crowds

100,000 leases, each of one message, come to one deadline: how late the last message is ready again, and the
longest step. 100,000 keys, each with one message: the memory of a replica and of the owner for each key.
"""

from __future__ import annotations

import tracemalloc
from random import Random
from time import process_time

from bench.micro_engine import BATCH, NOW, QUEUE, TICK_MS, UNLIMITED, Figure, machine, publishes
from node.queue.decision_format import encode_annotate
from node.queue.dispatch import QueueOwner
from node.queue.entry_format import encode_batch, encode_entry, encode_return
from node.queue.features.last_value import KEY
from node.queue.features.registry import REGISTRY
from node.queue.operations import OWNER, Aspect
from node.queue.partition import PartitionMachine
from node.queue.settings import QueueSettings

CROWD = 100_000
PERIOD_MS = 30_000
FRONT_END = 5


def lapsing() -> list[Figure]:
    """Leases of one message each whose deadline comes at once. Time passes in ticks of a node, and by the
    work of each step itself.
    """
    partition = machine()
    for i, entry in enumerate(publishes(CROWD // BATCH)):
        partition.apply(2 + i, entry)
    state = partition.queues[QUEUE]
    state.mark = UNLIMITED
    settings = QueueSettings(lease_period_ms=PERIOD_MS)
    owner = QueueOwner(state, REGISTRY, fresh=True, settings=settings, now=NOW)
    owner.delivery.now = NOW
    owner.delivery.consumers.attach(FRONT_END, 1)
    owner.delivery.consumers.credit(FRONT_END, 1, CROWD)
    for _ in range(CROWD):
        assert owner.dispatch(1)
    assert not owner.delivery.ready
    late, longest = _lapse(owner, partition)
    return [
        Figure(f"how late the last of {CROWD:,} leases lapses", late, "ms", 100),
        Figure("longest step in which any lapse", longest, "ms", 100),
    ]


def _lapse(owner: QueueOwner, partition: PartitionMachine) -> tuple[float, float]:
    """How late the last message is ready, and the longest step, in milliseconds: each step ends leases, and
    applies the entry that says so.
    """
    due, index = NOW + PERIOD_MS, 2 + CROWD // BATCH
    now, longest, timed = float(due), 0.0, owner.delivery.timed
    assert timed is not None
    while len(owner.delivery.ready) < CROWD:
        start = process_time()
        for front_end, ranges in timed.lapse(int(now)):
            returned = [encode_return(QUEUE, ranges, failed=True)]
            partition.apply(index, encode_entry([encode_batch(OWNER, 0, 0, returned)]))
            owner.lifecycle.lapsed(front_end, ranges)
            index += 1
        took = (process_time() - start) * 1e3
        now, longest = now + took + (0 if timed.wake <= now else TICK_MS), max(longest, took)
    return now - due, longest


def keyed() -> list[Figure]:
    """A message for each key: what a replica has, and what their owner has besides."""
    source = Random(1)
    keys = [source.getrandbits(64) | 2 for _ in range(CROWD)]
    entries = publishes(CROWD // BATCH)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    partition = machine()
    for i, entry in enumerate(entries):
        spans = [(1 + at, 1 + at, keys[at]) for at in range(BATCH * i, BATCH * (i + 1))]
        partition.apply(2 + 2 * i, entry)
        operation = encode_annotate(QUEUE, Aspect.KEY, spans)
        partition.apply(3 + 2 * i, encode_entry([encode_batch(OWNER, 0, 0, [operation])]))
    replica, _ = tracemalloc.get_traced_memory()
    settings = QueueSettings(key=KEY.read("/id"))
    owner = QueueOwner(partition.queues[QUEUE], REGISTRY, fresh=True, settings=settings, now=NOW)
    owned, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(owner.delivery.ready) == CROWD
    return [
        Figure(f"memory of each of {CROWD:,} keys on a replica", (replica - before) / CROWD, "octets"),
        Figure("the same, on their owner", (owned - before) / CROWD, "octets", 200),
    ]


def main() -> None:
    for figure in (*lapsing(), *keyed()):
        print(figure)


if __name__ == "__main__":
    main()
