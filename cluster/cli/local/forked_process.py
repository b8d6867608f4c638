"""Node processes, forked from a process that has imported their code already.

A node spends most of its start importing. The fork server imports once for all nodes of a machine, and for
nodes that are started again. It does nothing else, has no threads, and ends with the process that started it.
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
    [
        __name__,
        "cluster.cli.main",
        "cluster.cli.commands.run",
        "cluster.process.run",
        "cluster.cli.local.frozen",
    ]
)


def prepare_processes() -> None:
    """Start the fork server, which imports the nodes' code. The first `ForkedProcess` waits for that."""
    # Before SIGINT is blocked, as starting the tracker unblocks it.
    resource_tracker.ensure_running()
    # A terminal sends SIGINT to the fork server too, which would print a traceback.
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
    """A process in a session of its own, so that a terminal's SIGINT does not reach it: its parent stops it.

    The process's standard input ends when its parent ends, and tells it that the parent cannot stop it any
    more.
    """

    def __init__(self, program: Program, arguments: Sequence[str], log: Path) -> None:
        """Start the process; waits until the fork server has imported the code. Raises OSError for `log`.

        The process's output and errors are appended to the file `log`, until the node opens the file itself.
        """
        # Made here, so that the caller gets the error of a file that cannot be written.
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
        """A file descriptor, readable from the end of the process on. It is closed with this object: an event
        loop that waits for it hears of the end, also when the exit code was asked for before.
        """
        self._exit_code: int | None = None

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if the process has ended already."""
        if self.exit_code() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def exit_code(self) -> int | None:
        """The exit code; None while the process runs; the negative number of a signal that ended it."""
        if self._exit_code is None:
            self._exit_code = self._process.exitcode
            if self._exit_code is not None:
                self._alive.close()
        return self._exit_code

    def wait(self, seconds: float) -> int:
        """Wait for the end of the process; returns its exit code. Raises TimeoutError."""
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
