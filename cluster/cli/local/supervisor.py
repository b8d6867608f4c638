"""Runs the nodes of a local cluster as child processes and keeps them running."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import aiohttp

from cluster.cli.local.forked_process import ForkedProcess, run_forked_node
from cluster.cli.local.layout import LocalNode

CONFIG_EXIT = 2
"""Exit code of a node whose configuration is wrong: starting it again would not help."""
DAMAGED_EXIT = 65
"""Exit code of a node whose journal cannot be read: `cluster.process.scopes.ExitCode`."""

STOP_GRACE_S = 10.0
"""How long nodes have to end after SIGTERM before they are killed."""
FAILED_STARTS = 5
"""A node that ends this many times without having been ready is given up."""
READY_POLL_S = 0.1
WAITING_REPORT_S = 10.0
LONGEST_RESTART_PAUSE_S = 5.0

Report = Callable[[str], None]
Start = Callable[[LocalNode], ForkedProcess]


class Child:
    """One node: its present process, and the count of its failed starts."""

    def __init__(self, node: LocalNode) -> None:
        self.node = node
        self.process: ForkedProcess | None = None
        self.ready = False
        self.failed_starts = 0

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it runs."""
        if self.process is not None:
            self.process.send(number)

    async def wait(self) -> None:
        """Wait until the process has ended."""
        assert self.process is not None
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        if self.process.exit_code() is None:
            loop.add_reader(self.process.sentinel, over.set)
            try:
                await over.wait()
            finally:
                loop.remove_reader(self.process.sentinel)

    def ended(self) -> int:
        """Count the end of the process; returns its exit code, negative for a signal."""
        code = None if self.process is None else self.process.exit_code()
        assert code is not None
        self.failed_starts = 0 if self.ready else self.failed_starts + 1
        self.ready = False
        return code

    def pause(self) -> float:
        """Seconds to wait before the next start: none after a run that had been ready."""
        return min(0.2 * 2**self.failed_starts, LONGEST_RESTART_PAUSE_S) if self.failed_starts else 0.0


def node_arguments(node: LocalNode) -> list[str]:
    """The arguments of `quorate` for a supervised node."""
    return ["node", "--config", str(node.file), "--supervised"]


def start_node(node: LocalNode) -> ForkedProcess:
    """Start the process of a supervised node."""
    return ForkedProcess(run_forked_node, node_arguments(node), node.log_file)


class Supervisor:
    """Starts all nodes, reports when they are ready or end, restarts them, and stops them together."""

    def __init__(
        self,
        nodes: Sequence[LocalNode],
        *,
        restart: bool,
        report: Report,
        on_all_ready: Callable[[dict[str, int]], None],
        start: Start = start_node,
        stop_grace_s: float = STOP_GRACE_S,
    ) -> None:
        """`on_all_ready` is called once, with the process ids by name. `start` starts a node's process."""
        self.children = [Child(node) for node in nodes]
        self._start = start
        self._starting = asyncio.Lock()
        self._restart = restart
        self._report = report
        self._on_all_ready = on_all_ready
        self._stop_grace_s = stop_grace_s
        self._announced = False
        self._stopping = asyncio.Event()
        self._failed = False

    def heed_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have SIGINT and SIGTERM stop the nodes, before `run` if need be.

        The handler of `asyncio.run` would cancel the tasks that start nodes, and no code would await these.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)

    def stop(self) -> None:
        """Begin to stop the nodes; a second call kills them."""
        if self._stopping.is_set():
            for child in self.children:
                child.signal(signal.SIGKILL)
        self._stopping.set()

    async def run(self) -> int:
        """Run until stopped, or until no node is left to run. Returns the exit code: 0 after a clean stop."""
        loop = asyncio.get_running_loop()
        self.heed_signals(loop)
        try:
            watches = [asyncio.create_task(self._keep_running(child)) for child in self.children]
            running = asyncio.gather(*watches)
            stop = asyncio.create_task(self._stopping.wait())
            await asyncio.wait((running, stop), return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            clean = await self._stop_all(running)
        finally:
            for child in self.children:
                child.signal(signal.SIGKILL)
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        return 0 if clean and not self._failed else 1

    async def _stop_all(self, running: asyncio.Future[list[None]]) -> bool:
        self._stopping.set()
        for child in self.children:
            child.signal(signal.SIGTERM)
        # A node that is being started gets its signal once it has a process, and has its time from then on.
        async with self._starting:
            pass
        done, _ = await asyncio.wait((running,), timeout=self._stop_grace_s)
        if not done:
            for child in self.children:
                if child.process is not None and child.process.exit_code() is None:
                    self._report(f"{child.node.name} did not stop within {self._stop_grace_s:g} s: killed")
                child.signal(signal.SIGKILL)
        await running
        return bool(done)

    async def _keep_running(self, child: Child) -> None:
        while not self._stopping.is_set():
            async with self._starting:
                if self._stopping.is_set():
                    return
                # In a thread, as the first start waits until the fork server has imported the nodes' code.
                child.process = await asyncio.to_thread(self._start, child.node)
            if self._stopping.is_set():
                child.signal(signal.SIGTERM)
            watch = asyncio.create_task(self._watch_ready(child))
            await child.wait()
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            was_ready = child.ready
            code = child.ended()
            if self._stopping.is_set():
                return
            self._report_end(child, code, was_ready)
            if not self._restart or self._given_up(child, code):
                self._failed = True
                return
            self._report(f"{child.node.name} is started again")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), child.pause())

    def _given_up(self, child: Child, code: int) -> bool:
        """Whether to leave the node down. If that comes before all were ready once, all nodes are stopped."""
        if code == CONFIG_EXIT:
            why = f"{child.node.name} cannot run with its configuration"
        elif code == DAMAGED_EXIT:
            why = f"{child.node.name} cannot read its journal"
        elif child.failed_starts >= FAILED_STARTS:
            why = f"{child.node.name} ended {FAILED_STARTS} times before it was ready"
        else:
            return False
        if self._announced:
            self._report(f"{why}: it stays down, the others go on")
        else:
            self._report(f"{why}: stopping all nodes")
            self._stopping.set()
        return True

    def _report_end(self, child: Child, code: int, was_ready: bool) -> None:
        assert child.process is not None
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        self._report(f"{child.node.name} (pid {child.process.pid}) {how}")
        if not was_ready:
            self._report(f"  its log, {child.node.log_file}, ends with:")
            for line in _tail(child.node.log_file):
                self._report(f"    {line}")

    async def _watch_ready(self, child: Child) -> None:
        url = f"http://{child.node.config.listen.http}/health/ready"
        reported = time.monotonic()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2.0)) as session:
            while (reasons := await _reasons(session, url)) is not None:
                if time.monotonic() - reported > WAITING_REPORT_S:
                    reported = time.monotonic()
                    self._report(f"{child.node.name} is not ready yet: {'; '.join(reasons)}")
                await asyncio.sleep(READY_POLL_S)
        child.ready = True
        assert child.process is not None
        if self._announced:
            self._report(f"{child.node.name} is ready again (pid {child.process.pid})")
        elif all(other.ready for other in self.children):
            self._announced = True
            self._on_all_ready(
                {other.node.name: other.process.pid for other in self.children if other.process is not None}
            )


async def _reasons(session: aiohttp.ClientSession, url: str) -> list[str] | None:
    """The reasons why the node is not ready; None when it is ready."""
    try:
        async with session.get(url) as response:
            if response.status == 200:
                return None
            return [str(reason) for reason in (await response.json())["reasons"]]
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError) as error:
        return [f"{url} does not answer ({error or type(error).__name__})"]


def _tail(path: Path, lines: int = 8) -> list[str]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8192))
        return file.read().decode(errors="replace").splitlines()[-lines:]
