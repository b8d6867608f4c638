"""Where an exception that a client's session raises stops: it ends that session, and nothing around it."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType


class Containment:
    """`with` one of these: it is told of an exception, and the exception goes no further.

    The broker's turn calls sessions, and must not stop in the middle because of one of them.
    """

    @abstractmethod
    def failed(self, error: Exception) -> None:
        """Give back what it had. Raises nothing."""

    def __enter__(self) -> None:
        """Nothing has happened yet."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.failed(error)
        return True
