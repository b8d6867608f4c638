"""The findings of an audit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from pipeline.journal.damage import Damage

_SHOWN: Final = 100


class Promise(StrEnum):
    """The promises that an audit looks after."""

    REPLICAS_AGREE = "replicas agree on committed entries"
    NOTHING_REPLACED = "no committed entry is replaced"
    NO_GAP = "entries have no gap"
    NUMBERS_ASCEND = "each message has a number of its own"
    ONE_END = "each message has one end"
    PUBLISHED_FIRST = "no message ends before its publish"
    AT_MOST_ONCE = "an at-most-once queue delivers no message twice"
    BATCH_ONCE = "each batch is applied once"
    ONE_OUTCOME = "each transaction is decided one way"
    STATES_AGREE = "snapshots have what the entries say"
    ONE_VOTE = "a node has one vote in a term"


class Place(NamedTuple):
    """A record in the journal of a node."""

    node: str
    segment: int
    offset: int


class Violation(NamedTuple):
    """A broken promise. `bookmark` is that of the first message that it concerns, if it concerns any."""

    promise: Promise
    partition: int
    bookmark: str | None
    node: str
    segment: int
    offset: int
    found: str

    def __str__(self) -> str:
        message = f", message {self.bookmark}" if self.bookmark else ""
        place = f"node {self.node}, segment {self.segment}, offset {self.offset}"
        return f"{self.promise}: {self.found} (partition {self.partition}{message}, {place})"


@dataclass(slots=True)
class PartitionVerdict:
    """The part of a partition's log that was judged. `committed`: the highest index that is known to be
    committed. `judged`: the closed ranges of indexes whose operations were followed. `late`: settlements of
    messages that had ended, of clients whose leases were lost.
    """

    committed: int = 0
    judged: list[tuple[int, int]] = field(default_factory=list)
    published: int = 0
    ended: int = 0
    waiting: int = 0
    late: int = 0


@dataclass(slots=True)
class Verdict:
    """The outcome of an audit. `unread`: files that a running node freed while they were to be read, so that
    an entry that is missing breaks no promise. `unknown`: operations and states of newer releases.
    """

    nodes: list[str] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    partitions: dict[int, PartitionVerdict] = field(default_factory=dict)
    entries: int = 0
    unknown: int = 0

    @property
    def kept(self) -> bool:
        """Whether no promise is broken, and nothing is damaged."""
        return not self.violations and not self.damage

    def add(self, other: Verdict) -> None:
        """Add the findings in the journal of one node."""
        self.nodes += other.nodes
        self.violations += other.violations
        self.damage += other.damage
        self.unread += other.unread

    def note(
        self, promise: Promise, partition: int, place: Place, found: str, bookmark: str | None = None
    ) -> None:
        """Add a violation."""
        self.violations.append(Violation(promise, partition, bookmark, *place, found))

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "kept": self.kept,
            "violations": [one._asdict() for one in self.violations],
            "damage": [one._asdict() for one in self.damage],
        }

    def lines(self) -> Iterable[str]:
        """The verdict as text."""
        parts = self.partitions.values()
        whole = sum(one.judged == [(1, one.committed)] for one in parts)
        yield f"{len(self.nodes)} nodes: {', '.join(self.nodes)}"
        yield (
            f"{len(parts)} partitions, {self.entries} committed entries, "
            f"{whole} partitions from their first entry on"
        )
        yield (
            f"{sum(one.published for one in parts)} messages published, "
            f"{sum(one.ended for one in parts)} ended, {sum(one.waiting for one in parts)} waiting, "
            f"{sum(one.late for one in parts)} settled late"
        )
        if self.unknown:
            yield f"{self.unknown} operations or states of a newer release, which were not judged"
        yield from (f"not read, as the node has freed it: {file}" for file in self.unread)
        yield from (f"damage: {one.file} at offset {one.offset}: {one.damage}" for one in self.damage)
        yield from map(str, self.violations[:_SHOWN])
        if len(self.violations) > _SHOWN:
            yield f"and {len(self.violations) - _SHOWN} more violations"
        broken = f"broken: {len(self.violations)} violations, {len(self.damage)} damaged places"
        yield "kept" if self.kept else broken
