"""Options of sources: how wrong ones are refused."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


class OptionError(ValueError):
    """An option of a source, or its value, is wrong."""


def nearest(name: str, known: Sequence[str]) -> str:
    """The end of an error about a name that is not known: the nearest one that is, or all."""
    near = get_close_matches(name, known, 1, 0.5)
    return f"; {near[0]} is" if near else f"; these are: {', '.join(known)}"
