"""Writes docs/conformance.md: requirements, and sentences of both specifications, with their tests.

The marks are read off the tests' syntax trees, so that a test module that needs a cluster costs nothing.
`python -m scripts.conformance` writes the file; a structure test checks that it is up to date.
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "conformance.md"

BINDS_SERVER = ("server", "both")

PREFACE = """# Conformance

The requirements of the project, and the tests that show them; written by `make conformance` from the tests'
`@pytest.mark.requirement` marks. A requirement that is cut into clauses (`tests/clauses.toml`) is shown when
each clause has a test that `make test` runs; otherwise its row names the clauses that are missing. A
requirement that is not cut yet counts as touched: its tests assert parts of it, and nothing says that these
are all. Tests that only run by another target are followed by its name.
"""

SENTENCES = """## Sentences of the AMQP 0-9-1 specification ({shown} of {binding} that bind the server shown)

The sentences of the specification with MUST, SHOULD or MAY, and those that bind without one of these words,
by section; the tests speak raw frames to a real node (`tests/conformance/`). Where this server reads a
sentence in another way than its letter, or it does not bind a server, that is said behind it.

| section | whom it binds | sentence | tests |
|---|---|---|---|"""


SENTENCES_10 = """## Sentences of the AMQP 1.0 specification ({shown} of {binding} that bind the broker shown)

The sentences of the OASIS Standard with MUST, MUST NOT or REQUIRED in its parts 1 to 5, and a few that bind
without one of these words, by section. Where the broker reads a sentence in another way than its letter,
that is said behind it. The sentences that the broker does not claim follow below, with the reason.

| section | sentence | tests |
|---|---|---|"""

UNCLAIMED = {
    "departs": "The broker does otherwise",
    "absent": "The broker does not have the feature",
    "peer": "The sentence binds the other peer alone",
}
"""The titles of the sentences of AMQP 1.0 that the broker does not claim, by whom they bind."""


class Sentence(NamedTuple):
    """`binds` is "server", "both", "client" or "nobody", and for AMQP 1.0 "broker" or one of `UNCLAIMED`;
    `remark` says how the sentence is read, or why it does not bind.
    """

    binds: str
    text: str
    remark: str


@cache
def requirements() -> dict[str, dict[str, str]]:
    """Group title → requirement id → text."""
    tables = tomllib.loads((ROOT / "tests" / "requirements.toml").read_text(encoding="utf-8"))
    return {
        f"{letter}. {table['title']}": {key: text for key, text in table.items() if key != "title"}
        for letter, table in tables.items()
    }


@cache
def clauses() -> dict[str, dict[str, str]]:
    """Requirement id → clause id → words."""
    return tomllib.loads((ROOT / "tests" / "clauses.toml").read_text(encoding="utf-8"))


def sentences() -> dict[str, Sentence]:
    """Sentence id → what the specification of AMQP 0-9-1 says there."""
    return _sentences("sentences.toml")


def sentences_10() -> dict[str, Sentence]:
    """Sentence id → what the specification of AMQP 1.0 says there."""
    return _sentences("amqp10.toml")


@cache
def _sentences(file: str) -> dict[str, Sentence]:
    tables = tomllib.loads((ROOT / "tests" / "conformance" / file).read_text(encoding="utf-8"))
    return {
        key: Sentence(table["binds"], table["text"], table.get("why", "") or table.get("note", ""))
        for key, table in tables.items()
    }


def marks(tree: ast.Module, mark: str = "requirement") -> Iterator[tuple[str, str]]:
    """(test name, id) for each id in such marks of functions, of classes and of the module itself."""
    for test, signs in _tests(tree):
        for call in calls(signs, mark):
            yield from ((test, str(one.value)) for one in call.args if isinstance(one, ast.Constant))


def calls(signs: Iterable[ast.AST], mark: str = "requirement") -> Iterator[ast.Call]:
    """The marks of this name that stand in these pieces of a syntax tree."""
    for sign in signs:
        for call in ast.walk(sign):
            if isinstance(call, ast.Call) and _names_mark(call.func, mark):
                yield call


def _names_mark(function: ast.expr, mark: str) -> bool:
    """Whether the expression is `pytest.mark.` and this name."""
    match function:
        case ast.Attribute(ast.Attribute(ast.Name("pytest"), "mark"), name):
            return name == mark
    return False


def _tests(tree: ast.Module) -> Iterator[tuple[str, list[ast.expr]]]:
    """Each test of a module, as pytest names it, with the expressions that may hold marks of it."""

    def walk(
        body: list[ast.stmt], prefix: str, around: list[ast.expr]
    ) -> Iterator[tuple[str, list[ast.expr]]]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from walk(node.body, f"{prefix}{node.name}::", around + node.decorator_list)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                yield prefix + node.name, around + node.decorator_list
            elif isinstance(node, ast.Assign) and _is_state_machine(node):
                yield f"{prefix}{ast.unparse(node.targets[0])}::runTest", [*around, node.value]

    own = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    return walk(tree.body, "", own)


def _is_state_machine(node: ast.Assign) -> bool:
    """Whether a name is given to the test that Hypothesis makes of a state machine, marked or not."""
    value = node.value
    while isinstance(value, ast.Call) and len(value.args) == 1:
        value = value.args[0]
    named = ast.unparse(node.targets[0]).startswith("Test")
    return named and isinstance(value, ast.Attribute) and value.attr == "TestCase"


@cache
def modules() -> dict[str, ast.Module]:
    """Path → syntax tree of each module of tests."""
    return {
        file.relative_to(ROOT).as_posix(): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
    }


@cache
def shown(mark: str = "requirement") -> dict[str, list[str]]:
    """Id → `path::test`, sorted."""
    found: dict[str, set[str]] = defaultdict(set)
    for path, tree in modules().items():
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
    return "\n".join([*parts, *_sentence_rows(), "", *_sentence_rows_10(), ""])


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
    "proof": "proof", "spark": "test-pipeline", "watch": "test-watch",
}  # fmt: skip
"""The markers that `make test` leaves out, and the targets that run them."""


@cache
def target_of(test: str) -> str:
    """The target that alone runs a test; empty where `make test` does."""
    path, _, name = test.partition("::")
    return next((target for marker, target in TARGETS.items() if name in marked(modules()[path], marker)), "")


@cache
def marked(tree: ast.Module, marker: str) -> frozenset[str]:
    """The tests of a module that bear a marker without arguments, by themselves or with all around them."""
    return frozenset(
        test for test, signs in _tests(tree) if any(_bears(sign, f"pytest.mark.{marker}") for sign in signs)
    )


def _bears(sign: ast.expr, marker: str) -> bool:
    """Whether the marker is on all of a test: what a keyword gives to some parameters of the test is not."""
    match sign:
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return any(_bears(part, marker) for part in parts)
        case ast.Call(func=func, args=args):
            return any(_bears(part, marker) for part in (func, *args))
    return ast.unparse(sign) == marker


def _sentence_rows() -> Iterator[str]:
    tests = shown("sentence")
    binding = [key for key, one in sentences().items() if one.binds in BINDS_SERVER]
    yield SENTENCES.format(shown=sum(key in tests for key in binding), binding=len(binding))
    for key, one in sentences().items():
        yield f"| {key} | {one.binds} | {_told(one)} | {_cell(tests.get(key, []))} |"


def _sentence_rows_10() -> Iterator[str]:
    tests = shown("sentence")
    binding = {key: one for key, one in sentences_10().items() if one.binds == "broker"}
    yield SENTENCES_10.format(shown=sum(key in tests for key in binding), binding=len(binding))
    for key, one in binding.items():
        yield f"| {key.removeprefix('1.0/')} | {_told(one)} | {_cell(tests.get(key, []))} |"
    for binds, title in UNCLAIMED.items():
        rows = {key: one for key, one in sentences_10().items() if one.binds == binds}
        yield f"\n### {title} ({len(rows)})\n\n| section | sentence | reason |\n|---|---|---|"
        for key, one in rows.items():
            yield f"| {key.removeprefix('1.0/')} | {_escaped(one.text)} | {one.remark} |"


def _told(one: Sentence) -> str:
    """The sentence, with the remark behind it."""
    return _escaped(one.text) + (f" ({one.remark})" if one.remark else "")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def _cell(tests: list[str]) -> str:
    told = [(test.removeprefix("tests/"), target_of(test)) for test in tests]
    return (
        "<br>".join(f"`{test}`" + (f" (`make {target}`)" if target else "") for test, target in told) or "–"
    )


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
