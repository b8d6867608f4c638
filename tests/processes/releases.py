"""The last release, as the wheel that its commit makes, and nodes that run it.

The file RELEASE names the commit. Its sources come from this repository's history, and what they depend on
from this environment, so that nothing is downloaded.
"""

from __future__ import annotations

import compileall
import os
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class NoHistoryError(AssertionError):
    """This is no clone, or one without the last release's commit."""


def last_release() -> str:
    """The commit that the file RELEASE names."""
    return (ROOT / "RELEASE").read_text(encoding="ascii").strip()


def has_history() -> bool:
    """Whether this is a clone, and not sources that were unpacked somewhere."""
    return (ROOT / ".git").exists()


def sources(commit: str) -> bytes:
    """A tar archive of the commit's tree. Raises NoHistoryError."""
    # The clone may have another owner: git runs nothing of its configuration.
    git = ["git", "-c", "safe.directory=*", "archive", "--format=tar", commit]
    done = subprocess.run(git, cwd=ROOT, capture_output=True)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise NoHistoryError(
            f"the last release ({commit[:7]}) is not in this repository's history: clone it whole, or say "
            f"`git fetch --unshallow` ({said})"
        )
    return done.stdout


def install(commit: str, directory: Path) -> Path:
    """Make the commit's wheel below `directory`; where its packages are."""
    source, wheels, installed = (directory / name for name in ("source", "wheels", "installed"))
    with tarfile.open(fileobj=BytesIO(sources(commit))) as archive:
        archive.extractall(source, filter="data")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(wheels), str(source)]
    without_c = {name: value for name, value in os.environ.items() if name != "QUORATE_COMPILE"}
    subprocess.run([*build, *options], check=True, env=without_c)
    (wheel,) = wheels.glob("quorate-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(installed)
    # Else each of the nodes that start at once would compile all of it.
    compileall.compile_dir(installed, quiet=1)
    return installed


class InstalledProcess:
    """A node of another release, as `cluster.cli.local.forked_process.ForkedProcess` is one of this tree."""

    def __init__(self, installed: Path, arguments: Sequence[str], log: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
        program = "import sys; from cluster.cli import main; main(sys.argv[1:], prog_name='quorate')"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, *arguments],
                env=environment, cwd=log.parent, stdin=subprocess.PIPE, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
        self.pid = self._process.pid

    def send(self, number: signal.Signals) -> None:
        """To a process that has ended already it means nothing."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int:
        """Its exit code; raises TimeoutError."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"process {self.pid} still runs after {seconds} s") from None
        assert self._process.stdin is not None
        self._process.stdin.close()
        return code
