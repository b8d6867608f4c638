"""The metrics of the readers of streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from cluster.admin.metrics.metric import Metric, counter, label_text, series
from cluster.admin.views import PartitionsView
from cluster.owner.readers import ReaderRow

_GAUGES: Final[tuple[tuple[str, str, Callable[[ReaderRow], float]], ...]] = (
    (
        "quorate_reader_lag_messages",
        "Messages of a stream that a reader has not read, at the stream's owner.",
        lambda row: row.messages,
    ),
    (
        "quorate_reader_lag_bytes",
        "Octets of the log of the stream's partition from the first message on that a reader has not read.",
        lambda row: row.octets,
    ),
    (
        "quorate_reader_lag_seconds",
        "Seconds since the owner took the first message that a reader has not read.",
        lambda row: row.milliseconds / 1000,
    ),
    (
        "quorate_reader_lost_messages",
        "Messages that retention has removed before a reader has read them, and that the reader has not "
        "passed; at most so many, where their number is not known.",
        lambda row: row.lost,
    ),
)


def reader_metrics(partitions: PartitionsView) -> Iterator[Metric]:
    """How far the readers of the streams that this node owns are behind."""
    yield counter(
        "quorate_readers_overtaken_total",
        "Readers of streams that retention has passed at owners of this node, as they were further behind "
        "than their max lag.",
        partitions.overtaken.count,
    )
    labels, rows = list[str](), list[ReaderRow]()
    for owner in list(partitions.owners.values()):
        for queue, row in owner.reader_rows():
            vhost, stream = partitions.queue_name(queue) or ("", str(queue))
            name = row.name.decode("utf-8", "replace")
            labels.append(label_text({"vhost": vhost, "stream": stream, "reader": name}))
            rows.append(row)
    for name, help_, value in _GAUGES:
        yield series(name, "gauge", help_, labels, [value(row) for row in rows])
