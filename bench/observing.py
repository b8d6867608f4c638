"""The cost of metrics to a node, and of traces where they are on.

    python -m bench.observing [--seconds 60]

A node of this very process serves small messages, which are published, confirmed, delivered and acknowledged:
as many as it can, then one at a time. Its metrics are counted in every second window of time and left out in
the others, by turns; compared is the processor time that its event loop takes for a message. That ratio is as
steady as the machine. So the same is measured a second way: how often each method that counts is called,
times what it takes, as a share of the loop's processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import tempfile
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from math import nan
from pathlib import Path
from statistics import median
from typing import Any, Final

import uvloop

from bench.load import build, run_load
from cluster.admin.metrics.exposition import lines
from cluster.admin.traces.context import TraceContext, stretches_in
from cluster.admin.traces.export import OtlpSpans
from cluster.cli.local.layout import plan, prepare
from cluster.config.tables import TraceSettings
from cluster.peers.latencies import Arrivals, Latencies
from cluster.process.node import NodeProcess
from node.message.run import Run
from node.queue.delivery_state import Tally
from node.wire.amqp091.codec import encode_frame
from node.wire.amqp091.methods import FRAME_BODY, FRAME_HEADER
from node.wire.amqp091.property_values import encode_header, encode_properties
from replication.journal import Durations

WINDOW_S: Final = 0.05
LEAST_MESSAGES: Final = 20
"""Windows with fewer say nothing: their time is that of timers."""

SIZE: Final = 256
COUNTED: Final[tuple[tuple[type, str], ...]] = (
    (Arrivals, "came"),
    (Arrivals, "delivered"),
    (Durations, "add"),
    (Latencies, "confirmed"),
    (Tally, "served"),
)
"""All that counts for metrics while messages pass; what remains is a sum now and then."""


def _nothing(*_: Any, **__: Any) -> None:
    """In place of what counts."""


Methods = Callable[[str, Callable[..., None]], Callable[..., None]]


class Switch:
    """Puts something in the place of all methods that count, or these back."""

    def __init__(self) -> None:
        self._methods = [(owner, name, getattr(owner, name)) for owner, name in COUNTED]

    def turn(self, *, on: bool) -> None:
        self.put(lambda name, method: method if on else _nothing)

    def put(self, methods: Methods) -> None:
        """`methods` makes each one's substitute of its name and itself."""
        for owner, name, method in self._methods:
            setattr(owner, name, methods(f"{owner.__name__}.{name}", method))


class Timed:
    """How long each call of a method that counts took in this thread, in nanoseconds."""

    def __init__(self) -> None:
        self._taken: dict[str, array[int]] = {}
        self._inside = False
        self._thread = threading.get_ident()
        self._nothing = self.timed("nothing", _nothing)
        self._began = time.thread_time_ns()

    def timed(self, name: str, method: Callable[..., None]) -> Callable[..., None]:
        taken = self._taken[name] = array("Q")

        def call(*arguments: Any, **options: Any) -> None:
            if self._inside or threading.get_ident() != self._thread:
                method(*arguments, **options)
                return
            self._inside = True
            begin = time.perf_counter_ns()
            method(*arguments, **options)
            taken.append(time.perf_counter_ns() - begin)
            self._inside = False

        return call

    def share(self) -> float:
        """Of the thread's processor time, without what it takes to call nothing and to read the clock."""
        whole = time.thread_time_ns() - self._began
        for _ in range(1000):
            self._nothing()
        idle = median(self._taken.pop("nothing"))
        return sum(len(taken) * (median(taken) - idle) for taken in self._taken.values() if taken) / whole


class Windows:
    """Processor time a message, in microseconds, of windows with counting (True) and without (False)."""

    def __init__(self, process: NodeProcess) -> None:
        self.found: dict[bool, list[float]] = {True: [], False: []}
        self._process, self._switch, self._on = process, Switch(), True
        self._began = self._now()
        self._timer = process.loop.call_later(WINDOW_S, self._end)

    def _now(self) -> tuple[int, float]:
        owners = self._process.broker.owners.values()
        return sum(owner.published for owner in owners), time.thread_time()

    def _end(self) -> None:
        messages, seconds = (now - then for now, then in zip(self._now(), self._began, strict=True))
        if messages >= LEAST_MESSAGES:
            self.found[self._on].append(seconds / messages * 1e6)
        self._on = not self._on
        self._switch.turn(on=self._on)
        self._began = self._now()
        self._timer = self._process.loop.call_later(WINDOW_S, self._end)

    def stop(self) -> None:
        self._timer.cancel()
        self._switch.turn(on=True)


LOADS: Final[Mapping[str, Mapping[str, int]]] = {
    "as many as it can": {"publishers": 2, "consumers": 2, "window": 1000, "prefetch": 2000, "ack_every": 50},
    "one at a time": {"publishers": 1, "consumers": 1, "window": 1, "prefetch": 1, "ack_every": 1},
}


def _load(address: str, seconds: float, load: Mapping[str, int]) -> None:
    run_load(
        seconds, publish_to=address, consume_from=address, queue="observed", type="quorum", size=SIZE, **load
    )


async def metrics(seconds: float, directory: Path) -> None:
    """Print what counting costs, and what a scrape does."""
    (node,) = plan(1, directory, 8790, 18790)
    prepare([node])
    process = NodeProcess(node.config, asyncio.get_running_loop(), lambda: None)
    await process.start()
    try:
        load_on = partial(_load, str(node.config.listen.amqp), seconds / len(LOADS) / 2)
        for name, load in LOADS.items():
            windows = Windows(process)
            await asyncio.to_thread(load_on, load)
            windows.stop()
            counted, not_counted = (median(windows.found[on] or [nan]) for on in (True, False))
            timed, switch = Timed(), Switch()
            switch.put(timed.timed)
            await asyncio.to_thread(load_on, load)
            share = timed.share()
            switch.turn(on=True)
            print(
                f"{name}: {counted:.3f} µs a message counted, {not_counted:.3f} not; ratio of the medians "
                f"{counted / not_counted:.4f} ({sum(map(len, windows.found.values()))} windows); "
                f"counting is {100 * share:.2f} % of the loop's time"
            )
        scrape = each_us(lambda: list(lines(process.administration.metrics.metrics())), 200) / 1000
        print(f"a scrape of /metrics takes the event loop {scrape:.2f} ms")
    finally:
        await process.stop()


def run_of(count: int, traceparent: str | None) -> Run:
    """Messages as a publisher sends them."""
    headers = {} if traceparent is None else {"headers": {"traceparent": traceparent}}
    header = encode_frame(FRAME_HEADER, 1, encode_header(SIZE, encode_properties(headers)))
    content = header + encode_frame(FRAME_BODY, 1, bytes(SIZE))
    lengths = array("I", [len(content)] * count)
    return Run("", "observed", 1, True, count, 0, 0, lengths, SIZE + 8, content * count)


def each_us(step: Callable[[], object], times: int) -> float:
    """Microseconds of processor time that a step takes, the median of 15 rounds."""
    found = []
    for _ in range(15):
        begin = time.thread_time()
        for _ in range(times):
            step()
        found.append((time.thread_time() - begin) / times * 1e6)
    return median(found)


@contextmanager
def unheard_spans() -> Iterator[OtlpSpans]:
    """Spans that no receiver takes: the measure is the time to make them."""
    spans = OtlpSpans(TraceSettings(endpoint="http://127.0.0.1:9/v1/traces"), "n1", "observed")
    try:
        yield spans
    finally:
        spans.close()


def traces() -> None:
    """Print what traces cost where they are on."""
    context = TraceContext(1 << 64 | 1, 1)
    traced = f"00-{context.trace:032x}-{context.span:016x}-01"
    plain, marked = run_of(64, None), run_of(64, traced)
    with unheard_spans() as spans:
        for what, run in (("no", plain), ("a", marked)):
            found = each_us(partial(stretches_in, run, spans.records), 300)
            print(f"a batch of 64 messages with {what} traceparent is looked through in {found:.1f} µs")
        print(f"a span is made in {each_us(lambda: spans.add('publish', {context: 1}, 1, {}), 300):.1f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    seconds = parser.parse_args().seconds
    logging.disable()
    build()
    traces()
    with tempfile.TemporaryDirectory() as directory:
        uvloop.run(metrics(seconds, Path(directory)))


if __name__ == "__main__":
    main()
