"""The supervisor with processes that stand in for nodes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.cli.local.forked_process import ForkedProcess
from cluster.cli.local.layout import LocalNode, prepare
from cluster.cli.local.supervisor import Supervisor
from tests.operations import fake_node
from tests.operations.test_local_cluster import free_plan


class Cluster:
    """A supervised cluster of fake nodes; `behaviours` by name, `ready` by default."""

    def __init__(self, data: Path, nodes: int = 2, *, restart: bool = True, **behaviours: str) -> None:
        self.nodes = free_plan(nodes, data)
        prepare(self.nodes)
        self.said: list[str] = []
        self.pids: dict[str, int] = {}
        self.behaviours = behaviours
        self.supervisor = Supervisor(
            self.nodes,
            restart=restart,
            report=self.said.append,
            on_all_ready=self.pids.update,
            start=self.start,
            stop_grace_s=0.5,
        )

    def start(self, node: LocalNode) -> ForkedProcess:
        behaviour = self.behaviours.get(node.name, "ready")
        arguments = [str(node.config.listen.http.port), behaviour]
        return ForkedProcess(fake_node.run, arguments, node.log_file)

    def pid(self, name: str) -> int:
        """The process id of a node's process now."""
        (child,) = [each for each in self.supervisor.children if each.node.name == name]
        assert child.process is not None
        return child.process.pid

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(15):
            while not condition():
                await asyncio.sleep(0.01)

    def heard(self, text: str) -> bool:
        return any(text in line for line in self.said)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_all_nodes_start_are_announced_and_stop_cleanly(tmp_path: Path) -> None:
    async def body() -> None:
        cluster = Cluster(tmp_path)
        running = asyncio.create_task(cluster.supervisor.run())
        await cluster.until(lambda: bool(cluster.pids))
        assert cluster.pids == {"n1": cluster.pid("n1"), "n2": cluster.pid("n2")}
        log = cluster.nodes[0].log_file
        assert log.read_text() == "starting as ready\n"
        assert log.stat().st_mode & 0o777 == 0o600
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running == 0
        assert not any(map(alive, cluster.pids.values()))
        assert cluster.said == []

    asyncio.run(body())


def test_stopped_during_a_slow_start_it_starts_no_other_node_and_gives_the_first_its_time(
    tmp_path: Path,
) -> None:
    """On a loaded machine the fork server imports for longer than nodes have to end."""

    async def body() -> None:
        cluster = Cluster(tmp_path)
        started, grace = list[str](), 0.5

        def slowly(node: LocalNode) -> ForkedProcess:
            started.append(node.name)
            loop.call_soon_threadsafe(supervisor.stop)
            time.sleep(2 * grace)
            return cluster.start(node)

        loop = asyncio.get_running_loop()
        supervisor = Supervisor(
            cluster.nodes,
            restart=True,
            report=cluster.said.append,
            on_all_ready=cluster.pids.update,
            start=slowly,
            stop_grace_s=grace,
        )
        assert await supervisor.run() == 0
        assert (started, cluster.said) == (["n1"], [])

    asyncio.run(body())


def test_a_killed_node_is_reported_and_started_again(tmp_path: Path) -> None:
    async def body() -> None:
        cluster = Cluster(tmp_path)
        running = asyncio.create_task(cluster.supervisor.run())
        await cluster.until(lambda: bool(cluster.pids))
        killed = cluster.pids["n2"]
        os.kill(killed, signal.SIGKILL)
        await cluster.until(lambda: cluster.heard("n2 is ready again"))
        assert cluster.said == [
            f"n2 (pid {killed}) was ended by SIGKILL",
            "n2 is started again",
            f"n2 is ready again (pid {cluster.pid('n2')})",
        ]
        assert cluster.pid("n1") == cluster.pids["n1"]
        cluster.supervisor.stop()
        assert await running == 0

    asyncio.run(body())


def test_without_restart_a_dead_node_stays_down(tmp_path: Path) -> None:
    async def body() -> None:
        cluster = Cluster(tmp_path, restart=False)
        running = asyncio.create_task(cluster.supervisor.run())
        await cluster.until(lambda: bool(cluster.pids))
        os.kill(cluster.pids["n1"], signal.SIGKILL)
        await cluster.until(lambda: cluster.heard("was ended by SIGKILL"))
        assert alive(cluster.pids["n2"])
        os.kill(cluster.pids["n2"], signal.SIGKILL)
        assert await running == 1, "no node is left to run"
        assert not cluster.heard("started again")

    asyncio.run(body())


def test_a_wrong_configuration_ends_all_with_the_end_of_the_log(tmp_path: Path) -> None:
    async def body() -> None:
        cluster = Cluster(tmp_path, n2="misconfigured")
        assert await cluster.supervisor.run() == 1
        assert cluster.heard("ended with exit code 2")
        assert cluster.heard("    something is wrong")
        assert cluster.said[-1] == "n2 cannot run with its configuration: stopping all nodes"

    asyncio.run(body())


def test_a_node_that_never_gets_ready_is_given_up(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("cluster.cli.local.supervisor.LONGEST_RESTART_PAUSE_S", 0.01)

    async def body() -> None:
        cluster = Cluster(tmp_path, n1="failing")
        assert await cluster.supervisor.run() == 1
        assert cluster.said[-1] == "n1 ended 5 times before it was ready: stopping all nodes"
        assert not alive(cluster.pid("n2"))

    asyncio.run(body())


def test_a_node_that_fails_later_leaves_the_others_alone(tmp_path: Path) -> None:
    async def body() -> None:
        cluster = Cluster(tmp_path)
        running = asyncio.create_task(cluster.supervisor.run())
        await cluster.until(lambda: bool(cluster.pids))
        cluster.behaviours["n2"] = "misconfigured"
        os.kill(cluster.pids["n2"], signal.SIGKILL)
        await cluster.until(lambda: cluster.heard("it stays down, the others go on"))
        assert alive(cluster.pids["n1"])
        cluster.supervisor.stop()
        assert await running == 1

    asyncio.run(body())


def test_a_node_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    async def body() -> None:
        cluster = Cluster(tmp_path, n1="deaf")
        running = asyncio.create_task(cluster.supervisor.run())
        await cluster.until(lambda: bool(cluster.pids))
        asked = time.monotonic()
        cluster.supervisor.stop()
        assert await running == 1
        assert time.monotonic() - asked < 5
        assert cluster.said == ["n1 did not stop within 0.5 s: killed"]

    asyncio.run(body())


def test_a_second_request_to_stop_kills_at_once(tmp_path: Path) -> None:
    async def body() -> None:
        cluster = Cluster(tmp_path, n1="deaf")
        cluster.supervisor._stop_grace_s = 60
        running = asyncio.create_task(cluster.supervisor.run())
        await cluster.until(lambda: bool(cluster.pids))
        cluster.supervisor.stop()
        cluster.supervisor.stop()
        async with asyncio.timeout(10):
            await running

    asyncio.run(body())


def test_the_end_of_a_process_is_heard_also_when_its_exit_code_was_asked_for_before(tmp_path: Path) -> None:
    async def body() -> None:
        cluster = Cluster(tmp_path, 1)
        (child,) = cluster.supervisor.children
        child.process = cluster.start(child.node)
        process = child.process

        def end() -> None:
            # The loop looks at no file between the signal and the exit code.
            process.send(signal.SIGKILL)
            assert process.wait(10) == -signal.SIGKILL

        waiting = asyncio.create_task(child.wait())
        # Behind the first step of the task.
        asyncio.get_running_loop().call_soon(end)
        async with asyncio.timeout(10):
            await waiting
        assert child.ended() == -signal.SIGKILL

    asyncio.run(body())


def test_stopping_while_nodes_are_not_ready_yet(tmp_path: Path) -> None:
    async def body() -> None:
        cluster = Cluster(tmp_path, n1="waiting")
        running = asyncio.create_task(cluster.supervisor.run())
        await cluster.until(lambda: cluster.supervisor.children[1].ready)
        cluster.supervisor.stop()
        assert await running == 0
        assert cluster.pids == {}

    asyncio.run(body())


def test_stopping_before_any_node_is_started(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    with asyncio.Runner() as runner:
        cluster.supervisor.heed_signals(runner.get_loop())
        os.kill(os.getpid(), signal.SIGINT)
        assert runner.run(cluster.supervisor.run()) == 0
    assert cluster.said == []
    started = [child.process.pid for child in cluster.supervisor.children if child.process is not None]
    assert not any(map(alive, started))


def test_stopping_while_the_processes_are_being_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The signal comes when the first process is there, and the supervisor does not know it yet."""
    pids: list[int] = []
    start = Cluster.start

    def interrupted(cluster: Cluster, node: LocalNode) -> ForkedProcess:
        process = start(cluster, node)
        pids.append(process.pid)
        os.kill(os.getpid(), signal.SIGINT)
        return process

    monkeypatch.setattr(Cluster, "start", interrupted)
    cluster = Cluster(tmp_path, 1)
    with asyncio.Runner() as runner:
        cluster.supervisor.heed_signals(runner.get_loop())
        assert runner.run(cluster.supervisor.run()) == 0
    assert len(pids) == 1 and not alive(pids[0])
    assert cluster.said == [] and caplog.records == []


def test_a_signal_to_a_process_that_has_ended_means_nothing(tmp_path: Path) -> None:
    process = ForkedProcess(fake_node.run, ["0", "failing"], tmp_path / "log")
    assert process.wait(15) == 1
    process.send(signal.SIGKILL)
    assert process.exit_code() == 1


def test_why_a_node_is_not_ready_is_reported_now_and_then(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("cluster.cli.local.supervisor.WAITING_REPORT_S", 0.05)

    async def body() -> None:
        cluster = Cluster(tmp_path, 1, n1="waiting")
        running = asyncio.create_task(cluster.supervisor.run())
        await cluster.until(lambda: cluster.heard("n1 is not ready yet: no leader"))
        cluster.supervisor.stop()
        await running

    asyncio.run(body())
