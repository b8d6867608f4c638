"""The node's log as a file, which is renamed when it has grown, while the node runs.

Standard error and standard output go to the file, tracebacks of a dying process included: their descriptors
lead to the file, and to the new file once the old one is renamed.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import Final

from cluster.config.tables import ConfigError, LogSettings
from cluster.log.event_log import EventLog
from cluster.system.data_directory import PRIVATE_FILE

OUTPUTS: Final = (1, 2)
"""Descriptors of standard output and standard error."""


class LogFile:
    """The event loop may `write`: a thread renames the files, and the old file grows on meanwhile."""

    def __init__(self, path: Path, settings: LogSettings) -> None:
        """Lead the process's outputs to the file. Raises `ConfigError`."""
        self._path, self._settings = path, settings
        self.log = EventLog("log")
        self._limit = settings.file_bytes
        self.setting_aside: threading.Thread | None = None
        """The thread that renames the files, while it runs."""
        try:
            self._lead(self._open())
        except OSError as error:
            raise ConfigError(
                f"node.log.file {path}: cannot be written: {error.strerror or error}"
            ) from error

    def write(self, text: str) -> int:
        """Append to the file, and have it renamed if it is long enough. For a handler of `logging`."""
        written = sys.stderr.write(text)
        if self.setting_aside is None and os.fstat(OUTPUTS[-1]).st_size >= self._limit:
            self.setting_aside = threading.Thread(target=self._set_aside, name="log-file", daemon=True)
            self.setting_aside.start()
        return written

    def flush(self) -> None:
        sys.stderr.flush()

    def _set_aside(self) -> None:
        try:
            for number in range(self._settings.files_kept, 1, -1):
                with contextlib.suppress(FileNotFoundError):
                    self._old(number - 1).replace(self._old(number))
            self._path.replace(self._old(1))
            self._lead(self._open())
            self._limit = self._settings.file_bytes
        except OSError as error:
            # Try again after as much text, not with the next line, which would fail for the same reason.
            self._limit += self._settings.file_bytes
            self.log.error("log_not_set_aside", reason=str(error))
        finally:
            self.setting_aside = None

    def _old(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE_FILE)

    def _lead(self, file: int) -> None:
        try:
            for output in OUTPUTS:
                os.dup2(file, output)
        finally:
            os.close(file)


def log_file(settings: LogSettings) -> LogFile | None:
    """The file that is configured; None: the log goes to standard error. Raises `ConfigError`."""
    return None if settings.file is None else LogFile(settings.file, settings)
