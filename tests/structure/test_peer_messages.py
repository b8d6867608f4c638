"""Messages between nodes stand in one place: no part of the cluster makes up a tag of its own."""

from __future__ import annotations

import ast

from cluster.config.formats import FORMAT_LEVEL
from cluster.peers.registry import FAMILIES
from tests.structure.tree import Module, modules, nodes, violations

TAGS = "cluster/peers/tags.py"

OTHER_LETTERS = {"cluster/owner/failures.py": {b"l"}}
"""Types of AMQP 0-9-1's field tables."""


def strange_tags(module: Module) -> set[str]:
    """Letters of a module that belong into the table of tags, or that no family of messages has."""
    letters = {
        node.value
        for node in nodes(module)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, bytes)
        and len(node.value) == 1
        and node.value.isalpha()
    }
    known = (
        {family.tag for family in FAMILIES} if module.path == TAGS else OTHER_LETTERS.get(module.path, set())
    )
    return {f"{letter!r} belongs into {TAGS}" for letter in letters - known}


def test_no_letter_is_a_tag_outside_the_table_of_tags() -> None:
    assert violations(strange_tags, modules("cluster")) == []


def test_no_message_is_of_a_release_to_come() -> None:
    assert all(0 <= kind.since <= FORMAT_LEVEL for family in FAMILIES for kind in family.kinds)
