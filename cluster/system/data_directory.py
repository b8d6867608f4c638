"""A node's data directory: private, and used by one process at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600
LOCK_NAME = "lock"


class DataDirectoryError(Exception):
    """The directory cannot be used; the text names the directory and the remedy."""


class DataDirectory:
    """Locks the directory for this process, as a context manager. Its files contain messages: no other
    account may read them. Entering raises `DataDirectoryError`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            self.path.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            self.path.chmod(PRIVATE_DIRECTORY)
            lock = os.open(self.path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        except OSError as error:
            raise DataDirectoryError(f"data directory {self.path} cannot be used: {error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise DataDirectoryError(
                f"data directory {self.path} is in use by process {holder}: "
                "stop it or choose another directory"
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read; it replaces an older one atomically. Not synced to disk."""
    scratch = path.with_name(path.name + ".new")
    scratch.unlink(missing_ok=True)
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    scratch.replace(path)
