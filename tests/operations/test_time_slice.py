"""The request for short time slices (`cluster.process.time_slice`)."""

import ctypes
import os
import subprocess
import sys

import pytest

from cluster.process.time_slice import ask_for_time_slice

ASK = "import os; from cluster.process.time_slice import ask_for_time_slice as ask; "


def _run(text: str) -> str:
    """The output of a process of its own: the tests' process keeps its time slices."""
    return subprocess.run(
        [sys.executable, "-c", ASK + text], capture_output=True, text=True, check=True
    ).stdout


def test_linux_grants_a_slice_and_the_priority_stays() -> None:
    assert _run("os.nice(3); print(ask(100), os.nice(0))").split() == ["True", str(os.nice(0) + 3)]


def test_another_policy_is_left_alone() -> None:
    batch = "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)); "
    text = batch + "print(ask(100), os.sched_getscheduler(0))"
    assert _run(text).split() == ["False", str(os.SCHED_BATCH)]


def test_a_system_without_the_call_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "pdp11")
    assert not ask_for_time_slice(100)


def test_a_refusal_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def syscall(self, *_: object) -> int:
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Refusing())
    assert not ask_for_time_slice(100)
