"""Builds the wheel that is shipped for each CPython of this machine: python -m scripts.wheels [PYTHON …].

Without arguments the script looks for 3.11 to 3.14: the interpreter that runs it, those on the PATH, and
pyenv's. `setup.py` does the work, in an environment of its own for each interpreter.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
WHEELS: Final = ROOT / "build" / "wheel"

Version = tuple[int, int]
VERSIONS: Final[Sequence[Version]] = ((3, 11), (3, 12), (3, 13), (3, 14))

Run = Callable[[Sequence[str], Mapping[str, str]], object]
"""Runs a command with additional variables. Raises CalledProcessError if the command fails."""

_QUESTION: Final = (
    "import platform, sys, sysconfig; free = sysconfig.get_config_var('Py_GIL_DISABLED') or 0; "
    "print(platform.python_implementation(), *sys.version_info[:2], free)"
)
_PATIENCE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A CPython. Whether its headers are there, `setup.py` finds out."""

    program: str
    version: Version


def named(version: Version) -> str:
    return ".".join(map(str, version))


def interpreter(program: str) -> Interpreter | None:
    """The CPython that a program is; None if it is something else, has no GIL, or does not run."""
    try:
        done = subprocess.run(
            [program, "-c", _QUESTION], capture_output=True, text=True, timeout=_PATIENCE_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    told = re.fullmatch(r"CPython (\d+) (\d+) 0\n", done.stdout)
    return None if told is None else Interpreter(program, (int(told[1]), int(told[2])))


def candidates(version: Version, pyenv: Path) -> Iterator[str]:
    """Programs that may be an interpreter of this version; pyenv's newest first."""
    yield sys.executable
    on_path = shutil.which(f"python{named(version)}")
    if on_path is not None:
        yield on_path
    patches = {
        int(found[1]): directory
        for directory in (pyenv / "versions").glob(f"{named(version)}.*")
        if (found := re.fullmatch(rf"{re.escape(named(version))}\.(\d+)", directory.name))
    }
    for patch in sorted(patches, reverse=True):
        yield str(patches[patch] / "bin" / "python")


def found(version: Version, pyenv: Path) -> Interpreter | None:
    """The first of the candidates that is an interpreter of this version."""
    known = (interpreter(program) for program in candidates(version, pyenv))
    return next((one for one in known if one is not None and one.version == version), None)


def run(command: Sequence[str], variables: Mapping[str, str]) -> None:
    subprocess.run(command, env={**os.environ, **variables}, cwd=ROOT, check=True)


def build(one: Interpreter, run: Run = run) -> None:
    """Build the wheel for an interpreter. Raises CalledProcessError."""
    pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
    for left in ("lib*", "bdist*", "temp*"):
        # A module that was deleted since would be in the wheel.
        for directory in (ROOT / "build").glob(left):
            shutil.rmtree(directory)
    with tempfile.TemporaryDirectory(prefix="quorate-wheel-") as environment:
        python = str(Path(environment, "bin", "python"))
        run([one.program, "-m", "venv", environment], {})
        run([python, *pip, "install", "--require-hashes", "--requirement", "requirements-build.txt"], {})
        wheel = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(WHEELS), "."]
        run([python, *pip, *wheel], {"QUORATE_COMPILE": "1"})


def chosen(programs: Sequence[str]) -> list[Interpreter]:
    """The interpreters to build for. Says which are missing; exits if a program that was named is none."""
    if programs:
        told = {program: interpreter(shutil.which(program) or program) for program in programs}
        wrong = [program for program, one in told.items() if one is None or one.version not in VERSIONS]
        if wrong:
            sys.exit(f"not a CPython from 3.11 to 3.14: {', '.join(wrong)}")
        return [one for one in told.values() if one is not None]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    there = []
    for version in VERSIONS:
        if (one := found(version, pyenv)) is None:
            print(f"CPython {named(version)}: not found, on the PATH or below {pyenv}; no wheel", flush=True)
        else:
            there.append(one)
    return there


def main(programs: Sequence[str]) -> None:
    for one in chosen(programs):
        print(f"CPython {named(one.version)}: building, with {one.program}", flush=True)
        try:
            build(one)
        except subprocess.CalledProcessError:
            sys.exit(f"CPython {named(one.version)}: the wheel was not built")
    for wheel in sorted(WHEELS.glob("*.whl")):
        print(wheel.relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])
