"""`quorate up` with real nodes: start, use, lose a node, stop, start again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.cli.commands.http import ManagementClient
from cluster.system.build import SOURCES, build
from tests.operations.test_commands import quorate
from tests.operations.test_local_cluster import free_plan

PATIENCE_S = 60.0


class Up:
    """A running `quorate up` and where it listens."""

    def __init__(self, process: subprocess.Popen[str], base_port: int, http_port: int, nodes: int) -> None:
        self.process = process
        self.amqp = [f"amqp://127.0.0.1:{base_port + i}" for i in range(nodes)]
        self.http = [f"http://127.0.0.1:{http_port + i}" for i in range(nodes)]

    def wait_for(self, text: str) -> str:
        """Read its output up to a line with `text`, which is returned."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if text in line:
                return line
        raise AssertionError(f"quorate up ended without {text!r}")

    def pids(self) -> dict[str, int]:
        return {node["name"]: node["pid"] for node in self.status(0)["nodes"]}

    def status(self, node: int) -> dict[str, Any]:
        return dict(ManagementClient(self.http[node], "guest", "guest").get("status"))


@contextmanager
def up(data: Path, nodes: int, *options: str) -> Iterator[Up]:
    """`quorate up` on free ports, with its output on one pipe; killed at the end if need be."""
    listen = free_plan(nodes, data)[0].config.listen
    base, http = listen.amqp.port, listen.http.port
    command = [sys.executable, "-m", "cluster", "up", "--nodes", str(nodes), "--data", str(data)]
    command += ["--base-port", str(base), "--http-port", str(http), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        # Reading its output would wait for ever if it hung.
        watchdog = threading.Timer(PATIENCE_S, process.kill)
        watchdog.start()
        try:
            yield Up(process, base, http, nodes)
        finally:
            watchdog.cancel()
            process.kill()


def gone(pid: int) -> bool:
    """Whether a process has ended, within the patience of this test."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.requirement("F1.2")
def test_a_cluster_is_started_used_and_stopped(tmp_path: Path) -> None:
    with up(tmp_path, 3) as cluster:
        cluster.wait_for("3 nodes are ready")
        told = cluster.wait_for("Build: ")
        assert told.startswith(f"Build: {build()}")
        assert ("make up COMPILED=1" in told) == (build() == SOURCES)
        published = quorate("publish", "-q", "hello", "--url", cluster.amqp[0], "one", "two")
        assert (published.exit_code, published.stderr) == (0, "2 of 2 confirmed\n")
        got = quorate("get", "-q", "hello", "--url", cluster.amqp[2])
        assert (got.exit_code, got.stdout) == (0, "one\n")
        looked = quorate("queues", "browse", "hello", "--url", cluster.http[1])
        assert looked.stdout == "two\n"

        status = cluster.status(1)
        assert [(node["name"], node["build"]) for node in status["nodes"]] == [
            (name, build()) for name in ("n1", "n2", "n3")
        ]
        (queue,) = status["queues"]
        assert queue["name"] == "hello" and queue["owner"] in cluster.pids()

        killed = cluster.pids()["n2"]
        os.kill(killed, signal.SIGKILL)
        cluster.wait_for(f"n2 (pid {killed}) was ended by SIGKILL")
        cluster.wait_for("n2 is ready again")

        cluster.process.send_signal(signal.SIGINT)
        cluster.wait_for("All nodes have stopped.")
        assert cluster.process.wait(PATIENCE_S) == 0


def test_interrupted_while_it_starts_its_nodes_it_stops_them_and_says_no_more(tmp_path: Path) -> None:
    with up(tmp_path, 3) as cluster:
        cluster.wait_for("Starting 3 nodes")
        cluster.process.send_signal(signal.SIGINT)
        output, _ = cluster.process.communicate()
        assert (cluster.process.returncode, output) == (0, "All nodes have stopped.\n")


def test_messages_survive_a_stop_and_a_missing_queue_is_named(tmp_path: Path) -> None:
    with up(tmp_path, 1) as cluster:
        cluster.wait_for("Ready")
        sent = quorate("publish", "-q", "kept", "--url", cluster.amqp[0], "-n", "500", "--size", "100")
        assert sent.exit_code == 0
        missing = quorate("get", "-q", "none", "--url", cluster.amqp[0])
        assert missing.exit_code == 1
        assert "refused: 404" in missing.stderr
        cluster.process.terminate()
        assert cluster.process.wait(PATIENCE_S) == 0
    with up(tmp_path, 1) as cluster:
        cluster.wait_for("Ready")
        taken = quorate("consume", "-q", "kept", "--url", cluster.amqp[0], "-n", "500", "--quiet")
        assert (taken.exit_code, taken.stderr) == (0, "500 consumed\n")
        nothing = quorate("consume", "-q", "kept", "--url", cluster.amqp[0], "--idle", "0.1")
        assert nothing.exit_code == 3
        empty = quorate("get", "-q", "kept", "--url", cluster.amqp[0])
        assert (empty.exit_code, empty.stderr) == (3, "queue 'kept' has no message ready\n")


def test_nodes_do_not_outlive_a_killed_supervisor(tmp_path: Path) -> None:
    with up(tmp_path, 1) as cluster:
        cluster.wait_for("Ready")
        (pid,) = cluster.pids().values()
        cluster.process.kill()
        assert gone(pid)
