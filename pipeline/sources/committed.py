"""The committed entries of partitions, of the journals of several nodes together: each entry once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from pipeline.audit.audit import Scan, scan
from pipeline.audit.journals import Records
from pipeline.audit.replica import CATALOG, Copy, Replica
from pipeline.audit.verdict import Place, Verdict
from pipeline.journal.damage import Damage, DamageError, JournalReadError
from pipeline.journal.layout import Record
from pipeline.journal.raft import snapshot_in, unpacked
from pipeline.journal.segments import Segment
from pipeline.octets.cursor import MalformedError
from pipeline.options import OptionError
from pipeline.sources.message_log import Run


class EntryGoneError(JournalReadError):
    """Nodes have freed the segments with an entry since the journals were scanned: run the job again."""


class CommittedEntry(NamedTuple):
    """An entry, with the records that have it, those of whole copies first."""

    log_index: int
    copies: tuple[Place, ...]


class Committed(NamedTuple):
    """The committed entries by partition, in order. `known`: up to which index each partition is known to be
    committed. `names`: of queues, by number, as far as a snapshot of the catalog tells them.
    """

    entries: dict[int, list[CommittedEntry]]
    known: dict[int, int]
    names: dict[int, str]


Journals = Sequence[Sequence[Segment]]
"""The segments of each node, as `segments_in` gives them."""


def committed_in(
    journals: Journals, on_damage: str, run: Run[Any, Any], names: Mapping[int, str]
) -> Committed:
    """Scan the journals, a task for each node. `names` of queues go before those of the catalog.

    Raises OptionError where two journals are of one node or replicas differ, DamageError, OSError.
    """
    nodes = [segments[0].node for segments in journals if segments]
    if len(set(nodes)) < len(nodes):
        raise OptionError(f"two journals of one node: {', '.join(nodes)}; give names as NAME=DIR")
    verdict, by_partition = Verdict(), dict[int, list[Replica]]()
    scans: Iterable[Scan] = run(partial(scan, on_damage=on_damage), list(journals))
    for part, replicas in scans:
        verdict.add(part)
        for replica in replicas:
            by_partition.setdefault(replica.partition, []).append(replica)
    if verdict.violations:
        raise OptionError(f"the journals break a promise, as the job audit tells: {verdict.violations[0]}")
    entries = {number: _merged(those) for number, those in sorted(by_partition.items()) if number != CATALOG}
    known = {number: max(one.known for one in those) for number, those in by_partition.items()}
    return Committed(entries, known, _names(journals, by_partition.get(CATALOG, [])) | dict(names))


def _merged(replicas: Sequence[Replica]) -> list[CommittedEntry]:
    """Raises OptionError where copies differ."""
    whole, reduced = dict[int, list[Place]](), dict[int, list[Place]]()
    first = dict[int, Copy]()
    for replica in replicas:
        for index, copy in replica.committed.items():
            if not first.setdefault(index, copy).same(copy):
                raise OptionError(
                    f"the journals break a promise, as the job audit tells: entry {index} of partition "
                    f"{replica.partition} on node {replica.node} is not that of node "
                    f"{first[index].place.node}"
                )
            (reduced if copy.reduced else whole).setdefault(index, []).append(copy.place)
    return [
        CommittedEntry(index, (*whole.get(index, ()), *reduced.get(index, ())))
        for index in sorted(whole.keys() | reduced.keys())
    ]


def _names(journals: Journals, catalogs: Sequence[Replica]) -> dict[int, str]:
    newest = max(
        (taken for replica in catalogs for taken in replica.snapshots.values()),
        key=lambda taken: taken.upto,
        default=None,
    )
    if newest is None:
        return {}
    records = Records(segment for segments in journals for segment in segments)
    try:
        record = records.read(newest.place)
        state = unpacked(snapshot_in(record.payload).state) if record is not None else {}
        return {one["id"]: one["name"] for one in state.get("queues", ())}
    finally:
        records.close()


def records_of(journals: Journals, entries: Iterable[CommittedEntry]) -> Iterator[tuple[Segment, Record]]:
    """The record of each entry, of the first copy that is still there. Raises EntryGoneError, OSError."""
    segments = {(one.node, one.number): one for those in journals for one in those}
    records = Records(segments.values())
    try:
        for entry in entries:
            for place in entry.copies:
                record = records.read(place)
                if record is not None:
                    yield segments[place.node, place.segment], record
                    break
            else:
                raise EntryGoneError(f"no journal has entry {entry.log_index} any more: run the job again")
    finally:
        records.close()


def content_error(segment: Segment, record: Record, error: MalformedError) -> DamageError:
    """The error of a record whose content is malformed."""
    place = segment.node, segment.path, segment.number, record.offset, record.end
    return DamageError(Damage(*place, "content", str(error)))
