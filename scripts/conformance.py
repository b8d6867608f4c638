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
`@pytest.mark.requirement` marks. A requirement that is cut into clauses (`tests/clauses.toml`) is shown when
each clause has a test that `make test` runs; otherwise its row names the clauses that are missing. A
requirement that is not cut yet counts as touched: its tests assert parts of it, and nothing says that these
are all. Tests that only run by another target are followed by its name.
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


def clauses() -> dict[str, dict[str, str]]:
    """Requirement id → clause id → words."""
    return tomllib.loads((ROOT / "tests" / "clauses.toml").read_text(encoding="utf-8"))


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
        states = [_state(key, tests) for key in rows]
        figures = ", ".join(
            f"{states.count(state)} {state}" for state in ("shown", "partly shown", "touched")
        )
        parts.append(f"## {title} ({figures} of {len(rows)})\n")
        parts.append("| id | requirement | state | tests |\n|---|---|---|---|")
        for (key, text), state in zip(rows.items(), states, strict=True):
            missing = _missing(key, tests)
            told = f"{state}; missing: {'; '.join(missing)}" if missing else state
            parts.append(f"| {key} | {text} | {told} | {_cell(_of_row(key, tests))} |")
        parts.append("")
    return "\n".join([*parts, *_sentence_rows(), ""])


def _of_row(key: str, tests: dict[str, list[str]]) -> list[str]:
    """The tests of a requirement and of its clauses."""
    ids = (key, *clauses().get(key, {}))
    return sorted({test for one in ids for test in tests.get(one, [])})


def _missing(key: str, tests: dict[str, list[str]]) -> list[str]:
    """The words of the clauses that no test of `make test` asserts."""
    return [
        words
        for clause, words in clauses().get(key, {}).items()
        if all(target_of(test) for test in tests.get(clause, []))
    ]


def _state(key: str, tests: dict[str, list[str]]) -> str:
    if not _of_row(key, tests):
        return "not shown"
    if key not in clauses():
        return "touched"
    return "partly shown" if _missing(key, tests) else "shown"


TARGETS = {
    "chaos": "test-chaos", "clients": "clients", "compose": "test-compose", "console": "test-console",
    "proof": "proof", "watch": "test-watch",
}  # fmt: skip
"""The markers that `make test` leaves out, and the targets that run them."""


@cache
def target_of(test: str) -> str:
    """The target that alone runs a test; empty where `make test` does."""
    path, _, name = test.partition("::")
    tree = _modules()[path]
    return next((target for marker, target in TARGETS.items() if name in _marked(tree, marker)), "")


def _marked(tree: ast.Module, marker: str) -> set[str]:
    """The tests of a module that bear a marker without arguments, by themselves or with all around them."""
    sign = f"pytest.mark.{marker}"
    assigned = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    whole = any(sign in ast.unparse(value) for value in assigned)
    found: set[str] = set()
    for node in tree.body:
        within = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        around = getattr(node, "decorator_list", []) if prefix else []
        for one in within:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                decorators = [*around, *one.decorator_list]
                if whole or any(ast.unparse(each).startswith(sign) for each in decorators):
                    found.add(prefix + one.name)
    return found


def _sentence_rows() -> Iterator[str]:
    tests = shown("sentence")
    binding = [key for key, one in sentences().items() if one.binds in BINDS_SERVER]
    yield SENTENCES.format(shown=sum(key in tests for key in binding), binding=len(binding))
    for key, one in sentences().items():
        text = one.text.replace("|", "\\|").replace("*", "\\*")
        remark = f" ({one.remark})" if one.remark else ""
        yield f"| {key} | {one.binds} | {text}{remark} | {_cell(tests.get(key, []))} |"


def _cell(tests: list[str]) -> str:
    told = [(test.removeprefix("tests/"), target_of(test)) for test in tests]
    return (
        "<br>".join(f"`{test}`" + (f" (`make {target}`)" if target else "") for test, target in told) or "–"
    )


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
