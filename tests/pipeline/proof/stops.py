"""Stops: processes of Spark tell that they have come to a point, and wait there until they are let go on."""

from __future__ import annotations

import json
import queue
import socket
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Lock, Thread
from typing import Final, NamedTuple

LOOK_S: Final = 0.5
"""How often a proof that waits for a process at a point looks for queries that have ended."""


class Point(NamedTuple):
    """A point by its name, and the how manyeth process that comes there."""

    name: str
    nth: int


class Stopped(NamedTuple):
    """A process that waits at a point. `url` and `path`: of the blocks that it reads, or nothing."""

    point: str
    pid: int
    url: str
    path: str
    connection: socket.socket

    def go_on(self) -> None:
        """Let the process go on, if it is still there."""
        with self.connection:
            try:
                self.connection.sendall(b"g")
            except OSError:
                return


class Stops:
    """The socket of the stops. Processes at other points than the one that is wanted go on at once."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="stops-")
        self.address = Path(self._scratch.name) / "socket"
        self.come: Counter[str] = Counter()
        self._wanted: Point | None = None
        self._held: queue.Queue[Stopped] = queue.Queue()
        self._lock = Lock()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self.address))
        self._socket.listen(64)
        Thread(target=self._serve, daemon=True).start()

    def hold(self, point: Point, look: Callable[[], None], looks: int) -> Stopped | None:
        """The process that comes to a point; None where none has come after so many looks."""
        with self._lock:
            self._wanted = point
        for _ in range(looks):
            try:
                return self._held.get(timeout=LOOK_S)
            except queue.Empty:
                look()
        with self._lock:
            self._wanted = None
        return None if self._held.empty() else self._held.get()

    def close(self) -> None:
        """Processes that come to a stop end from now on."""
        self._socket.close()
        self._scratch.cleanup()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            Thread(target=self._receive, args=(connection,), daemon=True).start()

    def _receive(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as lines:
            line = lines.readline()
        if not line:
            connection.close()
            return
        told = json.loads(line)
        stopped = Stopped(told["point"], told["pid"], told.get("url", ""), told.get("path", ""), connection)
        if self._is_wanted(stopped):
            self._held.put(stopped)
        else:
            stopped.go_on()

    def _is_wanted(self, stopped: Stopped) -> bool:
        with self._lock:
            self.come[stopped.point] += 1
            if self._wanted is None or self._wanted.name != stopped.point:
                return False
            left = self._wanted.nth - 1
            self._wanted = Point(stopped.point, left) if left else None
            return not left
