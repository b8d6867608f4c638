"""Pages that are made from the code say what the code says now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import generate_configuration, generate_logs_page, generate_peers_page

PAGES = {
    "scripts/generate_configuration.py": (generate_configuration.OUTPUT, generate_configuration.document),
    "scripts/generate_logs_page.py": (generate_logs_page.OUTPUT, generate_logs_page.document),
    "scripts/generate_peers_page.py": (generate_peers_page.OUTPUT, generate_peers_page.document),
}


@pytest.mark.parametrize(("script", "page", "document"), [(name, *pair) for name, pair in PAGES.items()])
def test_a_page_is_current(script: str, page: Path, document: Callable[[], str]) -> None:
    assert page.read_text(encoding="utf-8") == document(), f"run {script}"
