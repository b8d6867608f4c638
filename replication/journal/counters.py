"""What the journal counts. Plain attributes that only grow; whoever scrapes reads them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class JournalCounters:
    """Sizes in octets, times in seconds.

    records_written counts SEALs too. bytes_copied is what collection wrote again; blocks_read and
    bytes_read are reads of entries from disk after recovery; segments_made includes those made from
    recycled files.
    """

    bytes_written: int = 0
    records_written: int = 0
    syncs: int = 0
    sync_seconds: float = 0.0
    cache_hits: int = 0
    cache_misses: int = 0
    blocks_read: int = 0
    bytes_read: int = 0
    bytes_copied: int = 0
    segments_made: int = 0
    segments_freed: int = 0
    bytes_recovered: int = 0
    recovery_seconds: float = 0.0
