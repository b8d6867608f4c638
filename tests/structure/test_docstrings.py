"""A public function that raises says so: callers cannot see it from the function's name and types."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.structure.tree import PRODUCT, Module, modules

DEFECTS = frozenset({"AssertionError", "InvariantError"})
"""No caller handles these: they tell of a defect of the program."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_functions(node: ast.AST) -> Iterator[Function]:
    """The functions and methods with public names. Decorated ones are commands and endpoints, whose errors
    are answers to users, or properties, whose errors would surprise.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from public_functions(child)
        elif isinstance(child, Function) and not child.name.startswith("_"):
            decorated = any(isinstance(one, ast.Call) for one in child.decorator_list)
            yield from () if decorated else (child,)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's body, without those of functions within."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.Lambda):
            yield child
            yield from statements(child)


def raised_by(function: Function) -> set[str]:
    """The names of the exceptions that the function raises itself and does not catch."""
    raised, caught = set[str](), set[str]()
    for one in statements(function):
        if isinstance(one, ast.Raise) and one.exc is not None:
            error = one.exc.func if isinstance(one.exc, ast.Call) else one.exc
            name = error.attr if isinstance(error, ast.Attribute) else getattr(error, "id", "")
            # A name in lower case is that of a variable, or of a function that makes the exception.
            raised |= {name} if name[:1].isupper() else set()
        elif isinstance(one, ast.ExceptHandler) and one.type is not None:
            caught |= {each.id for each in ast.walk(one.type) if isinstance(each, ast.Name)}
    return raised - caught - DEFECTS


def untold(module: Module) -> Iterator[str]:
    for function in public_functions(module.tree):
        raised = raised_by(function)
        told = ast.get_docstring(function) or ""
        if raised and "raises" not in told.lower():
            yield f"{module.path}:{function.lineno} {function.name} raises {', '.join(sorted(raised))}"


def test_docstrings_tell_of_the_exceptions_that_functions_raise() -> None:
    assert [line for module in modules(*PRODUCT, "pipeline", "chaos") for line in untold(module)] == []


def test_the_test_finds_an_untold_exception() -> None:
    text = 'def take():\n    """Take."""\n    raise ValueError("no")\n'
    (function,) = public_functions(ast.parse(text))
    assert raised_by(function) == {"ValueError"}
