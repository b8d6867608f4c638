"""Reads the journals of nodes for an audit, and reads single records of them again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from pipeline.audit.replica import Replica
from pipeline.audit.verdict import Place, Verdict
from pipeline.journal.layout import EVERY_PARTITION, Kind, Record
from pipeline.journal.segments import FileOctets, Segment, SegmentReader
from pipeline.octets.cursor import MalformedError

_OPEN_FILES: Final = 64


def replicas_in(segments: Sequence[Segment], verdict: Verdict, on_damage: str) -> dict[int, Replica]:
    """The replicas of one node by partition.

    Raises DamageError where damage is not to be reported, OSError.
    """
    found: dict[int, Replica] = {}
    before = segments[0].number - 1 if segments else 0
    damaged = len(verdict.damage)
    unread = len(verdict.unread)
    for segment in segments:
        if segment.number != before + 1:
            _missing(found.values())
        before = segment.number if _read(segment, found, verdict, on_damage) else -1
    for replica in found.values():
        replica.finish(whole=damaged == len(verdict.damage) and unread == len(verdict.unread))
    return found


def _missing(replicas: Iterable[Replica]) -> None:
    for replica in replicas:
        replica.segment_missing()


def _read(segment: Segment, found: dict[int, Replica], verdict: Verdict, on_damage: str) -> bool:
    """Hand the records of a segment to replicas; whether all of it could be read."""
    try:
        octets = FileOctets.of(segment)
    except FileNotFoundError:
        verdict.unread.append(segment.path)
        return False
    try:
        reader = SegmentReader(segment, octets, on_damage)
        batch = set[Replica]()
        damaged = 0
        for record in reader.records():
            if damaged < len(reader.damage):
                damaged = len(reader.damage)
                _missing(found.values())
            _take(record, segment, found, verdict, reader, batch)
        _batch_ends(batch)
        verdict.damage += reader.damage
        if reader.recycled:
            verdict.unread.append(segment.path)
        return not reader.recycled and not reader.damage
    finally:
        octets.close()


def _take(
    record: Record, segment: Segment, found: dict[int, Replica], verdict: Verdict, reader: SegmentReader,
    batch: set[Replica],
) -> None:  # fmt: skip
    if record.kind == Kind.SEAL or record.partition == EVERY_PARTITION:
        _batch_ends(batch)
        return
    replica = found.get(record.partition)
    if replica is None:
        replica = found[record.partition] = Replica(segment.node, record.partition, verdict)
    batch.add(replica)
    try:
        replica.take(record, Place(segment.node, segment.number, record.offset))
    except MalformedError as error:
        reader.note(record.offset, record.end, "content", str(error))


def _batch_ends(batch: set[Replica]) -> None:
    for replica in batch:
        replica.batch_ends()
    batch.clear()


class Records:
    """Reads records of several nodes again, by their places."""

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = {(one.node, one.number): one for one in segments}
        self._open: OrderedDict[tuple[str, int], FileOctets] = OrderedDict()

    def read(self, place: Place) -> Record | None:
        """The record at a place; None where the node has freed it meanwhile. Raises OSError."""
        key = place.node, place.segment
        octets = self._open.get(key)
        if octets is None:
            try:
                octets = FileOctets.of(self._segments[key])
            except FileNotFoundError:
                return None
            if len(self._open) >= _OPEN_FILES:
                self._open.popitem(last=False)[1].close()
            self._open[key] = octets
        return SegmentReader(self._segments[key], octets).record_at(place.offset)

    def close(self) -> None:
        for octets in self._open.values():
            octets.close()
        self._open.clear()
