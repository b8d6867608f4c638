"""Other projects' repositories, which `make clients CHECKOUTS=directory` runs against the nodes."""

from __future__ import annotations

import os
from pathlib import Path


def checkout(project: str) -> Path | None:
    """The project's directory in the one that CHECKOUTS names; None where there is none."""
    named = os.environ.get("CHECKOUTS")
    directory = Path(named).absolute() / project if named else None
    return directory if directory is not None and directory.is_dir() else None


def required(project: str) -> Path:
    found = checkout(project)
    assert found is not None, f"no {project} in CHECKOUTS"
    return found
