"""Node processes, forked from one that has imported their code already.

A node spends most of its start importing. Tests start hundreds, and would wait for that longer than for
anything that they look at. Those of `quorate up` and of its supervisor start nodes by their command line.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

_context = get_context("forkserver")
_context.set_forkserver_preload([__name__, "cluster.cli", "cluster.commands.run", "cluster.process.node"])


class ForkedNode:
    """A process of its own session that runs a command of `quorate`; it is told to end when this process is
    gone, as by a supervisor, so that a killed test leaves no node behind."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        """`log`: where standard output and standard error are appended."""
        log.touch()
        reader, self._alive = _context.Pipe(duplex=False)
        self._process = _context.Process(
            target=_run, args=(list(arguments), log, reader, dict(os.environ)), daemon=True
        )
        self._process.start()
        reader.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        """To a process that has ended already it means nothing."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def exit_code(self) -> int | None:
        """None while it runs; negative: the number of the signal that ended it."""
        return self._process.exitcode

    def wait(self, seconds: float) -> int:
        """Its exit code; raises TimeoutError."""
        self._process.join(seconds)
        code = self._process.exitcode
        if code is None:
            raise TimeoutError(f"process {self.pid} still runs after {seconds} s")
        self._alive.close()
        self._process.close()
        return code


def _run(arguments: list[str], log: Path, alive: Connection, environment: dict[str, str]) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(alive.fileno(), 0)
    alive.close()
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    from cluster.cli import main

    main(arguments, prog_name="quorate")
