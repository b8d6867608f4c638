"""Writes docs/conformance.md: requirements, and sentences of the 0-9-1 specification, with their tests.

The marks are read off the tests' syntax trees, so that a test module that needs a cluster costs nothing.
`python -m scripts.conformance` writes the file; a structure test checks that it is up to date.
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "conformance.md"

BINDS_SERVER = ("server", "both")

PREFACE = """# Conformance

What the project is built to, and the tests that show it; written by `make conformance` from the tests'
`@pytest.mark.requirement` marks. A test shows a part of its requirement; a row without tests is not
shown yet.
"""

SENTENCES = """## Sentences of the AMQP 0-9-1 specification ({shown} of {binding} that bind the server shown)

What the specification says with MUST, SHOULD or MAY, and what binds without one of these words, by section;
the tests speak raw frames to a real node (`tests/conformance/`). Where this server reads a sentence in
another way than its letter, or it does not bind a server, that is said behind it.

| section | whom it binds | sentence | tests |
|---|---|---|---|"""


class Sentence(NamedTuple):
    """`binds`: server, both, client or nobody; `remark` says how it is read, or why it binds no server."""

    binds: str
    text: str
    remark: str


def requirements() -> dict[str, dict[str, str]]:
    """Group title → requirement id → text."""
    tables = tomllib.loads((ROOT / "tests" / "requirements.toml").read_text(encoding="utf-8"))
    return {
        f"{letter}. {table['title']}": {key: text for key, text in table.items() if key != "title"}
        for letter, table in tables.items()
    }


def sentences() -> dict[str, Sentence]:
    """Sentence id → what the specification says there."""
    tables = tomllib.loads((ROOT / "tests" / "conformance" / "sentences.toml").read_text(encoding="utf-8"))
    return {
        key: Sentence(table["binds"], table["text"], table.get("why", "") or table.get("note", ""))
        for key, table in tables.items()
    }


def marks(tree: ast.AST, mark: str = "requirement") -> Iterator[tuple[str, str]]:
    """(test name, id) for each id in such marks of functions, of classes and of the module itself."""

    def ids(nodes: list[ast.expr]) -> list[str]:
        return [
            argument.value
            for node in nodes
            for call in ast.walk(node)
            if isinstance(call, ast.Call) and ast.unparse(call.func) == f"pytest.mark.{mark}"
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


@cache
def _modules() -> dict[str, ast.Module]:
    return {
        file.relative_to(ROOT).as_posix(): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
    }


def shown(mark: str = "requirement") -> dict[str, list[str]]:
    """Id → `path::test`, sorted."""
    found: dict[str, set[str]] = defaultdict(set)
    for path, tree in _modules().items():
        for test, key in marks(tree, mark):
            found[key].add(f"{path}::{test}")
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
            parts.append(f"| {key} | {text} | {_cell(tests.get(key, []))} |")
        parts.append("")
    return "\n".join([*parts, *_sentence_rows(), ""])


def _sentence_rows() -> Iterator[str]:
    tests = shown("sentence")
    binding = [key for key, one in sentences().items() if one.binds in BINDS_SERVER]
    yield SENTENCES.format(shown=sum(key in tests for key in binding), binding=len(binding))
    for key, one in sentences().items():
        text = one.text.replace("|", "\\|").replace("*", "\\*")
        remark = f" ({one.remark})" if one.remark else ""
        yield f"| {key} | {one.binds} | {text}{remark} | {_cell(tests.get(key, []))} |"


def _cell(tests: list[str]) -> str:
    return "<br>".join(f"`{test.removeprefix('tests/')}`" for test in tests) or "–"


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
