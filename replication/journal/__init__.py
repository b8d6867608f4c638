"""The journal: one set of segment files a node, shared by its partitions."""

from replication.journal.batch import WriteBatch
from replication.journal.counters import BOUNDS_S, Durations, JournalCounters
from replication.journal.errors import (
    DamagedEntryError,
    DamagedJournalError,
    JournalError,
    JournalFailedError,
    JournalInUseError,
    UnsupportedJournalError,
)
from replication.journal.files import DirectoryFiles, File, Files
from replication.journal.journal import Journal, JournalConfig
from replication.journal.log import PartitionLog
from replication.journal.slices import SLICE_OCTETS, EntrySlices
from replication.journal.writer import JournalWriter

__all__ = [
    "BOUNDS_S",
    "SLICE_OCTETS",
    "DamagedEntryError",
    "DamagedJournalError",
    "DirectoryFiles",
    "Durations",
    "EntrySlices",
    "File",
    "Files",
    "Journal",
    "JournalConfig",
    "JournalCounters",
    "JournalError",
    "JournalFailedError",
    "JournalInUseError",
    "JournalWriter",
    "PartitionLog",
    "UnsupportedJournalError",
    "WriteBatch",
]
