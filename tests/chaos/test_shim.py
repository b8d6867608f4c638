"""The library between a node and the system does as it is told, while the program under it runs."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.faults import Fsync, Skew
from chaos.targets.shim import SECOND, Orders, Shim

PROGRAM = """
import os, sys, time, threading
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for line in sys.stdin:
    began = time.monotonic()
    try:
        os.fdatasync(file)
        answer = 0
    except OSError as error:
        answer = error.errno
    waited = threading.Event().wait(0.05)
    print(answer, time.time(), time.monotonic(), time.monotonic() - began, flush=True)
"""


class Probe:
    """The program's observations: errno of an fdatasync, time of day, monotonic clock, seconds of the run."""

    def __init__(self, shim: Shim, ask: Callable[[], list[float]]) -> None:
        self.shim = shim
        self.ask = ask


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[Probe]:
    shim = Shim()
    shim.build(tmp_path)
    environment = os.environ | shim.environment("n1")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "file")]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        given, answers = process.stdin, process.stdout

        def ask() -> list[float]:
            given.write("\n")
            given.flush()
            return [float(word) for word in answers.readline().split()]

        yield Probe(shim, ask)
        given.close()


def test_fsync_fails_and_is_slow_while_it_is_told_to(probe: Probe) -> None:
    assert probe.ask()[0] == 0
    probe.shim.sync("n1", Fsync(errno=errno.EIO))
    assert probe.ask()[0] == errno.EIO
    probe.shim.sync("n1", Fsync(delay_s=0.3))
    answer, _, _, took = probe.ask()
    assert (answer, took >= 0.3) == (0, True)
    probe.shim.sync("n1", Fsync())
    assert probe.ask()[0] == 0


def test_the_time_of_day_jumps_and_the_monotonic_clock_does_not(probe: Probe) -> None:
    _, day, steady, _ = probe.ask()
    probe.shim.skew("n1", Skew(offset_s=-3600.0))
    _, day_after, steady_after, _ = probe.ask()
    assert 0 <= steady_after - steady < 60
    assert day_after - day == pytest.approx(-3600 + steady_after - steady, abs=1)
    probe.shim.skew("n1", Skew())
    assert probe.ask()[1] > day


def test_all_clocks_run_at_another_pace_and_waiting_ends_all_the_same(probe: Probe) -> None:
    took = probe.ask()[3]
    probe.shim.skew("n1", Skew(rate=9.0))
    assert probe.ask()[3] >= max(0.45, took)
    probe.shim.skew("n1", Skew(rate=-0.9))
    first, second = probe.ask(), probe.ask()
    assert first[2] < second[2]
    assert second[3] < 60


def test_what_clocks_have_gained_they_keep() -> None:
    orders = Orders()
    orders.skew(Skew(rate=0.5), now=10 * SECOND)
    orders.skew(Skew(rate=-0.5), now=20 * SECOND)
    assert orders.all_offset == 5 * SECOND
    orders.skew(Skew(), now=30 * SECOND)
    assert (orders.all_offset, orders.rate) == (0, 0)
