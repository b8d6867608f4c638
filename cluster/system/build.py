"""Which build of quorate a process runs, from the modules that it has loaded."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType
from typing import Final

COMPILED: Final = "compiled"
SOURCES: Final = "sources"

WRITTEN_IN_C: Final = frozenset(
    {
        "node.queue._group_table",
        "node.ranges._range_columns",
        "node.wire.amqp091._contents",
        "node.wire.amqp091._properties",
        "node.wire.amqp10._application",
    }
)
"""The modules that `setup.py` builds from C; each has a twin in Python."""

_PACKAGES: Final = ("cluster.", "node.", "replication.")


def build(modules: Mapping[str, ModuleType] | None = None) -> str:
    """`COMPILED` if a module of quorate was loaded that mypyc has compiled, else `SOURCES`."""
    loaded = sys.modules if modules is None else modules
    # A copy: another thread may import at the same time.
    compiled = (
        _is_extension(module)
        for name, module in list(loaded.items())
        if name.startswith(_PACKAGES) and name not in WRITTEN_IN_C
    )
    return COMPILED if any(compiled) else SOURCES


def runs_c_modules(modules: Mapping[str, ModuleType] | None = None) -> bool:
    """Whether the modules that are written in C were loaded, all of them."""
    loaded = sys.modules if modules is None else modules
    return all(_is_extension(loaded.get(name)) for name in WRITTEN_IN_C)


def _is_extension(module: ModuleType | None) -> bool:
    return (getattr(module, "__file__", None) or "").endswith(tuple(EXTENSION_SUFFIXES))
