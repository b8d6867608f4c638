"""The console's scripts and styles keep to the limits of the other sources, and to its security policy."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.structure.sizes import MAX_FILE_LINES, MAX_FUNCTION_LINES
from tests.structure.test_names import EMPTY_NAMES
from tests.structure.test_names import FORBIDDEN as UNFINISHED
from tests.structure.tree import ROOT

STATIC = ROOT / "cluster" / "admin" / "console" / "static"
SOURCES = sorted([*STATIC.rglob("*.js"), *STATIC.rglob("*.css"), *STATIC.rglob("*.html")])
SCRIPTS = sorted([*STATIC.rglob("*.js"), *(ROOT / "tests" / "console").rglob("*.js")])
MAX_COLUMNS = 120

FORBIDDEN = UNFINISHED | {
    r"\.(innerHTML|outerHTML|srcdoc)\b|insertAdjacentHTML|document\.write|DOMParser": "text is never HTML",
    r"\beval\(|new Function\(|setTimeout\(\s*[\"'`]": "text is never code",
    r"setAttribute\(\s*[\"']style|[{,] *style:": "the policy forbids inline style: give it a class",
    r"//(?!www\.w3\.org/2000/svg)[a-z0-9-]+\.[a-z]{2,}": "nothing comes from another origin",
    r"\bconsole\.(log|debug)\b": "nobody reads the browser's log",
}
FUNCTION = re.compile(
    r"^(?P<indent> *)(?:export )?(?:async )?(?:function \w+\(|(?:static |get |set )?#?\w+\([^;]*\) \{$)"
)


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.relative_to(STATIC).as_posix())
def test_files_are_short_and_written_by_hand(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MAX_FILE_LINES
    too_wide = [
        number for number, line in enumerate(lines, 1) if len(line) > MAX_COLUMNS and "noscript" not in line
    ]
    assert not too_wide
    assert not EMPTY_NAMES.search(file.stem.replace("-", "_"))


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_functions_are_short(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    wrong = [
        f"{number}: {length} lines" for number, length in functions(lines) if length > MAX_FUNCTION_LINES
    ]
    assert not wrong


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.relative_to(STATIC).as_posix())
def test_nothing_in_it_needs_what_the_policy_forbids(file: Path) -> None:
    wrong = [
        f"{number} {line.strip()!r}: {reason}"
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        for pattern, reason in FORBIDDEN.items()
        if re.search(pattern, line)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("file", sorted(STATIC.rglob("*.js")), ids=lambda f: f.relative_to(STATIC).as_posix())
def test_modules_say_what_they_are_for_and_import_what_is_there(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.startswith("/**")
    for name in re.findall(r'from "([^"]+)"', text):
        assert (file.parent / name).resolve() in SOURCES, name


def functions(lines: list[str]) -> list[tuple[int, int]]:
    """Where functions and methods begin, and how many lines they have: to the brace in their own column."""
    found = []
    for number, line in enumerate(lines):
        begun = FUNCTION.match(line)
        if begun is None or line.strip().startswith(("if ", "for ", "while ", "switch ")):
            continue
        closing = begun["indent"] + "}"
        end = next((at for at in range(number, len(lines)) if lines[at].startswith(closing)), len(lines))
        found.append((number + 1, end - number + 1))
    return found


def test_functions_are_measured_to_their_last_brace() -> None:
    text = "export function a(b) {\n  if (b) {\n  }\n}\n\nclass C {\n  #d() {\n    return 1;\n  }\n}"
    assert functions(text.splitlines()) == [(1, 4), (7, 3)]


def test_styles_name_colours_only_where_they_are_defined() -> None:
    for file in STATIC.rglob("*.css"):
        if file.name != "tokens.css":
            assert not re.findall(r"#[0-9a-fA-F]{3,8}\b", file.read_text(encoding="utf-8")), file.name


def test_measure_of_levels_is_without_gaps() -> None:
    """Headings of pages are h1, of their parts h2: no level is left out."""
    levels = {
        int(level)
        for file in STATIC.rglob("*.js")
        for level in re.findall(r'h\("h([1-6])"', file.read_text())
    }
    assert all(after - before == 1 for before, after in pairwise(sorted(levels)))
