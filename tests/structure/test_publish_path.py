"""ARCHITECTURE.md is the page on which a newcomer follows a publish: every module on the way stands there."""

from __future__ import annotations

import re

from tests.structure.publish_path import publish_passes
from tests.structure.tree import ROOT


def named_on_the_page() -> list[str]:
    """The modules under the steps of a publish: folders, each with its modules."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.split("## A publish\n")[1].split("\n## ")[0]
    folders = re.findall(r"`((?:\w+/)+)`\s+((?:\w+,\s+)*\w+)", section)
    return [f"{folder}{name}.py" for folder, names in folders for name in re.split(r",\s+", names)]


def test_the_page_names_each_module_that_a_publish_passes_once() -> None:
    assert sorted(named_on_the_page()) == sorted(publish_passes())
