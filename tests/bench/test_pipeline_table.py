"""The table of `python -m bench.pipeline`, and the processor time and memory in it."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.pipeline.process_tree import peak_of_children, spent_by, tree_seconds
from bench.pipeline.table import Measured, markdown


def test_a_goal_is_a_least_or_a_most_ratio() -> None:
    least = Measured("source", 50.0, "rows", 100.0, "memory", "≥ 60 %", 0.6)
    most = Measured("p99", 50.0, "ms", 100.0, "alone", "≤ 1.3 ×", 1.3, most=True)
    assert (least.ratio, least.met, most.met) == (0.5, False, True)
    assert least._replace(value=60.0).met and not most._replace(value=131.0).met


def test_the_table_has_a_line_for_each_row() -> None:
    rows = [
        Measured("source", 123456.7, "rows / s", 250000.0, "memory", "≥ 60 %", 0.6),
        Measured("audit", 1.234, "s", 300.0, "", "5 min for 10^7", 1, most=True),
    ]
    assert markdown(rows, "note").splitlines() == [
        "note",
        "",
        "| what | figure | beside | ratio | goal | met |",
        "| --- | --- | --- | --- | --- | --- |",
        "| source | 123,457 rows / s | memory: 250,000 | 0.49 | ≥ 60 % | no |",
        "| audit | 1.23 s |  |  | 5 min for 10^7 | yes |",
    ]


def test_processor_time_is_that_of_a_process_and_all_that_it_has_started() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    with spent_by(os.getpid()) as spent:
        subprocess.run([sys.executable, "-c", burn], check=True)
    assert spent.seconds >= 0.25
    assert tree_seconds(os.getpid()) >= spent.seconds


def test_peak_memory_is_that_of_the_largest_child_and_not_of_the_process() -> None:
    take = "held = b'1' * (40 << 20)\nprint(len(held), flush=True)\ndel held\ninput()"
    command = [sys.executable, "-c", take]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == f"{40 << 20}\n"
        own = b"1" * (300 << 20)
        with peak_of_children(os.getpid()) as peak:
            while not peak.octets:
                os.sched_yield()
        child.communicate("\n")
    assert 40 << 20 <= peak.octets < len(own)
