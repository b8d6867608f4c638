"""Processes of Spark: drivers, and those that are found above a process of Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.structure.tree import ROOT

EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
END_S: Final = 300.0


class Driver:
    """A driver, in a session of its own. Its queries start when they are told to."""

    def __init__(self, options: Mapping[str, str], environment: Mapping[str, str], log: Path) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.pipeline.proof.driver", json.dumps(dict(options))],
                env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output,
                text=True, start_new_session=True,
            )  # fmt: skip
        self._pids: list[int] = []

    def start_queries(self) -> None:
        """Returns when the session is there, and the queries are told to start."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the driver ended with {self._process.wait()} before its session was there"
        self._pids = json.loads(line)
        self._tell("start")

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """Kill the JVM and the process of Python that has started it."""
        for pid in self._pids:
            kill(pid)
        self._process.wait()

    def finish(self) -> bool:
        """Have the queries read what there is, and end. Returns whether they have."""
        self._tell("finish")
        return self._process.wait(END_S) == 0

    def clean(self) -> None:
        """Kill what is left of the driver's session."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _stat(int(entry.name), 3) == self._process.pid:
                kill(int(entry.name))
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()


def kill(pid: int) -> None:
    """SIGKILL, if the process is there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def executor_of(pid: int) -> int | None:
    """The executor that has started a task's process; None for a process of the driver."""
    above: Any = pid
    while above:
        try:
            if EXECUTOR in Path(f"/proc/{above}/cmdline").read_bytes():
                return int(above)
        except OSError:
            return None
        above = _stat(above, 1)
    return None


def _stat(pid: int, field: int) -> int | None:
    """A field of /proc/PID/stat behind the command: 1 is the parent, 3 the session."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[field])
