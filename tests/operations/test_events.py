"""Every event that is logged anywhere has an entry in the catalogue, and no entry is without an event."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from cluster.cli.main import main
from cluster.log.events import EVENTS, find
from tests.structure.tree import ROOT

LEVELS = {"debug", "info", "warning", "error", "log", "LogEffect"}


def logged() -> Iterator[str]:
    """The first arguments of calls that log, in the whole tree."""
    for folder in ("cluster", "node", "replication"):
        for file in (ROOT / folder).rglob("*.py"):
            for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(call, ast.Call) and call.args and _logs(call.func):
                    first = call.args[0]
                    if isinstance(first, ast.Constant) and isinstance(first.value, str):
                        yield first.value


def _logs(called: ast.expr) -> bool:
    """Whether this is `….log.info`, `log.info`, `….log`, or the effect `LogEffect`."""
    if isinstance(called, ast.Name):
        return called.id == "LogEffect"
    if not isinstance(called, ast.Attribute) or called.attr not in LEVELS:
        return False
    return called.attr == "log" or ast.unparse(called.value).rpartition(".")[2].lower().startswith(
        ("log", "eventlog")
    )


def test_every_logged_event_is_explained() -> None:
    names = set(logged())
    assert len(names) > 20
    assert names == {event.name for event in EVENTS} - {"message"}


def test_codes_are_one_events_each() -> None:
    codes = [event.code for event in EVENTS]
    assert len({*codes}) == len(codes) == len({event.name for event in EVENTS})
    assert all(re.fullmatch(r"Q[1-9]\d\d", code) for code in codes)
    assert codes == sorted(codes)


@pytest.mark.parametrize("word", ["Q105", "q105", "journal_failed"])
def test_an_event_is_explained_by_code_or_name(word: str) -> None:
    done = CliRunner().invoke(main, ["logs", "explain", word])
    assert done.exit_code == 0
    assert done.output.startswith("Q105 journal_failed\n")
    assert "What to do: Repair the disk" in done.output
    assert find(word) is not None


def test_what_no_event_has_is_wrong_usage() -> None:
    done = CliRunner().invoke(main, ["logs", "explain", "Q000"])
    assert done.exit_code == 2
    assert "quorate logs list" in done.output


def test_all_events_are_listed() -> None:
    done = CliRunner().invoke(main, ["logs", "list"])
    assert len(done.output.splitlines()) == len(EVENTS)
