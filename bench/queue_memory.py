"""Memory of a queue whose messages have priorities and expiries of their own, with and without a file for
ranges and annotations: `python -m bench.queue_memory --messages 10000000 --file`.

The replicated state and the owner of one queue, without a node around them: each message has its own
expiry, and one of ten priorities, so that no ranges and no spans merge.
"""

from __future__ import annotations

import argparse
import time
from array import array
from pathlib import Path
from tempfile import TemporaryDirectory

from cluster.process.metadata_file import MetadataFile
from node.queue.dispatch import QueueOwner
from node.queue.features.registry import REGISTRY
from node.queue.operations import Annotate, Aspect, Semantics
from node.queue.order import PlacedOrder
from node.queue.queue import QueueState
from node.queue.settings import QueueSettings
from node.ranges.cold import ColdSpace

BATCH = 1000
NOW = 1_800_000_000_000
HOUR_MS = 3_600_000
TURN = 100


def resident() -> int:
    """The octets of memory of this process, without those of files."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon"))) * 1024


def fill(state: QueueState, owner: QueueOwner, messages: int) -> None:
    for first in range(1, messages + 1, BATCH):
        last = min(first + BATCH, messages + 1) - 1
        numbers = array("Q", range(first, last + 1))
        state.append(first, last)
        for aspect, values in (
            (Aspect.PRIORITY, array("Q", [number % 10 for number in numbers])),
            (Aspect.EXPIRY, array("Q", [NOW + HOUR_MS + number % 7919 for number in numbers])),
        ):
            state.annotate(Annotate(1, aspect, numbers[:], numbers[:], values))
        owner.lifecycle.append(first, last)


def drain(state: QueueState, owner: QueueOwner, messages: int) -> int:
    """Deliver and settle so many messages in the order of delivery; returns the sum of their positions."""
    done, ready = 0, owner.delivery.ready
    if not isinstance(ready, PlacedOrder):
        raise TypeError(f"{ready} is no order that all consumers share")
    while done < messages:
        ranges = ready.fronts(TURN)
        ready.hand_over((0, 0), ranges, TURN)
        for feature in owner.lifecycle.hooks.settle:
            feature.settle(ranges)
        state.settle(ranges)
        done += TURN
    return done


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--messages", type=int, default=1_000_000)
    asked.add_argument("--file", action="store_true", help="keep ranges and annotations in a file")
    asked.add_argument("--drain", type=int, default=100_000, help="messages that are delivered at the end")
    asked.add_argument("--directory", type=Path, default=None, help="where the file is")
    given = asked.parse_args()
    with TemporaryDirectory(dir=given.directory) as directory:
        store = MetadataFile(Path(directory) / "metadata", lambda error: None, lambda: None)
        state = QueueState(Semantics.AT_LEAST_ONCE)
        if given.file:
            state.page(ColdSpace(store))
        settings = QueueSettings(max_priority=9)
        space = ColdSpace(store) if given.file else None
        owner = QueueOwner(state, REGISTRY, fresh=True, settings=settings, now=NOW, space=space)
        before, began = resident(), time.process_time()
        fill(state, owner, given.messages)
        filled = time.process_time() - began
        kept = resident() - before
        began = time.process_time()
        drained = drain(state, owner, given.drain)
        spent = time.process_time() - began
        print(f"{given.messages:,} messages, {'in a file' if given.file else 'in memory'}:")
        print(f"{kept / 2**20:,.1f} MiB, {kept / given.messages:.2f} octets a message")
        print(f"the file has {store.octets / 2**20:,.1f} MiB")
        print(f"published: {filled / given.messages * 1e6:.2f} us of processor time a message")
        print(f"delivered and settled: {spent / drained * 1e6:.2f} us a message")


if __name__ == "__main__":
    main()
