"""Whole runs, as a user starts them: a few seconds each, and those that need root behind a marker."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from chaos.__main__ import carry_out
from chaos.report import read_history, write_history
from chaos.run import Terms
from chaos.scenarios import SCENARIOS
from chaos.targets.leftovers import NAMESPACES
from chaos.targets.target import TargetError
from tests.chaos.histories import published
from tests.chaos.test_figures import run_of_ten_seconds
from tests.structure.tree import ROOT

QUICK = ("kill", "pause", "slow-fsync", "failing-fsync", "clock-jump")
OTHERS = [name for name in SCENARIOS if name not in QUICK]


def chaos(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chaos", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def carried_out(scenario: str, reports: Path) -> dict[str, Any]:
    """The figures of a short run that must keep every promise."""
    words = ("--scenario", scenario, "--seconds", "4", "--rate", "100", "--seed", "1")
    done = chaos("run", *words, "--reports", str(reports))
    assert done.returncode == 0, done.stdout + done.stderr
    [directory] = reports.iterdir()
    names = {path.name for path in directory.iterdir()}
    assert names >= {"index.html", "history.jsonl", "figures.json", "n1-node.log"}
    return dict(json.loads((directory / "figures.json").read_text(encoding="utf-8"))["figures"])


@pytest.mark.requirement("F4.1", "F4.2", "F4.5", "F4.6", "F4.10", "F4.11")
@pytest.mark.parametrize("scenario", QUICK)
def test_processes_are_hurt_and_every_promise_is_kept(scenario: str, tmp_path: Path) -> None:
    figures = carried_out(scenario, tmp_path)
    assert figures["confirmed"] > 100
    assert (figures["lost"], figures["promises"]) == (0, {})


@pytest.mark.requirement("F4.3", "F4.4", "F4.7", "F4.8", "F4.9", "F4.11")
@pytest.mark.chaos
@pytest.mark.parametrize("scenario", OTHERS)
def test_every_other_scenario_keeps_every_promise(scenario: str, tmp_path: Path) -> None:
    carried_out(scenario, tmp_path)
    assert not [path for path in NAMESPACES.glob("chaos-*") if _is_orphan(path.name)]


def _is_orphan(name: str) -> bool:
    return not Path(f"/proc/{name.split('-')[1]}").exists()


@pytest.mark.chaos
def test_what_a_killed_run_leaves_behind_the_next_one_removes(tmp_path: Path) -> None:
    """One that is interrupted leaves nothing."""
    words = ["-m", "chaos", "run", "--scenario", "latency", "--reports", str(tmp_path / "interrupted")]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            assert "of 60 s" in process.stderr.readline()
            process.send_signal(number)
            process.communicate()
        left = list(NAMESPACES.glob(f"chaos-{process.pid}-*"))
        assert bool(left) == (number == signal.SIGKILL)
    carried_out("latency", tmp_path / "next")
    assert not any(path.exists() for path in left)


class FullDiskTarget:
    """A target that does not start, and whose logs find no room."""

    def __init__(self) -> None:
        self.stopped = False

    def start(self) -> None:
        raise TargetError("not ready")

    def keep_logs(self, directory: Path) -> None:
        raise OSError(errno.ENOSPC, "no space left", str(directory))

    def stop(self) -> None:
        self.stopped = True


def test_a_target_is_removed_where_its_logs_cannot_be_kept(tmp_path: Path) -> None:
    target = FullDiskTarget()
    with pytest.raises(OSError, match="no space left"):
        carry_out(SCENARIOS["kill"], cast(Any, target), Terms("local", 2, 8, 1), tmp_path / "report")
    assert target.stopped


def test_the_list_names_every_scenario() -> None:
    lines = chaos("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(SCENARIOS)


@pytest.mark.requirement("F4.11")
def test_the_exit_code_is_the_verdict(tmp_path: Path) -> None:
    good = write_history(tmp_path, run_of_ten_seconds())
    assert read_history(good) == run_of_ten_seconds()
    assert chaos("judge", str(good)).returncode == 0
    bad = write_history(tmp_path, [*run_of_ten_seconds(), *published(1, time=11.0, first=10)])
    judged = chaos("judge", str(bad))
    assert (judged.returncode, "confirmed and lost 1 times" in judged.stdout) == (1, True)
    bad.write_text("no history", encoding="utf-8")
    assert chaos("judge", str(bad)).returncode == 2


@pytest.mark.parametrize("scenario", ["latency", "full-disk"])
def test_who_may_not_is_told_what_is_needed(scenario: str, tmp_path: Path) -> None:
    """In a user namespace without rights no account is root."""
    words = ["-m", "chaos", "run", "--scenario", scenario, "--reports", str(tmp_path)]
    command = ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, *words]
    if os.geteuid() != 0:
        command = command[3:]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "root" in done.stderr) == (2, True), done.stderr
