"""The row of a streaming query's batches, beside Spark's own rate source."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.load import Generator, started
from bench.pipeline.measuring import Pipeline, declare_stream, medians
from bench.pipeline.table import Measured

BATCHED_STREAM: Final = "bench-batches"
_RATE: Final = 1000
_TRIGGER: Final = "1 second"
"""The rate source has whole seconds of rows, so that shorter triggers would find none."""
_MARGIN_MS: Final = 100
_FIRST: Final = 1
"""A batch of each query does not count: Spark compiles its code."""
_LIMIT_SECONDS: Final = 300
_LOOK_SECONDS: Final = 0.1


def batches(bench: Pipeline) -> Iterator[Measured]:
    """Milliseconds of a trigger with 1,000 rows, all of them to noop, of both sources in turn. The publisher
    and the nodes take as much of the machine beside the one as beside the other.
    """
    declare_stream(bench.cluster.address(0), BATCHED_STREAM)
    rate = bench.spark.readStream.format("rate").options(rowsPerSecond=_RATE, numPartitions=1)
    options = bench.options | {"topic": BATCHED_STREAM, "startingAt": "latest"}
    topic = bench.spark.readStream.format("quorate").options(**options)
    count = max(1, round(bench.seconds))

    def beside_publisher(source: Any) -> float:
        with _published(bench):
            return _milliseconds(source.load(), count)

    found = medians({"topic": partial(beside_publisher, topic), "rate": partial(beside_publisher, rate)})
    against = found["rate"] + _MARGIN_MS
    peer = f"Spark's rate source, {found['rate']:.0f}, and {_MARGIN_MS} ms"
    title = f"batch of a streaming query, {_RATE:,} rows / s"
    yield Measured(title, found["topic"], "ms", against, peer, "≤ both", 1, most=True)


def _milliseconds(frame: Any, count: int) -> float:
    """The median of the batches of a query that had rows, `count` of them."""
    with TemporaryDirectory(prefix="quorate-bench-batches-", ignore_cleanup_errors=True) as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime=_TRIGGER).start()
        try:
            return statistics.median(first_durations(query, _FIRST + count)[_FIRST:])
        finally:
            query.stop()


def first_durations(query: Any, count: int) -> list[float]:
    """Milliseconds of the first batches with rows. Raises RuntimeError if the query ends before, or has too
    few in five minutes, and StreamingQueryException where the query fails.
    """
    ends, ended = time.monotonic() + _LIMIT_SECONDS, False
    while not ended and time.monotonic() < ends:
        batches = {one["batchId"]: one for one in query.recentProgress if one["numInputRows"]}
        if len(batches) >= count:
            times = [one["durationMs"]["triggerExecution"] for _, one in sorted(batches.items())]
            return times[:count]
        ended = query.awaitTermination(_LOOK_SECONDS)
    raise RuntimeError(f"the query {'has ended' if ended else 'goes on'} without {count} batches with rows")


@contextmanager
def _published(bench: Pipeline) -> Iterator[None]:
    """A publisher at the rate of the rate source, for as long as the context lasts. Its process sleeps
    between messages.
    """
    options = bench.load_options | {"queue": BATCHED_STREAM, "consumers": 0, "rate": _RATE, "spin": 0}
    publishing = started(Generator.AMQP_0_9_1, _LIMIT_SECONDS, options)
    try:
        yield
    finally:
        publishing.kill()
        publishing.wait()
