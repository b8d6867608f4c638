"""Passwords in files, which the command lines and variables of other accounts do not show."""

from __future__ import annotations

from pathlib import Path

from cluster.cli.commands.errors import WrongUsageError


def first_line(path: Path) -> str:
    """The password in the file that `--password-file` names. Raises `WrongUsageError`."""
    try:
        return path.read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsageError(f"--password-file {path}: {error}") from None
