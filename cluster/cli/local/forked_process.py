"""Node processes, forked from one that has imported their code already.

A node spends most of its start importing. One process does that for all nodes of a machine, and for those
that are started again; it does nothing else, has no threads, and goes with the process that asked for it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import forkserver, get_context, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path

from cluster.system.data_directory import PRIVATE_FILE

Program = Callable[[list[str]], object]
"""The function of a module that a process runs, with its arguments. SystemExit gives the exit code."""

_context = get_context("forkserver")
_context.set_forkserver_preload(
    [__name__, "cluster.cli.main", "cluster.cli.commands.run", "cluster.process.run"]
)


def prepare_processes() -> None:
    """Begin to import what nodes need. The first `ForkedProcess` waits until it is there."""
    # Before the signal is blocked, as starting the tracker unblocks it.
    resource_tracker.ensure_running()
    # A terminal's SIGINT goes to that process too, which would tell where it was interrupted.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_forked_node(arguments: list[str]) -> None:
    """The program of a node: `quorate` with these arguments."""
    from cluster.cli.main import main

    main(arguments, prog_name="quorate")


class ForkedProcess:
    """A process in a session of its own, which keeps a terminal's SIGINT from it: who started it stops it.

    Its standard input ends with the process that started it, to tell it that its parent cannot stop it any
    more.
    """

    def __init__(self, program: Program, arguments: Sequence[str], log: Path) -> None:
        """Starts it; waits for the process that forks it. `log`: where output and errors are appended, for
        what a node says before it opens the file itself.
        """
        # Made here, so that a file that cannot be written is the caller's error.
        os.close(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE))
        prepare_processes()
        reader, self._alive = _context.Pipe(duplex=False)
        self._process = _context.Process(
            target=_run, args=(program, list(arguments), log, reader, dict(os.environ)), daemon=True
        )
        self._process.start()
        reader.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self.sentinel: int = self._process.sentinel
        """A file descriptor that is readable from the end of the process until its exit code is known."""
        self._exit_code: int | None = None

    def send(self, number: signal.Signals) -> None:
        """To a process that has ended already it means nothing."""
        if self.exit_code() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def exit_code(self) -> int | None:
        """None while it runs; negative: the number of the signal that ended it."""
        if self._exit_code is None:
            self._exit_code = self._process.exitcode
            if self._exit_code is not None:
                self._alive.close()
                self._process.close()
        return self._exit_code

    def wait(self, seconds: float) -> int:
        """Its exit code; raises TimeoutError."""
        if self._exit_code is None:
            self._process.join(seconds)
        code = self.exit_code()
        if code is None:
            raise TimeoutError(f"process {self.pid} still runs after {seconds} s")
        return code


def _run(
    program: Program, arguments: list[str], log: Path, alive: Connection, environment: dict[str, str]
) -> None:
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(alive.fileno(), 0)
    alive.close()
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    program(arguments)
