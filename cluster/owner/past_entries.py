"""Reads the messages of a stream for its readers, each from any place on, beside what an owner reads for
consumers: a reader of the past takes no room in the cache of the journal, and none among the owner's decoded
entries.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from cluster.owner.contents import EntrySource
from node.message.run import Run
from node.queue.entry_format import EntryMessages
from node.queue.partition import PartitionMachine

PAST_OCTETS: Final = 2 * 1024 * 1024
"""Most octets of entries that are kept, unless one read has more: those that a read has got ahead, and those
of which a page has had a part.
"""


class PastEntries:
    """The contents of a partition's messages, for readers. Methods raise DamagedEntryError as
    `cluster.owner.contents.EntrySource.data`.
    """

    def __init__(self, machine: PartitionMachine, source: EntrySource) -> None:
        self._machine = machine
        self._source = source
        # By log index: an entry as it was read, or decoded once a page has had a part of it.
        self._kept: OrderedDict[int, bytes | EntryMessages] = OrderedDict()
        self._octets = 0

    def forget(self) -> None:
        """Forget the entries: the log was replaced."""
        self._kept.clear()
        self._octets = 0

    def first_runs(self, first: int, last: int) -> list[tuple[int, Run]]:
        """As `cluster.owner.contents.Contents.first_runs`."""
        index = self._machine.locate(first)
        found = self._kept.get(index)
        if found is None:
            self._keep(self._source.read_past(index))
            found = self._kept[index]
        if not isinstance(found, EntryMessages):
            found = self._kept[index] = EntryMessages(found)
        return found.runs(first, last)

    def _keep(self, read: list[tuple[int, bytes]]) -> None:
        """Keep what one read has got, and let go of the oldest entries."""
        for index, data in read:
            if index not in self._kept:
                self._kept[index] = data
                self._octets += len(data)
        while self._octets > PAST_OCTETS and len(self._kept) > len(read):
            _, oldest = self._kept.popitem(last=False)
            self._octets -= oldest.size if isinstance(oldest, EntryMessages) else len(oldest)
