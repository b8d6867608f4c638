"""The metrics of the readers of streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from cluster.admin.metrics.metric import Metric, counter, gauge, label_text, series
from cluster.admin.views import PartitionsView
from cluster.owner.readers import ReaderRow

_Value = Callable[[ReaderRow], float]

_LAGS: Final[tuple[tuple[str, str, _Value], ...]] = (
    ("messages", "Messages of a stream that a reader has not read", lambda row: row.messages),
    (
        "bytes",
        "Octets of the log of the stream's partition from the first message on that a reader has not read",
        lambda row: row.octets,
    ),
    (
        "seconds",
        "Seconds since the owner took the first message that a reader has not read",
        lambda row: row.milliseconds / 1000,
    ),
)


def reader_sums(partitions: PartitionsView) -> Iterator[Metric]:
    """Of all readers of the streams that this node owns."""
    yield counter(
        "quorate_readers_overtaken_total",
        "Readers of streams that retention has passed at owners of this node, as they were further behind "
        "than their max lag.",
        partitions.overtaken.count,
    )
    rows = [row for _, row in _rows(partitions)]
    yield gauge("quorate_readers", "Readers of the streams that this node owns.", len(rows))
    for name, help_, value in _LAGS:
        most = max(map(value, rows), default=0)
        yield gauge(f"quorate_readers_lag_max_{name}", f"{help_}: of the last of the readers.", most)


def reader_metrics(partitions: PartitionsView) -> Iterator[Metric]:
    """Of each reader of the streams that this node owns."""
    labels, rows = list[str](), list[ReaderRow]()
    for queue, row in _rows(partitions):
        vhost, stream = partitions.queue_name(queue) or ("", str(queue))
        name = row.name.decode("utf-8", "replace")
        labels.append(label_text({"vhost": vhost, "stream": stream, "reader": name}))
        rows.append(row)
    for name, help_, value in _LAGS:
        yield series(f"quorate_reader_lag_{name}", "gauge", f"{help_}.", labels, map(value, rows))
    yield series(
        "quorate_reader_lost_messages",
        "gauge",
        "Messages behind a reader's position that retention has removed; at most so many, where their number "
        "is not known.",
        labels,
        [row.lost for row in rows],
    )


def _rows(partitions: PartitionsView) -> Iterator[tuple[int, ReaderRow]]:
    for owner in list(partitions.owners.values()):
        yield from owner.reader_rows()
