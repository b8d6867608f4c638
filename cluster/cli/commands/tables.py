"""Rows as text tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click


def show(title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Print rows as a table of the `columns`, or complete rows as JSON."""
    click.echo(json.dumps(rows, indent=2) if as_json else table(title, columns, rows))


def table(title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """A text table with as many spaces as its widest cells need."""
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in [list(columns), *cells]) for i in range(len(columns))]
    lines = [f"{title} ({len(rows)})"]
    for line in [list(columns), *cells]:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        lines.append("  " + "  ".join(padded).rstrip())
    return "\n".join(lines if rows else lines[:1])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{key}:{_cell(part)}" for key, part in value.items()) or "-"
    if isinstance(value, list):
        return ",".join(_cell(part) for part in value) or "-"
    return "".join(character if character.isprintable() else "?" for character in str(value))
