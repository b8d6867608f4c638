"""No exception is lost: what is begun is awaited, or has its result taken (docs/decisions/0016)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.structure.tree import Module, modules

BEGINNING = {"create_task", "ensure_future", "run_in_executor", "run_coroutine_threadsafe"}
HANDLER = "set_exception_handler"

AWAITED = {
    ("cluster/process/founding.py", "_hashed"),
    ("cluster/cli/local/supervisor.py", "run"),
    ("cluster/cli/local/supervisor.py", "_keep_running"),
    ("cluster/admin/api/writing.py", "_list"),
    ("cluster/process/run.py", "_serve"),
}
"""Functions that await what they begin, or take its exception, before they return."""


def calls(tree: ast.AST, names: set[str]) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
            yield node


@pytest.mark.parametrize("module", modules("cluster", "node", "replication"), ids=lambda module: module.path)
def test_the_result_of_what_is_begun_is_taken(module: Module) -> None:
    lost = []
    for function in ast.walk(module.tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        begun = len(list(calls(function, BEGINNING)))
        taken = len(list(calls(function, {"add_done_callback"})))
        if begun > taken and (module.path, function.name) not in AWAITED:
            lost.append(f"{module.path}: {function.name} begins what nobody takes the result of")
    assert not lost, "\n".join(lost)


@pytest.mark.parametrize("module", modules("cluster", "node", "replication"), ids=lambda module: module.path)
def test_what_takes_a_result_of_a_task_lets_its_exception_reach_the_event_loop(module: Module) -> None:
    """`set.discard` as the callback would let the exception wait for the garbage collector."""
    functions = {node.name: node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef)}
    for call in calls(module.tree, {"add_done_callback"}):
        named = {
            node.attr if isinstance(node, ast.Attribute) else node.id
            for node in ast.walk(call.args[0])
            if isinstance(node, ast.Attribute | ast.Name)
        }
        taking = [functions[name] for name in named & functions.keys()]
        assert any(any(calls(function, {"result", "exception"})) for function in taking), (
            f"{module.path}: {ast.unparse(call)} takes no result"
        )


def test_one_place_hears_of_what_nothing_catches() -> None:
    found = [
        module.path
        for module in modules("cluster", "node", "replication")
        if any(calls(module.tree, {HANDLER}))
    ]
    assert found == ["cluster/process/fail_stop.py"]
