"""`python -m bench.pipeline` measures every row once, with so few messages that the figures mean nothing; and
what its rows count.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from bench.pipeline.__main__ import MEASURES, searched
from bench.pipeline.measuring import medians
from bench.pipeline.memory_source import BATCH_ROWS
from bench.pipeline.micro_batches import first_durations
from bench.pipeline.stream_clients import CLIENTS_OF_STREAMS, ArrowRows
from bench.rabbitmq import RabbitMQ

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
STREAM_CLIENTS = [name for name in CLIENTS_OF_STREAMS if find_spec(name) is not None]
ROWS = {
    "sources,archives,sinks,beside,plans,takes,audits": 14,
    "cores": 2,
    "memory": 2,
    "streams,batches": 1 + (len(STREAM_CLIENTS) if RabbitMQ.installed() else 0),
}
"""How many rows the measurements of a run have."""


def test_every_measurement_is_run() -> None:
    assert sorted(name for names in ROWS for name in names.split(",")) == sorted(MEASURES)


@pytest.mark.parametrize("names", ROWS)
def test_every_row_is_measured(names: str) -> None:
    few = ["--messages", "500", "--seconds", "0.3", "--planned", "1000"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.pipeline", *few, "--rows", names],
        capture_output=True,
        text=True,
        errors="replace",
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert lines[0].startswith("500 messages of 256 octets, three ")
    rows = [line.split(" | ") for line in lines if line.startswith("| ")][2:]
    assert len(rows) == ROWS[names]
    assert all(len(row) == 6 and float(row[1].split()[0].replace(",", "")) > 0 for row in rows)


def test_nodes_run_what_is_compiled() -> None:
    compiled = os.pathsep.join(["/compiled", str(ROOT)])
    assert searched(compiled).split(os.pathsep) == ["/compiled", str(ROOT), str(ROOT)]
    assert searched("") == str(ROOT)


def test_an_unknown_row_is_refused() -> None:
    wrong = subprocess.run(
        [sys.executable, "-m", "bench.pipeline", "--rows", "sources,nothing"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert wrong.returncode == 2 and "unknown: nothing" in wrong.stderr


def test_rows_of_a_client_become_batches_until_all_are_there() -> None:
    async def added(count: int) -> ArrowRows:
        rows = ArrowRows(BATCH_ROWS + 2)
        for number in range(count):
            rows.add(number, 1.5, "key", b"body")
        return rows

    short, whole = (asyncio.run(added(count)) for count in (BATCH_ROWS + 1, BATCH_ROWS + 2))
    assert (short.rows, short.complete.is_set()) == (BATCH_ROWS, False)
    assert (whole.rows, whole.complete.is_set()) == (BATCH_ROWS + 2, True)


class Query:
    """A streaming query that tells of batches with so many rows, each of them twice, and ends."""

    def __init__(self, *rows: int) -> None:
        told = [
            {"batchId": number, "numInputRows": count, "durationMs": {"triggerExecution": 10 * number}}
            for number, count in enumerate(rows)
        ]
        self.recentProgress: list[dict[str, Any]] = told + told

    def awaitTermination(self, seconds: float) -> bool:
        """Whether the query has ended."""
        return seconds > 0


def test_only_the_first_batches_that_have_rows_count() -> None:
    assert first_durations(Query(5, 0, 7, 8, 9), 3) == [0, 20, 30]
    with pytest.raises(RuntimeError, match="has ended without 2 batches with rows"):
        first_durations(Query(5), 2)


def test_works_take_turns_and_the_first_round_counts_for_nothing() -> None:
    turns = list[str]()
    figures = iter([1000.0, 1.0, 3.0, 2.0])

    def work() -> float:
        turns.append("work")
        return next(figures)

    def other() -> float:
        turns.append("other")
        return 5.0

    assert medians({"work": work, "other": other}) == {"work": 2.0, "other": 5.0}
    assert turns == ["work", "other"] * 4
