"""Writes docs/conformance.md: each requirement with the tests that show it.

The marks are read off the tests' syntax trees, so that a test module that needs a cluster costs nothing.
`python -m scripts.conformance` writes the file; a structure test checks that it is up to date.
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "conformance.md"

PREFACE = """# Conformance

What the project is built to, and the tests that show it; written by `make conformance` from the tests'
`@pytest.mark.requirement` marks. A test shows a part of its requirement; a row without tests is not
shown yet.
"""


def requirements() -> dict[str, dict[str, str]]:
    """Group title → requirement id → text."""
    tables = tomllib.loads((ROOT / "tests" / "requirements.toml").read_text(encoding="utf-8"))
    return {
        f"{letter}. {table['title']}": {key: text for key, text in table.items() if key != "title"}
        for letter, table in tables.items()
    }


def marks(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(test name, requirement id) of a module: marks of functions, of classes and of the module itself."""

    def ids(nodes: list[ast.expr]) -> list[str]:
        return [
            argument.value
            for node in nodes
            for call in ast.walk(node)
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.requirement"
            for argument in call.args
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        ]

    def walk(body: list[ast.stmt], prefix: str, around: list[str]) -> Iterator[tuple[str, str]]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from walk(node.body, f"{prefix}{node.name}::", around + ids(node.decorator_list))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                yield from ((prefix + node.name, key) for key in around + ids(node.decorator_list))

    module = tree.body if isinstance(tree, ast.Module) else []
    own = [
        node.value
        for node in module
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    return walk(module, "", ids(own))


def shown() -> dict[str, list[str]]:
    """Requirement id → `path::test`, sorted."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for test, key in marks(ast.parse(file.read_text(encoding="utf-8"))):
            found[key].add(f"{file.relative_to(ROOT).as_posix()}::{test}")
    return {key: sorted(tests) for key, tests in found.items()}


def document() -> str:
    """The whole text of docs/conformance.md."""
    tests = shown()
    parts = [PREFACE]
    for title, rows in requirements().items():
        shown_rows = sum(key in tests for key in rows)
        parts.append(f"## {title} ({shown_rows} of {len(rows)} shown)\n")
        parts.append("| id | requirement | tests |\n|---|---|---|")
        for key, text in rows.items():
            cell = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in tests.get(key, [])) or "–"
            parts.append(f"| {key} | {text} | {cell} |")
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
