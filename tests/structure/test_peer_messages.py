"""Messages between nodes stand in one place: no part of the cluster makes up a tag of its own."""

from __future__ import annotations

import ast

import pytest

from cluster.config.formats import FORMAT_LEVEL
from cluster.peers.registry import FAMILIES
from tests.structure.tree import Module, modules

TAGS = "cluster/peers/tags.py"

OTHER_LETTERS = {"cluster/owner/failures.py": {b"l"}}
"""Types of AMQP 0-9-1's field tables."""


@pytest.mark.parametrize("module", modules("cluster"), ids=lambda module: module.path)
def test_no_letter_is_a_tag_outside_the_table_of_tags(module: Module) -> None:
    letters = {
        node.value
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, bytes)
        and len(node.value) == 1
        and node.value.isalpha()
    }
    if module.path == TAGS:
        assert letters < {family.tag for family in FAMILIES}
    else:
        assert letters <= OTHER_LETTERS.get(module.path, set()), f"{module.path}: {letters} belong in {TAGS}"


def test_no_message_is_of_a_release_to_come() -> None:
    assert all(0 <= kind.since <= FORMAT_LEVEL for family in FAMILIES for kind in family.kinds)
