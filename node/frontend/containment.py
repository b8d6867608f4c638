"""Where an exception that a client's session raises stops: it ends that session, and nothing around it."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol


class Containable(Protocol):
    """What may fail by itself."""

    def failed(self, error: Exception) -> None:
        """Give back what it had. Raises nothing."""


class Containment:
    """`with` one of these: an exception is told to what it surrounds, and goes no further.

    The broker's turn calls sessions, and must not stop in the middle because of one of them.
    """

    __slots__ = ("_contained",)

    def __init__(self, contained: Containable) -> None:
        self._contained = contained

    def __enter__(self) -> None:
        """Nothing has happened yet."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self._contained.failed(error)
        return True
