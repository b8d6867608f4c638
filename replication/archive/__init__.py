"""The archive of a journal: sealed segments that the journal needs no more, kept in another directory."""

from replication.archive.archive import Archive
from replication.archive.archiver import Archiver, StoreOutcome
from replication.archive.decisions import Archived, ArchiveLimits, Archiving, expired
from replication.archive.directory import ArchiveDirectory

__all__ = [
    "Archive",
    "ArchiveDirectory",
    "ArchiveLimits",
    "Archived",
    "Archiver",
    "Archiving",
    "StoreOutcome",
    "expired",
]
