"""Many seeds on all cores: the verdict on a seed depends on the seed alone, and has the broken promise."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator

import pytest
from click.testing import CliRunner

from tests.simulation.__main__ import main
from tests.simulation.focus import Focus
from tests.simulation.processes import Task, Verdict, judge, verdicts
from tests.simulation.progress import Progress
from tests.simulation.test_planted import SHOWN_BY
from tests.structure.tree import ROOT

OF_ONE_SEED = """
from tests.simulation.focus import Focus
from tests.simulation.processes import Task, judge
print(judge(Task({seed}, focus=Focus("{focus}"))))
"""


SHORT, ANOTHER_SHORT = 9, 5
"""Seeds that end soon, though nothing in them is left out."""


@pytest.mark.parametrize(
    ("focus", "seed"),
    [(Focus.EVERYTHING, SHORT), pytest.param(Focus.MEMBERS, 9, marks=pytest.mark.seeds)],
)
def test_a_seed_ends_alike_in_every_process(focus: Focus, seed: int) -> None:
    """Earlier seeds in the process, and the process's hashes of strings, have no influence."""
    task = Task(seed, focus=focus)
    known = judge(task)
    assert known.confirmed > 0 and known.redelivered > 0
    judge(Task(ANOTHER_SHORT))
    assert judge(task) == known
    for hashes in ("1", "2"):
        ended = subprocess.run(
            [sys.executable, "-c", OF_ONE_SEED.format(seed=task.seed, focus=focus)],
            env={**os.environ, "PYTHONHASHSEED": hashes}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert ended.stdout == f"{known}\n"


def test_all_seeds_are_run_on_several_processes() -> None:
    tasks = [Task(seed) for seed in range(SHORT, SHORT + 5)]
    found = {verdict.task.seed: verdict for verdict in verdicts(tasks, processes=2)}
    assert sorted(found) == [SHORT, SHORT + 1, SHORT + 2, SHORT + 3, SHORT + 4]
    assert found[SHORT] == judge(Task(SHORT))


@pytest.mark.interpreted
def test_a_broken_promise_ends_the_run_and_is_told() -> None:
    bug, seed = "commit in an old term", SHOWN_BY["commit in an old term"]
    arguments = ["--bug", bug, "--first", str(seed), "--seeds", "400", "--processes", "2"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert f"replay: python -m tests.simulation --seed {seed} --bug '{bug}'" in result.stdout
    assert "400 seeds" not in result.stdout, "nothing was to be run any more"


def test_a_quarter_of_mixed_seeds_has_members_that_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Task] = []

    def keep(tasks: Iterable[Task], processes: int) -> Iterator[Verdict]:
        told.extend(tasks)
        return iter(())

    monkeypatch.setattr("tests.simulation.__main__.verdicts", keep)
    result = CliRunner().invoke(main, ["--mixed", "--seeds", "80"])
    assert result.exit_code == 0
    assert [task.seed for task in told if task.focus is Focus.MEMBERS] == [*range(30, 40), *range(70, 80)]


def test_progress_is_told_where_no_terminal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 40))
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
    out = io.StringIO()
    progress = Progress(10, out)
    progress.count(failed=True)
    assert out.getvalue().startswith("1 of 10 seeds, 1 failed, ")


def test_the_simulator_needs_no_test_library_and_no_scripts() -> None:
    """`make sim-compiled` copies neither the folder scripts nor what only tests need."""
    program = "import sys, tests.simulation.__main__; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not {"hypothesis", "pytest", "scripts"} & set(done.stdout.split())
