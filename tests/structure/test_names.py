"""Names say what a thing is, one name means one thing, and nothing unfinished stands in the tree."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.structure.sizes import measured
from tests.structure.tree import PRODUCT, ROOT, Module, functions, modules, nodes, violations

EMPTY_NAMES = re.compile(r"(?i)(^|_)(utils?|helpers?|managers?|common|misc|stuff)(_|$)")
EMPTY_CLASS = re.compile(r"(Utils?|Helpers?|Manager|Common)$")

FORBIDDEN = {
    r"\b(TODO|FIXME|XXX|HACK)\b": "finish it, or open an issue and leave no mark",
    r"pytest\.(skip|xfail|importorskip)|mark\.(skip|skipif|xfail)": "a test runs, or is not there",
    r"raise NotImplementedError": "no stubs",
    r"#\s*type:\s*ignore(?!\[)": "name the error that is ignored, and say why",
    r"/(home|root|Users)/": "no path of anybody's machine",
}

ENTRY_POINTS = {
    "FEATURE": "the declaration of a feature of queues, which the registry reads from each module",
    "endpoints": "the operations of a module of the management API, which the router collects",
}
"""Names that each module of a kind has: one meaning, defined in many modules."""

REGISTERING = re.compile(r"\.(command|group|on)\(")
"""Decorators that make a function a command or the handler of a path: no module imports it by name."""

GENERATED = ("node/wire/amqp091/methods.py", "node/wire/amqp10/definitions.py")
"""Tables made from a specification, whose names are its own."""

PROTOCOLS = re.compile(r"/amqp(091|10)/")
"""The folders of a protocol. A name in the folders of two protocols is the part that both have: their
machines are read side by side, and neither imports the other.
"""

REQUIREMENTS = ("", "-bench", "-bench-pipeline", "-build", "-clients", "-console", "-node", "-pipeline")
"""The parts of the names of locked files behind `requirements`."""

DUPLICATE_STATEMENTS = 5
"""Bodies of at least this many statements, equal but for their docstring, are one function too many."""


def empty_names(module: Module) -> Iterator[str]:
    """Names of the module and its classes that name nothing of the field."""
    if EMPTY_NAMES.search(module.name.rpartition(".")[2]):
        yield "name it for what it holds"
    for node in nodes(module):
        if isinstance(node, ast.ClassDef) and EMPTY_CLASS.search(node.name):
            yield f"{node.name} names nothing of the field"


def test_module_and_class_names_say_something() -> None:
    assert violations(empty_names, modules()) == []


def unfinished(module: Module) -> Iterator[str]:
    """Lines with a mark of unfinished work."""
    for pattern, reason in FORBIDDEN.items():
        for match in re.finditer(pattern, module.text):
            line = module.text.count("\n", 0, match.start()) + 1
            yield f"line {line} has {match[0]!r}: {reason}"


def test_nothing_is_left_unfinished() -> None:
    others = [module for module in modules() if module.path != "tests/structure/test_names.py"]
    assert violations(unfinished, others) == []


def public_names(module: Module) -> Iterator[str]:
    """The classes, functions, constants and types that a module defines for others, entry points aside."""
    for node in module.tree.body:
        names: list[str] = []
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if not any(REGISTERING.search(ast.unparse(one)) for one in node.decorator_list):
                names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        yield from (name for name in names if not name.startswith("_") and name not in ENTRY_POINTS)


def meanings(paths: list[str]) -> list[str]:
    """The places of a name, with one place for the modules of two protocols that both define the name."""
    folders = {path.rpartition("/")[0] for path in paths if PROTOCOLS.search(path)}
    if len(folders) == sum(1 for path in paths if PROTOCOLS.search(path)):
        return list(dict.fromkeys("a protocol" if PROTOCOLS.search(path) else path for path in paths))
    return paths


def test_a_public_name_means_one_thing() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules(*PRODUCT):
        if module.path not in GENERATED:
            for name in set(public_names(module)):
                places[name].append(module.path)
    doubled = {name: paths for name, paths in places.items() if len(meanings(paths)) > 1}
    assert not doubled, f"one name, two meanings: {doubled}"


def defined_names(module: Module) -> Iterator[str]:
    """The names that a module's statements define, private ones included, each as often as it is defined."""
    for node in module.tree.body:
        if (
            isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and not node.decorator_list
        ):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def doubled_names(module: Module) -> list[str]:
    return [name for name, times in Counter(defined_names(module)).items() if times > 1]


def test_no_module_defines_a_name_twice() -> None:
    """The later definition would count for the code above it, too."""
    assert violations(doubled_names, modules()) == []


def body_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    return node.body[1:] if ast.get_docstring(node) is not None else node.body


def test_no_function_is_written_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module in measured():
        for function in functions(module):
            body = body_of(function.node)
            if sum(isinstance(n, ast.stmt) for s in body for n in ast.walk(s)) >= DUPLICATE_STATEMENTS:
                dump = ast.dump(ast.Module(body, []))
                places[dump].append(f"{module.path}:{function.node.lineno} {function.name}")
    twice = [" = ".join(found) for found in places.values() if len(found) > 1]
    assert not twice, "\n".join(twice)


def halves() -> list[str]:
    """The classes that only one other class derives from, and of which nothing makes an instance: one class
    in two files. Interfaces are left out.
    """
    derived: dict[str, list[str]] = defaultdict(list)
    classes: dict[str, str] = {}
    made: set[str] = set()
    for module in modules(*PRODUCT):
        for node in nodes(module):
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
                if not {"Protocol", "ABC"} & set(bases) and "@abstractmethod" not in ast.unparse(node):
                    classes[node.name] = module.path
                for base in bases:
                    derived[base].append(node.name)
            elif isinstance(node, ast.Call):
                made.add(ast.unparse(node.func).rpartition(".")[2])
    return [
        f"{classes[base]}: {base} is a half of {only[0]}"
        for base, only in derived.items()
        if base in classes and len(only) == 1 and base not in made
    ]


def test_no_class_is_cut_in_two_by_inheritance() -> None:
    assert not halves()


def test_locked_requirements_name_no_place_to_fetch_from() -> None:
    for name in (f"requirements{part}.txt" for part in REQUIREMENTS):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"https?://|file:|--(extra-)?index-url|--find-links", text), name
        pinned = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
        assert pinned and all("==" in line for line in pinned)
        assert text.count("--hash=sha256:") >= len(pinned)


def test_tests_of_processes_have_names_of_their_own() -> None:
    """Many of them share a cluster, and call their queues by the name of the test."""
    found = Counter(
        node.name
        for path in (ROOT / "tests" / "processes").glob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )
    assert [name for name, count in found.items() if count > 1] == []
