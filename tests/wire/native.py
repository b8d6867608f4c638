"""Builds the modules in C for tests, whether the code under test is compiled or not."""

from __future__ import annotations

import subprocess
import sysconfig
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

SOURCES = Path(__file__).parents[2] / "node"
WARNINGS = ("-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror")


def build(name: str, directory: Path, *options: str) -> Path:
    """The built module's file."""
    (source,) = SOURCES.rglob(f"{name}.c")
    file = directory / f"{name}.so"
    include = sysconfig.get_path("include")
    command = ["cc", "-std=c11", *WARNINGS, "-fPIC", "-shared", *options, f"-I{include}"]
    subprocess.run([*command, str(source), "-o", str(file)], check=True)
    return file


def load(file: Path) -> ModuleType:
    """The module in a file that `build` made."""
    loader = ExtensionFileLoader(file.stem, str(file))
    spec = spec_from_file_location(file.stem, file, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
