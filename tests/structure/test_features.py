"""A feature of queues is a file: its arguments are named there, and no module but the registry names it."""

from __future__ import annotations

import ast
import re
from importlib import import_module

import pytest

from node.queue.features.registry import FEATURES
from tests.structure.tree import PRODUCT, Module, imports, modules

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


@pytest.mark.parametrize("argument", [one.name for feature in FEATURES for one in feature.arguments])
def test_an_argument_is_declared_in_one_module(argument: str) -> None:
    declaring = [
        module.path
        for module in product()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "Argument"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == argument
    ]
    assert len(declaring) == 1
    assert declaring[0].startswith("node/queue/features/")


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
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
        if any(isinstance(one, ast.Name) and one.id in orders for one in ast.walk(node.args[1]))
    ]
    assert not asked
