"""Riddles in the prose of the project: words and sentences whose actor a reader has to find out.

Prose are documents, docstrings, comments, the names of tests, and the texts that the product prints or logs.

Run as a program it lowers the limits in prose.json to the numbers reached now.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Final

from tests.structure.snippets import documents
from tests.structure.tree import PRODUCT, ROOT, modules

LIMITS: Final = ROOT / "tests" / "structure" / "prose.json"

RIDDLES: Final = {
    "pronoun": re.compile(r"\b(?:nobody|somebody|anybody|everybody|whoever)\b", re.IGNORECASE),
    "clause": re.compile(r"(?:\A|[.:;] |\n\n|\n[-*] |\| )What (?!to do:)[a-z][^.?!]*(?:[.!]|\Z|\n\n)"),
}
"""`pronoun`: a word that names no actor: name the node, the client, the consumer. `clause`: a sentence whose
subject is a clause ("What is settled waits"): use the noun."""

FOLDERS: Final = (*PRODUCT, "pipeline", "chaos", "bench", "scripts", "tests", "deploy")

OTHERS: Final = ("CHANGELOG.md", "docs/conformance.md")
"""Documents that are not measured: history, and the words of requirements."""

_QUOTED: Final = re.compile(r"```.*?```|`[^`]*`|\"[^\"]*\"", re.DOTALL)
"""Code and quotations, whose words are not the project's prose."""


@cache
def found() -> tuple[tuple[str, str, str], ...]:
    """Path, kind and text of each riddle in the prose."""
    return tuple(
        (path, kind, match.group().strip("\n.:;|- "))
        for path, prose in _prose()
        for kind, pattern in RIDDLES.items()
        for match in pattern.finditer(_QUOTED.sub("`…`", prose))
    )


def place(path: str) -> str:
    """The folder whose limit counts for a file: a package of the product, or a document's folder."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] in PRODUCT and len(parts) > 2 else "/".join(parts[:-1]) or path


def figures() -> dict[str, dict[str, int]]:
    """The number of riddles by place and kind; places without any are left out."""
    counts = Counter((place(path), kind) for path, kind, _ in found())
    return {
        where: {kind: counts[where, kind] for kind in RIDDLES if counts[where, kind]}
        for where in sorted({where for where, _ in counts})
    }


def recorded() -> dict[str, dict[str, int]]:
    """The limits by place and kind; 0 where none is recorded."""
    limits: dict[str, dict[str, int]] = json.loads(LIMITS.read_text(encoding="utf-8"))
    return limits


def tighten() -> None:
    """Lower each recorded limit to the number reached now where that is smaller."""
    now, limits = figures(), recorded()
    lowered = {
        where: {kind: min(most, now.get(where, {}).get(kind, 0)) for kind, most in kinds.items()}
        for where, kinds in limits.items()
    }
    left = {where: {kind: most for kind, most in kinds.items() if most} for where, kinds in lowered.items()}
    kept = {where: kinds for where, kinds in left.items() if kinds}
    LIMITS.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def _prose() -> Iterator[tuple[str, str]]:
    for file in documents():
        path = file.relative_to(ROOT).as_posix()
        if path not in OTHERS:
            yield path, file.read_text(encoding="utf-8")
    for module in modules(*FOLDERS):
        for text in (*_docstrings(module.tree), *_comments(module.text)):
            yield module.path, text
        if module.folder == "tests":
            yield from ((module.path, name) for name in _test_names(module.tree))
        else:
            yield from ((module.path, text) for text in _texts(module.tree))


def _test_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name.removeprefix("test_").replace("_", " ")


def _texts(tree: ast.Module) -> Iterator[str]:
    """The sentences among the constants, those of f-strings included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def _docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield re.sub(r"\n[ ]+", "\n", node.value.value).strip()


def _comments(source: str) -> list[str]:
    """The comments, those on successive lines joined."""
    joined: list[str] = []
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("# ")
            if token.start[0] == last + 1:
                joined[-1] += " " + text
            else:
                joined.append(text)
            last = token.start[0]
    return joined


if __name__ == "__main__":
    tighten()
