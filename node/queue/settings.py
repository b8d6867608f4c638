"""The settings of a queue, by its arguments and policies (A24, X1 to X3). `features.arguments` reads them."""

from __future__ import annotations

from typing import Any, Final

from node.queue.operations import Semantics


class QueueSettings:
    """The values of a queue's arguments, by their fields (`Argument.field`). Immutable.

    `asked` has only the values that differ from the default. Times are in milliseconds, sizes in octets. A
    feature reads its own values with `Argument.of`.
    """

    __slots__ = ("asked", "semantics")

    def __init__(self, semantics: Semantics = Semantics.AT_LEAST_ONCE, **asked: Any) -> None:
        self.semantics = semantics
        self.asked: dict[str, Any] = asked

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QueueSettings):
            return NotImplemented
        return self.semantics is other.semantics and self.asked == other.asked

    def __hash__(self) -> int:
        return hash((self.semantics, *sorted(self.asked)))

    def __repr__(self) -> str:
        asked = "".join(f", {field}={value!r}" for field, value in self.asked.items())
        return f"QueueSettings({self.semantics!r}{asked})"

    @property
    def at_most_once(self) -> bool:
        """Whether the queue removes messages before it delivers them."""
        return self.semantics is Semantics.AT_MOST_ONCE

    def by(self, semantics: Semantics) -> QueueSettings:
        """The same settings with these semantics."""
        return QueueSettings(semantics, **self.asked)

    def shared(self) -> QueueSettings:
        """PLAIN itself where these settings equal it, so that callers may compare with `is`."""
        return PLAIN if self == PLAIN else self


PLAIN: Final = QueueSettings()
"""The settings of a queue without special arguments."""
