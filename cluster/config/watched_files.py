"""Files that a node reads again when they change: certificates, and keys of access tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cluster.config.tables import ConfigError

_Signature = tuple[tuple[int, int], ...]


class WatchedFiles:
    """Tells whether files have changed since they were last read."""

    def __init__(self, table: str, paths: Sequence[Path]) -> None:
        """`table` is that of the configuration which names the files."""
        self._table = table
        self._paths = paths
        self._seen: _Signature = ()

    @property
    def changed(self) -> bool:
        """Whether the files have changed since `note`. False while one is missing, as while a program
        replaces it.
        """
        try:
            return self._signature() != self._seen
        except OSError:
            return False

    def note(self) -> None:
        """The files are about to be read. Raises ConfigError where one is missing."""
        try:
            self._seen = self._signature()
        except OSError as error:
            raise ConfigError(f"{self._table}: {error.filename}: {error.strerror}") from error

    def _signature(self) -> _Signature:
        found = [path.stat() for path in self._paths]
        return tuple((one.st_mtime_ns, one.st_ino) for one in found)
