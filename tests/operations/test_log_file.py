"""A node's log file: set aside while the process writes, which never waits for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pika
import pytest

from cluster.config.tables import ConfigError, LogSettings
from cluster.process.log_file import log_file
from tests.processes.nodes import Cluster, until
from tests.structure.tree import ROOT

LINE = "{:06} " + "x" * 120
BYTES = 4096

WRITER = f"""\
import logging, os, sys
from pathlib import Path
from cluster.config.tables import LogSettings
from cluster.process.log_file import LogFile

settings = LogSettings(file=Path(sys.argv[1]), file_bytes={BYTES}, files_kept=int(sys.argv[2]))
log = LogFile(settings.file, settings)
handler = logging.StreamHandler(log)
"""


def run(script: str, path: Path, kept: int) -> None:
    """A process of its own: the file takes the place of its standard output and standard error."""
    done = subprocess.run(
        [sys.executable, "-c", WRITER + script, str(path), str(kept)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + "".join(lines_in(path))


def lines_in(path: Path) -> list[str]:
    """Of all files, the oldest first."""
    files = sorted(path.parent.glob("node.log.*"), key=lambda file: -int(file.suffix[1:]))
    return [line for file in (*files, path) for line in file.read_text().splitlines()]


WRITE_ALL = f"""\
for number in range(2000):
    handler.emit(logging.LogRecord("x", 20, "", 0, "{LINE}".format(number), None, None))
    if number % 10 == 9:
        setting_aside = log.setting_aside
        if setting_aside is not None:
            setting_aside.join()
"""


def test_files_are_set_aside_while_the_process_writes_and_no_line_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    run(WRITE_ALL, path, kept=500)
    assert lines_in(path) == [LINE.format(number) for number in range(2000)]
    aside = list(tmp_path.glob("node.log.*"))
    assert len(aside) >= 2000 * len(LINE) // BYTES // 2
    assert all(BYTES <= file.stat().st_size < 2 * BYTES for file in aside)
    assert {file.stat().st_mode & 0o777 for file in (path, *aside)} == {0o600}


def test_only_so_many_files_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    run(WRITE_ALL, path, kept=3)
    assert {file.name for file in tmp_path.iterdir()} == {"node.log", *(f"node.log.{n}" for n in (1, 2, 3))}
    assert lines_in(path)[-1] == LINE.format(1999)


def test_what_the_process_itself_says_goes_there_too_before_and_after(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    script = WRITE_ALL + "print('said', flush=True)\nos.write(2, b'complained\\n')\n"
    run("print('at first', flush=True)\n" + script, path, kept=500)
    lines = lines_in(path)
    assert (lines[0], lines[-2], lines[-1]) == ("at first", "said", "complained")


def test_a_line_is_written_while_renaming_hangs(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    run(
        f"""\
import threading
begun, goes_on = threading.Event(), threading.Event()
replace = Path.replace
def slow(self, target):
    begun.set()
    assert goes_on.wait(30)
    return replace(self, target)
Path.replace = slow
for number in range(200):
    log.write("{LINE}\\n".format(number))
assert begun.wait(30)
assert settings.file.stat().st_size == 200 * {len(LINE.format(0)) + 1}
goes_on.set()
log.setting_aside.join()
log.write("the last\\n")
""",
        path,
        kept=5,
    )
    assert path.read_text() == "the last\n"
    assert lines_in(path)[:-1] == [LINE.format(number) for number in range(200)]


def test_what_cannot_be_set_aside_grows_on_and_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    run(
        f"""\
logging.basicConfig(handlers=[handler], level="INFO")
def refused(self, target):
    raise OSError(13, "no right to")
Path.replace = refused
for number in range(60):
    log.write("{LINE}\\n".format(number))
    if log.setting_aside is not None:
        log.setting_aside.join()
""",
        path,
        kept=5,
    )
    lines = path.read_text().splitlines()
    assert sum("log_not_set_aside" in line for line in lines) == 1
    assert len(lines) == 61


def test_a_file_that_cannot_be_written_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    settings = LogSettings(file=tmp_path / "none" / "node.log")
    with pytest.raises(ConfigError, match=r"node\.log\.file .*none/node\.log: cannot be written: No such"):
        log_file(settings)
    assert log_file(LogSettings()) is None


def test_a_node_sets_its_file_aside(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, nodes=1)
    cluster[0].configure("log", file_bytes=BYTES, files_kept=2)
    try:
        cluster.start()
        log = cluster[0].local.log_file
        connection = cluster[0].connect()
        for number in range(60):
            # Each is a line of the log: no such queue.
            channel = connection.channel()
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="NOT_FOUND"):
                channel.queue_declare(f"none-{number}", passive=True)
        until(lambda: log.with_name("node.log.2").exists(), "two files are set aside")
        assert cluster[0].terminate() == 0
        assert '"event": "stopped"' in log.read_text().splitlines()[-1]
        assert not log.with_name("node.log.3").exists()
    finally:
        cluster.stop()
