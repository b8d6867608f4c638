"""Callables are given when an object is made, and no exception is lost.

Work that is begun is awaited, or has its result taken (docs/decisions/0016).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.structure.tree import PRODUCT, Module, functions, modules, nodes, violations

BEGINNING = {"create_task", "ensure_future", "run_in_executor", "run_coroutine_threadsafe"}
HANDLER = "set_exception_handler"

AWAITED = {
    ("cluster/process/founding.py", "_hashed"),
    ("cluster/cli/local/supervisor.py", "run"),
    ("cluster/cli/local/supervisor.py", "_keep_running"),
    ("cluster/admin/api/writing.py", "_list"),
    ("cluster/admin/http/websocket.py", "run"),
    ("cluster/process/run.py", "_serve"),
}
"""Functions that await what they begin, or take its exception, before they return."""


def calls(tree: ast.AST, names: set[str]) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        yield from own_call(node, names)


def own_call(node: ast.AST, names: set[str]) -> list[ast.Call]:
    """The node, if it calls a method of one of these names."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
        return [node]
    return []


def begun_and_lost(module: Module) -> Iterator[str]:
    """Functions that begin more than they take the result of."""
    for function in nodes(module):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        begun = len(list(calls(function, BEGINNING)))
        taken = len(list(calls(function, {"add_done_callback"})))
        if begun > taken and (module.path, function.name) not in AWAITED:
            yield f"{function.name} begins work whose result it does not take"


def test_the_result_of_what_is_begun_is_taken() -> None:
    assert violations(begun_and_lost, modules(*PRODUCT)) == []


def callbacks_without_a_result(module: Module) -> Iterator[str]:
    """Callbacks of tasks that take no result."""
    added = [call for node in nodes(module) for call in own_call(node, {"add_done_callback"})]
    functions = {one.name: one for one in nodes(module) if isinstance(one, ast.FunctionDef)} if added else {}
    for call in added:
        named = {
            node.attr if isinstance(node, ast.Attribute) else node.id
            for node in ast.walk(call.args[0])
            if isinstance(node, ast.Attribute | ast.Name)
        }
        taking = [functions[name] for name in named & functions.keys()]
        if not any(any(calls(function, {"result", "exception"})) for function in taking):
            yield f"{ast.unparse(call)} takes no result"


def test_what_takes_a_result_of_a_task_lets_its_exception_reach_the_event_loop() -> None:
    """`set.discard` as the callback would let the exception wait for the garbage collector."""
    assert violations(callbacks_without_a_result, modules(*PRODUCT)) == []


def test_one_place_hears_of_what_nothing_catches() -> None:
    found = [
        module.path
        for module in modules(*PRODUCT)
        if any(own_call(node, {HANDLER}) for node in nodes(module))
    ]
    assert found == ["cluster/process/fail_stop.py"]


# -- hooks --------------------------------------------------------------------------------------


def methods() -> set[str]:
    """The names of all functions and methods of the product that are no other attribute's name as well."""
    found, values = set[str](), set[str]()
    for module in modules(*PRODUCT):
        for function in functions(module):
            decorators = {ast.unparse(each) for each in function.node.decorator_list}
            (values if "property" in decorators else found).add(function.node.name)
        for node in nodes(module):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                values.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                values.add(node.target.id)
    return found - values


def hooks() -> set[str]:
    """The names of attributes that are declared to be callables, and nothing else anywhere."""
    declared: dict[bool, set[str]] = {True: set(), False: set()}
    for module in modules(*PRODUCT):
        for node in nodes(module):
            if isinstance(node, ast.AnnAssign):
                name = ast.unparse(node.target).rpartition(".")[2]
                declared[ast.unparse(node.annotation).startswith("Callable[")].add(name)
    return declared[True] - declared[False]


def is_function(value: ast.expr, known: set[str]) -> bool:
    """Whether an expression is a lambda, a function, a bound method, or a partial of one."""
    match value:
        case ast.Lambda():
            return True
        case ast.Call(func=ast.Name(id="partial")):
            return True
        case ast.Attribute(attr=name):
            return name in known
        case ast.Name(id=name):
            return name in known
    return False


def assigned(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target of an assignment with the value that it is given."""
    for node in (each for each in ast.walk(tree) if isinstance(each, ast.Assign)):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from zip(target.elts, node.value.elts, strict=True)
            else:
                yield target, node.value


def patched(tree: ast.AST, known: set[str], declared: set[str]) -> Iterator[str]:
    """Attributes of other objects than `self` to which functions are assigned."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if ast.unparse(call.func) == "setattr" and ast.unparse(call.args[0]) != "self":
            yield ast.unparse(call)
    for target, value in assigned(tree):
        if not isinstance(target, ast.Attribute) or ast.unparse(target.value) in ("self", "cls"):
            continue
        if isinstance(value, ast.Constant):
            continue
        if target.attr in declared or is_function(value, known):
            yield ast.unparse(target)


def test_no_hook_is_patched_in_after_an_object_is_made() -> None:
    known, declared = methods(), hooks()
    found = {
        (module.path, hook) for module in modules(*PRODUCT) for hook in patched(module.tree, known, declared)
    }
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        "other.told = lambda: None",
        "other.told = self.hear",
        "other.told = hear",
        "self.other.told = partial(hear, 1)",
        "other.told, x = hear, 1",
        "other.on_change = given",
        "setattr(other, 'told', given)",
    ],
)
def test_a_hook_that_is_patched_in_is_found(source: str) -> None:
    assert list(patched(ast.parse(source), {"hear"}, {"on_change"}))


@pytest.mark.parametrize("source", ["self.told = hear", "other.count = count", "other.name = self.name"])
def test_other_assignments_patch_nothing_in(source: str) -> None:
    assert not list(patched(ast.parse(source), {"hear"}, {"on_change"}))
