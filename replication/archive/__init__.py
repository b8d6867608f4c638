"""The archive of a journal: sealed segments that the journal needs no more, kept in another directory."""

from replication.archive.archive import Archive
from replication.archive.archiver import Archiver, Outcome
from replication.archive.decisions import Archived, Archiving, Limits, expired
from replication.archive.directory import ArchiveDirectory

__all__ = [
    "Archive",
    "ArchiveDirectory",
    "Archived",
    "Archiver",
    "Archiving",
    "Limits",
    "Outcome",
    "expired",
]
