"""Options and fixtures of the whole test suite."""

import gc
import importlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import hypothesis
import pytest
from _pytest.outcomes import OutcomeException

from node.queue import partition
from tests.clients import rabbitmqadmin
from tests.processes import releases

COMPILED = not partition.__file__.endswith(".py")
"""Whether the code under test is the one that `make compiled` built."""

ROOM_OCTETS = 4 << 30
"""What `make test` may have on disk at a time: 3.1 GB were measured, of which one test has 2.8."""

TESTS = Path(__file__).parent

LONG = (
    "processes/test_rolling_upgrade.py",
    "processes/test_membership.py",
    "simulation/test_seeds.py",
    "processes/test_arguments_over_a_kill.py",
    "simulation/test_members.py",
    "processes/test_faults.py",
    "chaos/test_runs.py",
    "processes/test_flow.py",
    "raft/test_simulation.py",
    "operations/test_up.py",
    "processes/test_leaving.py",
    "processes/test_rotten_bit.py",
    "processes/test_lost_memory.py",
    "processes/test_interrupted_commands.py",
    "clients/test_amqpstorm_management.py",
    "processes/test_half_open.py",
    "processes/test_strangers.py",
    "cluster/test_removals.py",
    "clients/test_rascal.py",
    "cluster/test_consumer_programs.py",
    "processes/test_resource_alarms.py",
    "wire/amqp10/test_machine_fuzz.py",
    "clients/test_rhea.py",
    "queue/test_dispatch_model.py",
    "processes/test_hostile.py",
    "queue/test_octets_per_message.py",
    "processes/test_transactions.py",
    "cluster/test_queue_programs.py",
    "operations/test_peer_messages.py",
    "cluster/test_auto_delete.py",
)
"""The files that take longest, those that wait between those that compute."""

# A shell may have told a program that it starts in the background to ignore SIGINT. All programs that the
# tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says something about the machine. In CI, Hypothesis' own profile also has every
# run try the same ones: half of them find again what they have found, and `make test` elsewhere tries others.
hypothesis.settings.register_profile(
    "quorate",
    parent=hypothesis.settings(),
    max_examples=50 if "CI" in os.environ else 100,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("one case", hypothesis.settings.get_profile("quorate"), max_examples=10)
hypothesis.settings.load_profile("quorate")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-scenarios", action="store_true", help="write scenario transcripts anew")
    parser.addoption("--rewrite-pictures", action="store_true", help="take docs/img/console-*.png anew")
    parser.addoption("--compiled", action="store_true", help="refuse to test anything but what was compiled")
    parser.addoption("--one-case", action="store_true", help="one case of each test, few random ones")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--compiled") and not COMPILED:
        raise pytest.UsageError(f"{partition.__file__} is not compiled: run `make test-compiled`")
    if config.getoption("--one-case"):
        hypothesis.settings.load_profile("one case")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Of several processes, each first imports a share of the test modules, and then collects all of them.

    In a fresh clone pytest rewrites the assertions of each module that it imports, and keeps the result on
    disk. That takes longer than the rest of the collection. So each module is rewritten by one process.
    """
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER"), os.environ.get("PYTEST_XDIST_WORKER_COUNT")
    if worker is not None and workers is not None:
        # All that the collection makes stays: the collector would look through it in vain.
        gc.disable()
        for module in modules_of(session.config)[int(worker.removeprefix("gw")) :: int(workers)]:
            # The collection reports an error, or skips the module.
            with suppress(Exception, OutcomeException):
                importlib.import_module(module)


def modules_of(config: pytest.Config) -> list[str]:
    """The test modules in the folders that the command line names, the largest first."""
    folders = [Path(arg).resolve() for arg in config.args]
    ignored = [Path(path).resolve() for path in config.getoption("ignore") or ()]
    files = {file for folder in folders for file in folder.rglob("test_*.py")}
    kept = [file for file in files if not any(file.is_relative_to(path) for path in ignored)]
    kept.sort(key=lambda file: (-file.stat().st_size, file))
    return [".".join(file.relative_to(TESTS.parent).with_suffix("").parts) for file in kept]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Compiled code calls compiled code directly: what a test puts in the place of a method is not called.

    Of several processes that run tests, none shall begin with a long file when the others are done.
    """
    if config.getoption("--one-case"):
        # Hypothesis calls the test of a state machine `runTest`.
        chosen = [item for item in items if item.name != "runTest"]
        first = {item.nodeid.partition("[")[0]: item for item in reversed(chosen)}
        config.hook.pytest_deselected(items=[one for one in items if one not in first.values()])
        items[:] = list(reversed(first.values()))
    if COMPILED:
        left_out = [item for item in items if item.get_closest_marker("interpreted")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
    if "PYTEST_XDIST_WORKER" in os.environ:
        turns = {TESTS / file: turn for turn, file in enumerate(LONG)}
        items.sort(key=lambda item: turns.get(item.path, len(LONG)))


def pytest_collection_finish() -> None:
    """The collector need not look through all modules and tests again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_report_header() -> list[str]:
    """The tests that are skipped because software that they need is not installed."""
    left_out = []
    if rabbitmqadmin.source() is None:
        left_out.append(f"tests/clients/test_rabbitmqadmin.py (no RabbitMQ below {rabbitmqadmin.INSTALLED})")
    if not releases.has_history():
        left_out.append(
            "tests/processes/test_rolling_upgrade.py (no clone, out of which the last release comes)"
        )
    return [f"left out: {one}" for one in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """A full disk shows itself as errors of many tests that have nothing to do with it."""
    directory = tempfile.gettempdir()
    free = shutil.disk_usage(directory).free
    if exitstatus != pytest.ExitCode.OK and free < ROOM_OCTETS:
        terminalreporter.write_line(
            f"{directory} has only {free >> 20} MiB free, and the tests take up to {ROOM_OCTETS >> 20}: "
            "free space there, or set TMPDIR"
        )


@pytest.fixture
def check_transcript(request: pytest.FixtureRequest) -> Callable[[Path, Callable[[str], str]], None]:
    """`check_transcript(path, replay)`: its replay must give the transcript again, or it is rewritten."""

    def check(path: Path, replay: Callable[[str], str]) -> None:
        text = path.read_text(encoding="utf-8")
        replayed = replay(text)
        if request.config.getoption("--rewrite-scenarios"):
            path.write_text(replayed, encoding="utf-8")
        else:
            assert replayed == text

    return check
