"""A feature of queues is a file: its arguments are named there, and no module but the registry names it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from importlib import import_module

from node.queue.features.registry import FEATURES
from tests.structure.tree import PRODUCT, Module, imports, modules, nodes

PACKAGE = "node.queue.features"
MECHANISM = {f"{PACKAGE}.{name}" for name in ("arguments", "registry")}


def product() -> tuple[Module, ...]:
    return modules(*PRODUCT)


def feature_modules() -> dict[str, Module]:
    """The modules of features by name."""
    return {
        module.name: module
        for module in product()
        if module.name.startswith(f"{PACKAGE}.") and module.name not in MECHANISM
    }


def test_an_argument_is_declared_in_one_module() -> None:
    declaring: dict[object, list[str]] = defaultdict(list)
    for module in product():
        for node in nodes(module):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Argument" and node.args:
                name = node.args[0]
                declaring[name.value if isinstance(name, ast.Constant) else None].append(module.path)
    for argument in (one.name for feature in FEATURES for one in feature.arguments):
        (path,) = declaring[argument]
        assert path.startswith("node/queue/features/")


def test_every_feature_is_registered_once() -> None:
    assert len(set(FEATURES)) == len(FEATURES)
    declared = {id(import_module(name).FEATURE) for name in feature_modules()}
    assert {id(feature) for feature in FEATURES} == declared


def test_the_small_feature_is_one_module_and_its_registration() -> None:
    naming = {module.path for module in product() if re.search(r"(?i)max.unsettled", module.text)}
    assert naming == {"node/queue/features/max_unsettled.py", "node/queue/features/registry.py"}


def test_only_the_registry_names_features() -> None:
    """Others know features by hooks, rules and descriptions alone; so do features of each other."""
    naming = [
        f"{module.path}: {name}"
        for module in product()
        for _, name in imports(module)
        for feature in feature_modules()
        if module.name not in (feature, f"{PACKAGE}.registry")
        and (name == feature or name.startswith(f"{feature}."))
    ]
    assert not naming


def test_no_order_is_told_from_another_by_its_class() -> None:
    orders = {"ReadyByAge", "ReadyByPriority", "ReadyByGroup", "Order"}
    asked = [
        f"{module.path}: {ast.unparse(node)}"
        for module in product()
        for node in nodes(module)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
        if any(isinstance(one, ast.Name) and one.id in orders for one in ast.walk(node.args[1]))
    ]
    assert not asked
