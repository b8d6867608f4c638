"""The job report: tasks follow partitions, and the driver joins their figures by queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from pipeline.journal.raft import NORMAL
from pipeline.octets.cursor import MalformedError
from pipeline.report.figures import QueueFigures
from pipeline.report.fold import PartitionFold
from pipeline.report.samples import Forecasted
from pipeline.sources.committed import (
    Committed,
    CommittedEntry,
    Journals,
    committed_in,
    content_error,
    records_of,
)
from pipeline.sources.message_log import Run


class Followed(NamedTuple):
    """The figures of a partition by the numbers of queues. `unknown`: operations of newer releases."""

    queues: dict[int, QueueFigures]
    unknown: int


@dataclass(slots=True)
class Report:
    """The figures of queues by name. `nodes` and `running`: what nodes that run tell, by address and by
    queue. `forecasts`: when queues and disks fill.
    """

    queues: dict[str, QueueFigures] = field(default_factory=dict)
    entries: int = 0
    unknown: int = 0
    nodes: dict[str, Any] = field(default_factory=dict)
    running: dict[str, dict[str, int]] = field(default_factory=dict)
    forecasts: list[Forecasted] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "entries": self.entries,
            "unknown": self.unknown,
            "queues": {name: one.as_json() for name, one in sorted(self.queues.items())},
            "nodes": self.nodes,
            "running": dict(sorted(self.running.items())),
            "forecasts": [one.as_json() for one in self.forecasts],
        }


def report_of(journals: Journals, on_damage: str, run: Run[Any, Any], names: Mapping[int, str]) -> Report:
    """Report on journals. Raises OptionError, EntryGoneError, DamageError, OSError."""
    committed = committed_in(journals, on_damage, run, names)
    followed = run(partial(follow_partition, journals), list(committed.entries.values()))
    return joined(committed, followed)


def follow_partition(journals: Journals, entries: Sequence[CommittedEntry]) -> Followed:
    """Follow the entries of a partition. Raises EntryGoneError, DamageError, OSError."""
    fold = PartitionFold()
    for segment, record in records_of(journals, entries):
        if record.entry_kind == NORMAL:
            try:
                fold.apply(record.data)
            except MalformedError as error:
                raise content_error(segment, record, error) from error
    return Followed(fold.finished(), fold.unknown)


def joined(committed: Committed, followed: Iterable[Followed]) -> Report:
    """The figures of all partitions by the names of queues, or their numbers where no name is known."""
    report = Report(entries=sum(map(len, committed.entries.values())))
    for one in followed:
        report.unknown += one.unknown
        for number, figures in one.queues.items():
            name = committed.names.get(number, str(number))
            report.queues.setdefault(name, QueueFigures()).plus(figures)
    return report
