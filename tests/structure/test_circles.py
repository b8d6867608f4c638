"""No circle of imports, types included, over modules and over packages.

Modules in a circle can only be understood, tested and built as a whole. `CIRCLES` has the circles
that still exist; a circle there may lose members, and may not win any.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

import pytest

from tests.structure.tree import modules

ROOTS = ("node", "cluster", "replication")

MODULE_CIRCLES: tuple[set[str], ...] = ()

PACKAGE_CIRCLES: tuple[set[str], ...] = ()

Graph = Mapping[str, set[str]]


def module_graph() -> dict[str, set[str]]:
    """Which modules each module imports, imports for types and inside functions included."""
    trees = {module.name.removesuffix(".__init__"): module for module in modules(*ROOTS)}
    return {name: _imported(module.tree, trees.keys()) - {name} for name, module in trees.items()}


def _imported(tree: ast.AST, known: Iterable[str]) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return found.intersection(known)


def package_graph(graph: Graph) -> dict[str, set[str]]:
    """The same over packages."""
    packages = {name: name.rpartition(".")[0] or name for name in graph}
    packages |= {name: name for name in graph if any(other.startswith(f"{name}.") for other in graph)}
    found: dict[str, set[str]] = {}
    for name, imported in graph.items():
        of = found.setdefault(packages[name], set())
        of |= {packages[one] for one in imported} - {packages[name]}
    return found


def circles(graph: Graph) -> list[set[str]]:
    """Sets of nodes that reach each other (Kosaraju)."""
    order: list[str] = []
    seen: set[str] = set()
    for start in graph:
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, done = stack.pop()
            if done:
                order.append(name)
            elif name not in seen:
                seen.add(name)
                stack.append((name, True))
                stack += [(one, False) for one in sorted(graph.get(name, ())) if one not in seen]
    back: dict[str, set[str]] = {}
    for name, imported in graph.items():
        for one in imported:
            back.setdefault(one, set()).add(name)
    found, left = [], set(order)
    for start in reversed(order):
        together, reached = set[str](), [start] if start in left else []
        while reached:
            name = reached.pop()
            if name in left:
                left.discard(name)
                together.add(name)
                reached += back.get(name, ())
        if len(together) > 1:
            found.append(together)
    return found


@pytest.mark.parametrize("name, known", [("modules", MODULE_CIRCLES), ("packages", PACKAGE_CIRCLES)])
def test_there_is_no_other_circle(name: str, known: tuple[set[str], ...]) -> None:
    graph = module_graph()
    found = circles(graph if name == "modules" else package_graph(graph))
    new = [sorted(one) for one in found if not any(one <= allowed for allowed in known)]
    assert not new, f"{name} import each other in a circle"


@pytest.mark.parametrize("name, known", [("modules", MODULE_CIRCLES), ("packages", PACKAGE_CIRCLES)])
def test_circles_that_are_gone_are_not_listed(name: str, known: tuple[set[str], ...]) -> None:
    graph = module_graph()
    found = circles(graph if name == "modules" else package_graph(graph))
    members = set[str]().union(*found)
    gone = sorted(set[str]().union(*known) - members)
    assert not gone, f"take these {name} off the list"


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
