"""The file in this node's data directory for ranges and annotations of queues."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cluster.log.event_log import EventLog
from cluster.process.metadata_file import MetadataFile
from node.ranges.cold import ColdSpace

METADATA_NAME: Final = "metadata"


class Metadata:
    """Makes spaces in the file. Raises OSError where the file of an earlier process cannot be removed."""

    def __init__(self, data_dir: Path, log: EventLog) -> None:
        self.log = log
        self.file = MetadataFile(data_dir / METADATA_NAME, self._full, self._room)

    def new_space(self) -> ColdSpace:
        """A space for one queue."""
        return ColdSpace(self.file)

    def close(self) -> None:
        """Remove the file."""
        self.file.close()

    def _full(self, error: OSError) -> None:
        self.log.warning("metadata_in_memory", error=str(error))

    def _room(self) -> None:
        self.log.info("metadata_in_file")
