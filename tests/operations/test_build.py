"""A process tells which build it runs."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType

import pytest

from cluster.system.build import COMPILED, SOURCES, WRITTEN_IN_C, build, runs_c_modules
from node.queue import partition
from node.wire.amqp091 import native
from tests.structure.test_compiled import ROOT, SETUP

EXTENSION = EXTENSION_SUFFIXES[0]


def loaded(**suffixes: str) -> dict[str, ModuleType]:
    """Modules by name, `__` standing for a dot, each from a file with this suffix."""
    modules = {}
    for written, suffix in suffixes.items():
        name = written.replace("__", ".")
        modules[name] = ModuleType(name)
        modules[name].__file__ = f"/site-packages/{name.replace('.', '/')}{suffix}"
    return modules


def in_c(*names: str) -> dict[str, ModuleType]:
    return loaded(**{name.replace(".", "__"): EXTENSION for name in names})


@pytest.mark.parametrize(
    ("modules", "told"),
    [
        (loaded(node__queue__queue=".py", cluster__cli=".py"), SOURCES),
        (loaded(node__queue__queue=EXTENSION, cluster__cli=".py"), COMPILED),
        (loaded(replication__journal__records=EXTENSION), COMPILED),
        # Another package's extension, a package whose name only begins alike, a package without a file.
        (loaded(uvloop__loop=EXTENSION, nodes__queue=EXTENSION), SOURCES),
        ({"node.wire": ModuleType("node.wire")}, SOURCES),
        (in_c(*WRITTEN_IN_C), SOURCES),
        ({}, SOURCES),
    ],
)
def test_a_compiled_module_makes_the_build_compiled(modules: dict[str, ModuleType], told: str) -> None:
    assert build(modules) == told


def test_modules_in_c_run_if_all_of_them_were_loaded_as_extensions() -> None:
    first, *others = sorted(WRITTEN_IN_C)
    assert runs_c_modules(in_c(first, *others))
    assert not runs_c_modules(in_c(first))
    assert not runs_c_modules(in_c(*others))
    assert not runs_c_modules({**in_c(*others), first: ModuleType(first)})


def test_the_modules_in_c_are_those_of_setup_py() -> None:
    assert SETUP["WRITTEN_IN_C"].keys() == WRITTEN_IN_C


def test_a_change_of_any_header_in_c_compiles_anew() -> None:
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "node").rglob("*.h")}
    assert set(SETUP["HEADERS_IN_C"]) == there


def test_of_this_process() -> None:
    """These tests run on the sources and on compiled code."""
    assert build() == (SOURCES if str(partition.__file__).endswith(".py") else COMPILED)
    assert runs_c_modules() == (native.NATIVE_SCAN is not None and native.NATIVE_ASKED is not None)
