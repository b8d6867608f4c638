"""Texts that may be no UTF-8."""

from __future__ import annotations


def shown_text(octets: bytes) -> str:
    """Octets as text; those that are no UTF-8 with backslashes."""
    return octets.decode("utf-8", "backslashreplace")
