"""The project's Python sources as the structure tests see them: every file that git would keep."""

from __future__ import annotations

import ast
import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PRODUCT = ("replication", "node", "cluster")
"""The folders that make up the installed distribution."""

FOLDERS = (*PRODUCT, "pipeline", "chaos", "bench", "scripts", "tests", "docs", "deploy")


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """One source file: its path below the root, dotted name, text and syntax tree."""

    path: str
    name: str
    text: str
    tree: ast.Module

    @property
    def folder(self) -> str:
        return self.path.split("/", 1)[0]

    @property
    def lines(self) -> int:
        return self.text.count("\n")


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method and the number of lines it spans, decorators excluded."""

    path: str
    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef

    @property
    def lines(self) -> int:
        return (self.node.end_lineno or self.node.lineno) - self.node.lineno + 1


@cache
def modules(*folders: str) -> tuple[Module, ...]:
    """The modules of the given folders, of all of them when none is given, sorted by path."""
    with _uncollected():
        files = [file for folder in folders or FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
        return tuple(map(module_of, files))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Millions of nodes are made here, and all of them stay: the collector need not look for others."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@cache
def module_of(file: Path) -> Module:
    path = file.relative_to(ROOT).as_posix()
    text = file.read_text(encoding="utf-8")
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return Module(path, name, text, ast.parse(text, path))


@cache
def nodes(module: Module) -> tuple[ast.AST, ...]:
    """All nodes of a module's tree."""
    return tuple(ast.walk(module.tree))


def violations(rule: Callable[[Module], Iterable[str]], where: Iterable[Module]) -> list[str]:
    """The findings of a rule in modules, each with the path of its module."""
    return [f"{module.path}: {found}" for module in where for found in rule(module)]


def functions(module: Module) -> Iterator[Function]:
    """Every function of a module, nested ones included, named by the classes around it."""

    def walk(node: ast.AST, prefix: str) -> Iterator[Function]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield Function(module.path, prefix + child.name, child)
                yield from walk(child, prefix + child.name + ".")
            else:
                yield from walk(
                    child, prefix + child.name + "." if isinstance(child, ast.ClassDef) else prefix
                )

    return walk(module.tree, "")


@cache
def imports(module: Module) -> tuple[tuple[int, str], ...]:
    """(line, dotted name) of everything a module imports, at the top or inside functions.

    `from a.b import c` is `a.b.c`, so that a rule may speak of modules and of names alike.
    """
    return tuple(_imports(module))


def _imports(module: Module) -> Iterator[tuple[int, str]]:
    package = module.name if module.path.endswith("/__init__.py") else module.name.rpartition(".")[0]
    for node in nodes(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: -(node.level - 1) or None] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
