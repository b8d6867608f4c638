"""`make wheel` finds the interpreters, and `setup.py` says what it lacks. No test builds a wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from scripts import wheels
from scripts.wheels import Interpreter, build, chosen, found, interpreter
from tests.structure.tree import ROOT

NOBODY = (3, 99)
"""A version that no interpreter has."""


def program(path: Path, says: str) -> str:
    """A program that answers what an interpreter is asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
    return str(path)


def test_an_interpreter_tells_its_version() -> None:
    assert interpreter(sys.executable) == Interpreter(sys.executable, sys.version_info[:2])


@pytest.mark.parametrize("says", ["PyPy 3 11 0", "CPython 3 13 1", "nothing of use"])
def test_what_is_no_cpython_with_a_gil_is_passed_over(tmp_path: Path, says: str) -> None:
    assert interpreter(program(tmp_path / "python", says)) is None


def test_a_program_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    broken = Path(program(tmp_path / "python", "CPython 3 12 0"))
    broken.write_text("#!/bin/sh\nexit 127\n")
    assert interpreter(str(broken)) is None
    assert interpreter(str(tmp_path / "none")) is None


def test_the_interpreter_that_runs_the_script_comes_first(tmp_path: Path) -> None:
    one = found(sys.version_info[:2], tmp_path)
    assert one is not None and one.program == sys.executable


def test_those_on_the_path_come_before_those_of_pyenv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = program(tmp_path / "versions" / "3.99.2" / "bin" / "python", "CPython 3 99 0")
    assert found(NOBODY, tmp_path) == Interpreter(other, NOBODY)
    on_path = program(tmp_path / "bin" / "python3.99", "CPython 3 99 0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert found(NOBODY, tmp_path) == Interpreter(on_path, NOBODY)


def test_of_pyenvs_the_newest_of_a_version_is_taken(tmp_path: Path) -> None:
    for name in ("3.99.9", "3.99.10", "3.99.11t", "3.99-dev", "3.9.9"):
        program(tmp_path / "versions" / name / "bin" / "python", "CPython 3 99 0")
    one = found(NOBODY, tmp_path)
    assert one is not None and Path(one.program).parts[-3] == "3.99.10"


def test_a_shim_of_pyenv_that_leads_to_another_version_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin" / "python3.99", "CPython 3 12 0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert found(NOBODY, tmp_path) is None


def test_versions_without_an_interpreter_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wheels, "VERSIONS", (sys.version_info[:2], NOBODY))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert chosen([]) == [Interpreter(sys.executable, sys.version_info[:2])]
    assert capsys.readouterr().out == f"CPython 3.99: not found, on the PATH or below {tmp_path}; no wheel\n"


def test_a_program_that_was_named_has_to_be_an_interpreter(tmp_path: Path) -> None:
    assert chosen([sys.executable]) == [Interpreter(sys.executable, sys.version_info[:2])]
    old = program(tmp_path / "old", "CPython 3 10 0")
    with pytest.raises(SystemExit, match=r"not a CPython from 3\.11 to 3\.14: .*old, .*none"):
        chosen([sys.executable, old, str(tmp_path / "none")])


def test_a_wheel_is_built_compiled_with_the_locked_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "build" / "lib.linux" / "cluster" / "deleted.py"
    left.parent.mkdir(parents=True)
    left.touch()
    monkeypatch.setattr(wheels, "ROOT", tmp_path)
    commands: list[tuple[list[str], dict[str, str]]] = []

    def run(command: Sequence[str], variables: Mapping[str, str]) -> None:
        commands.append((list(command), dict(variables)))

    build(Interpreter("/opt/python3.12", (3, 12)), run)
    assert not left.exists()
    (environment, _), (tools, _), (wheel, variables) = commands
    assert environment[:3] == ["/opt/python3.12", "-m", "venv"]
    python = f"{environment[3]}/bin/python"
    assert tools[0] == wheel[0] == python
    assert tools[-3:] == ["--require-hashes", "--requirement", "requirements-build.txt"]
    assert "wheel" in wheel and "--no-deps" in wheel and variables == {"QUORATE_COMPILE": "1"}


def test_the_oldest_version_is_the_oldest_that_the_package_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == f">={wheels.named(wheels.VERSIONS[0])}"


def test_without_a_c_compiler_the_build_says_so_and_names_the_remedy(tmp_path: Path) -> None:
    variables = {**os.environ, "QUORATE_COMPILE": "1", "CC": str(tmp_path / "no-compiler")}
    command = [sys.executable, "setup.py", "--quiet", "build", "--build-base", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"compiling needs a C compiler: there is no {tmp_path}/no-compiler. Install it" in done.stderr
    assert "`make up`" in done.stderr


def test_metadata_takes_neither_a_compiler_nor_a_translation(tmp_path: Path) -> None:
    """pip asks for the metadata before it builds, more than once."""
    variables = {**os.environ, "QUORATE_COMPILE": "1", "CC": str(tmp_path / "no-compiler")}
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=variables, check=True, timeout=60)
    assert (tmp_path / "quorate.egg-info" / "PKG-INFO").exists()
