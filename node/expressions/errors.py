"""The error of expressions."""

from __future__ import annotations


class ExpressionError(ValueError):
    """The expression does not parse, or is too large. `column` counts its characters from 1."""

    def __init__(self, reason: str, column: int) -> None:
        super().__init__(f"{reason} at column {column}")
        self.reason = reason
        self.column = column
