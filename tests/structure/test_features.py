"""A feature of queues is a file: its arguments are named there and nowhere else.

`SPREAD` lists the features that modules outside of their file still name, with those modules. It may only
shrink.
"""

from __future__ import annotations

import ast
import re

import pytest

from node.queue.features.registry import FEATURES
from tests.structure.tree import PRODUCT, Module, imports, modules

PACKAGE = "node.queue.features"
MECHANISM = {f"{PACKAGE}.{name}" for name in ("argument", "feature", "fifo", "hooks", "registry")}

SPREAD: dict[str, set[str]] = {
    "dead_letters": {
        "cluster/owner/dead_letter_routing.py",
        "cluster/owner/dead_letters.py",
        "cluster/owner/giving_up.py",
    },
    "deduplication": {"cluster/owner/duplicates.py", "cluster/owner/refusing.py"},
    "expires": {"cluster/owner/configuring.py", "cluster/owner/partition.py"},
    "group": {"cluster/gateway/broker_port.py", "cluster/owner/decisions.py"},
    "group_key": {"cluster/owner/decisions.py"},
    "limits": {
        "cluster/owner/decisions.py",
        "cluster/owner/intake.py",
        "cluster/owner/refusing.py",
        "cluster/owner/two_phase_commit.py",
    },
    "priority": {"cluster/owner/decisions.py"},
    "single_active": {"cluster/gateway/broker_port.py"},
    "ttl": {"cluster/owner/decisions.py"},
}
"""By feature: the modules outside of its own that import it."""

NAMELESS = {
    "node/queue/delivery_state.py", "node/queue/dispatch.py", "node/queue/life.py", "node/queue/order.py",
    "node/queue/partition.py",
    "node/queue/places.py", "node/queue/queue.py", "node/queue/settings.py", "cluster/owner/serving.py",
    "cluster/owner/upkeep.py", "cluster/owner/sessions.py", "node/queue/arguments.py",
    "node/queue/annotations.py", "cluster/catalog/policy_settings.py", "cluster/owner/browsing.py",
}  # fmt: skip
"""Modules that know features by their hooks alone."""


def product() -> tuple[Module, ...]:
    return modules(*PRODUCT)


def feature_modules() -> dict[str, Module]:
    """The modules of features by name."""
    return {
        module.name: module
        for module in product()
        if module.name.startswith(f"{PACKAGE}.") and module.name not in MECHANISM
    }


def spread() -> dict[str, set[str]]:
    """The modules outside of the features that import each."""
    found: dict[str, set[str]] = {}
    for module in product():
        if not module.name.startswith(f"{PACKAGE}."):
            for _, name in imports(module):
                for feature in feature_modules():
                    if name == feature or name.startswith(f"{feature}."):
                        found.setdefault(feature.rpartition(".")[2], set()).add(module.path)
    return found


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
    registered = {feature.arguments[0].name for feature in FEATURES}
    assert len(registered) == len(FEATURES)


def test_the_small_feature_is_one_module_and_its_registration() -> None:
    naming = {module.path for module in product() if re.search(r"(?i)max.unsettled", module.text)}
    assert naming == {"node/queue/features/max_unsettled.py", "node/queue/features/registry.py"}


@pytest.mark.parametrize("path", sorted(NAMELESS))
def test_dispatching_and_state_name_no_feature(path: str) -> None:
    assert not [feature for feature, paths in spread().items() if path in paths]


def test_features_are_named_by_no_more_modules_than_before() -> None:
    assert spread() == SPREAD, "a feature that is spread out may only be gathered"


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
