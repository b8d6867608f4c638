"""The messages of committed entries as Arrow batches: the columns of topics, out of the journals of several
nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pipeline.arrow.columns import arrow_schema
from pipeline.arrow.journals import EntryBatches
from pipeline.journal.damage import Damage, DamageError
from pipeline.journal.layout import Record
from pipeline.journal.segments import Segment
from pipeline.log.rows import TOPIC_COLUMNS
from pipeline.octets.ranges import Numbers

_NUMBERED: Final = ("queue", "sequence")
"""The columns that tell which message a row is."""


class _Records:
    """Some records of a segment. Content that is malformed raises DamageError."""

    def __init__(self, segment: Segment, found: Iterable[Record]) -> None:
        self.segment, self._found = segment, found

    def records(self) -> Iterator[Record]:
        yield from self._found

    def note(self, offset: int, end: int, kind: str, damage: str) -> None:
        segment = self.segment
        raise DamageError(Damage(segment.node, segment.path, segment.number, offset, end, kind, damage))


def committed_batches(
    records: Iterable[tuple[Segment, Record]],
    columns: Sequence[str],
    gone: Mapping[int, Numbers],
    names: Mapping[int, str],
) -> Iterator[Any]:
    """The messages of entries but for those that are `gone`, by queue; the named columns. `names` of queues
    are by number; queues without one have their numbers. Raises DamageError, and as `records`.
    """
    wanted = [*columns, *(name for name in _NUMBERED if name not in columns)]
    schema = arrow_schema(TOPIC_COLUMNS, columns)
    for segment, pairs in groupby(records, key=itemgetter(0)):
        reader = _Records(segment, map(itemgetter(1), pairs))
        for batch in EntryBatches(reader, wanted).read():
            kept = _without(batch, gone)
            found = {name: kept[name] for name in columns}
            if "queue" in found:
                found["queue"] = _named(found["queue"], names)
            yield pa.RecordBatch.from_arrays([found[name] for name in columns], schema=schema)


def _without(batch: Any, gone: Mapping[int, Numbers]) -> Any:
    if not gone:
        return batch
    queues, numbers = (np.asarray(batch[name]).view(np.uint64) for name in _NUMBERED)
    kept = np.ones(len(batch), bool)
    for queue in np.unique(queues).tolist():
        if queue in gone:
            firsts, lasts = np.array(list(gone[queue]), np.uint64).reshape(-1, 2).T
            place = np.searchsorted(firsts, numbers, "right") - 1
            kept &= (queues != queue) | (place < 0) | (numbers > lasts[np.maximum(place, 0)])
    return batch.filter(pa.array(kept))


def _named(queues: Any, names: Mapping[int, str]) -> Any:
    encoded = queues.dictionary_encode()
    numbers = np.asarray(encoded.dictionary).view(np.uint64).tolist()
    texts = [names.get(number, str(number)) for number in numbers]
    return pa.array(texts, pa.string()).take(encoded.indices)
