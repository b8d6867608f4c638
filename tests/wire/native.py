"""Builds the module of `_contents.c` for tests, wherever the code under test is compiled or not."""

from __future__ import annotations

import subprocess
import sysconfig
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

SOURCE = Path(__file__).parents[2] / "node" / "wire" / "amqp091" / "_contents.c"


def build(directory: Path, *options: str) -> Path:
    """The built module's file. Raises FileNotFoundError without a C compiler."""
    file = directory / "_contents.so"
    include = sysconfig.get_path("include")
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-fPIC", "-shared"]
    subprocess.run([*command, *options, f"-I{include}", str(SOURCE), "-o", str(file)], check=True)
    return file


def load(file: Path) -> ModuleType:
    """The module in a file that `build` made."""
    loader = ExtensionFileLoader("_contents", str(file))
    spec = spec_from_file_location("_contents", file, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
