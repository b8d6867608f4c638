"""The modules that setup.py compiles exist, and can be compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import mypyc
import pytest

from tests.structure.tree import ROOT, Module, module_of, nodes, violations


def literals() -> dict[str, Any]:
    """The plain values that setup.py defines."""
    values = {}
    for node in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            values[node.targets[0].id] = ast.literal_eval(node.value)
    return values


SETUP = literals()
ROOTS = [ROOT / name for name in SETUP["COMPILED"]]
FILES = sorted(path for root in ROOTS for path in (root.rglob("*.py") if root.is_dir() else [root]))


@cache
def modules() -> list[Module]:
    """The modules that setup.py compiles. Other tests import this file, and need not wait for them."""
    return [module_of(file) for file in FILES]


HOT = {
    "node/message/run.py": {"Run"},
    "node/queue/operations.py": {"Publish", "Applied"},
    "node/queue/settled.py": {"Settled"},
    "node/wire/amqp091/effects.py": {"PublishEffect", "SettleEffect", "Credit"},
    "node/wire/amqp10/effects.py": {"PublishEffect", "SettleEffect", "Credit"},
    "node/wire/amqp10/incoming.py": {"DispositionDue"},
    "node/wire/amqp10/incoming_batch.py": {"Batch"},
    "node/wire/amqp10/messages.py": {"MessageFacts"},
    "node/wire/amqp10/transfer_rows.py": {"TransferRow", "TransferShape"},
    "node/wire/amqp10/definitions.py": {"Transfer", "Disposition", "Flow"},
    "node/wire/amqp10/frames.py": {"Frame"},
    "node/wire/amqp10/sections.py": {"Sections"},
    "node/delivery/unsettled.py": {"DeliveryRun"},
    "cluster/peers/link_messages.py": {"Delivery"},
    "cluster/gateway/state.py": {"Confirmation", "OperationBatch"},
    "cluster/owner/serving.py": {"Handout"},
    "replication/raft/ready.py": {"Ready"},
    "replication/raft/types.py": {"Entry", "HardState"},
    "replication/raft/messages.py": {"AppendRequest", "AppendResponse", "CommitNotice"},
    "replication/journal/stage.py": {"StagedRecord", "Staged"},
    "replication/journal/batch.py": {"WriteBatch"},
    "replication/transport/envelope.py": {"Envelope"},
}
"""The classes of objects that are made for each message or batch."""


def for_the_checker_alone(module: ast.Module) -> set[str]:
    """The names that are imported where TYPE_CHECKING is true."""
    guarded = [
        node for node in module.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {
        name.asname or name.name
        for block in guarded
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }


def is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def looked_up(annotation: ast.expr) -> str:
    """The part of an annotation that is looked up: what is in a container, or one of several, is not."""
    return ast.unparse(annotation.value if isinstance(annotation, ast.Subscript) else annotation)


def classes(module: Module) -> list[ast.ClassDef]:
    return [
        node
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
        and not {"Enum", "IntEnum", "IntFlag", "StrEnum"} & set(map(ast.unparse, node.bases))
    ]


def test_what_stays_interpreted_is_among_the_rest() -> None:
    assert {ROOT / name for name in SETUP["INTERPRETED"]} < set(FILES)


def fields_without_a_type(module: Module) -> list[str]:
    missing = for_the_checker_alone(module.tree)
    fields = [
        field
        for node in classes(module)
        if is_dataclass(node)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
    ]
    return [ast.unparse(field) for field in fields if looked_up(field.annotation) in missing]


def test_modules_that_run_often_are_among_the_compiled_ones() -> None:
    often = {f"{package}/{name}.py" for package, names in SETUP["OFTEN"].items() for name in names.split()}
    compiled = {str(path.relative_to(ROOT)) for path in FILES} - set(SETUP["INTERPRETED"])
    assert often < compiled


def test_the_types_of_fields_are_there_when_the_class_is_made() -> None:
    """Compiled, a dataclass looks the types of its fields up, and the process dies of one that is missing."""
    assert violations(fields_without_a_type, modules()) == []


def constants(module: Module) -> list[str]:
    return [
        f"{node.name}: {ast.unparse(line)}"
        for node in classes(module)
        for line in node.body
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]).isupper()
    ]


def test_constants_of_classes_are_final() -> None:
    """Compiled, any other value of a class is the default of its objects, and the class itself has none."""
    assert violations(constants, modules()) == []


def unnamed_arguments(module: Module) -> list[str]:
    calls = [
        node
        for node in nodes(module)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "super()"
    ]
    return [
        ast.unparse(call)
        for call in calls
        if any(isinstance(one, ast.Starred) for one in call.args)
        or any(one.arg is None for one in call.keywords)
    ]


def test_arguments_of_inherited_methods_are_named() -> None:
    """Compiled, what `super().method(*some, **others)` gives to the method is a tuple and a dictionary."""
    assert violations(unnamed_arguments, modules()) == []


def changing_bounds(module: Module) -> set[str]:
    slices = [
        node
        for node in nodes(module)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)
    ]
    called = [
        ast.unparse(call.func) for one in slices for call in ast.walk(one.slice) if isinstance(call, ast.Call)
    ]
    return set(called) - {"len", "min", "max", "found.end"}


def test_no_bound_of_a_slice_has_a_call_that_changes_something() -> None:
    """Compiled, what stands in the bounds of a slice is evaluated twice."""
    assert violations(changing_bounds, modules()) == []


@pytest.mark.parametrize("path", HOT)
def test_what_is_made_for_each_batch_writes_its_constructor_out(path: str) -> None:
    """A dataclass's own stays interpreted, and takes ten to forty times as long (docs/decisions/0013)."""
    written = {
        one.name
        for one in classes(module_of(ROOT / path))
        if any(isinstance(part, ast.FunctionDef) and part.name == "__init__" for part in one.body)
        and not any("frozen" in ast.unparse(decorator) for decorator in one.decorator_list)
    }
    assert HOT[path] <= written


def exceptions_of_two_types(module: Module) -> Iterator[str]:
    for function in nodes(module):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            types: dict[str, set[str]] = {}
            for clause in ast.walk(function):
                if isinstance(clause, ast.ExceptHandler) and clause.name and clause.type is not None:
                    types.setdefault(clause.name, set()).add(ast.unparse(clause.type))
            yield from (f"{function.name}: {name}" for name, found in types.items() if len(found) > 1)


def test_a_name_for_exceptions_has_one_type() -> None:
    """Compiled, a name has the type of its first clause: another exception under this name is a TypeError."""
    assert violations(exceptions_of_two_types, modules()) == []


def test_only_shims_are_written_without_the_headers_of_python() -> None:
    """mypyc's runtime calls what shims call, and does not compile without them."""
    runtime = Path(mypyc.__file__).parent / "lib-rt"
    shim = (runtime / "module_shim.tmpl").read_text(encoding="utf-8")
    assert shim.startswith(SETUP["START_OF_SHIM"])
    assert shim.count(SETUP["END_OF_SHIM"]) == 1
    starts = [file.read_text(encoding="utf-8")[: len(SETUP["START_OF_SHIM"])] for file in runtime.glob("*.c")]
    assert len(starts) > 10
    assert SETUP["START_OF_SHIM"] not in starts
