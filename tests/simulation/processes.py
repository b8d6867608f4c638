"""Runs many seeds at once in several processes. A seed's verdict does not depend on the process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context

from tests.simulation.focus import Focus
from tests.simulation.planted import planted
from tests.simulation.runs import SeedFailure, run_seed

SEEDS_PER_PROCESS = 200
"""A process is replaced after so many seeds, so that the memory of a long run stays bounded."""


@dataclass(frozen=True, slots=True)
class Task:
    """One seed with its options: see `run_seed` and `planted`."""

    seed: int
    bug: str | None = None
    focus: Focus = Focus.EVERYTHING

    def __str__(self) -> str:
        return f"{self.seed}{self.focus.option}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a seed. `report` describes the broken promise; None where all promises were kept."""

    task: Task
    report: str | None = None
    confirmed: int = 0
    delivered: int = 0
    redelivered: int = 0
    steps: int = 0


def judge(task: Task) -> Verdict:
    """Run one seed in this process."""
    try:
        with planted(task.bug) as node_type:
            cluster = run_seed(task.seed, node_type, task.bug, task.focus)
    except SeedFailure as failure:
        return Verdict(task, str(failure))
    history = cluster.history
    return Verdict(
        task, None, history.confirmed, history.delivered, history.redelivered, cluster.world.steps
    )  # fmt: skip


def cores() -> int:
    """The number of processes that can run on this machine at once."""
    return len(os.sched_getaffinity(0))


def verdicts(tasks: Iterable[Task], processes: int) -> Iterator[Verdict]:
    """The verdicts on the tasks, in the order in which they end. Closing the generator waits for running
    tasks.
    """
    if processes == 1:
        yield from map(judge, tasks)
        return
    waiting = iter(tasks)
    context = get_context("forkserver")
    with ProcessPoolExecutor(processes, context, max_tasks_per_child=SEEDS_PER_PROCESS) as pool:
        running: set[Future[Verdict]] = {pool.submit(judge, task) for task in islice(waiting, 2 * processes)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                running |= {pool.submit(judge, task) for task in islice(waiting, len(done))}
                for future in done:
                    yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
