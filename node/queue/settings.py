"""What a queue's declared arguments ask for (A24, X1 to X3), as a value; `arguments` reads them."""

from __future__ import annotations

from typing import Any, Final

from node.queue.operations import Semantics


class QueueSettings:
    """What is asked of a queue, by the fields of the arguments that `features.registry` lists.

    `asked` has no value for what was not asked for. Times are in milliseconds, lengths in octets. A feature
    reads its own values with `Argument.of`. The values never change.
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
        """Whether messages are removed before they are delivered."""
        return self.semantics is Semantics.AT_MOST_ONCE

    def by(self, semantics: Semantics) -> QueueSettings:
        """The same of a queue with these semantics."""
        return QueueSettings(semantics, **self.asked)

    def shared(self) -> QueueSettings:
        """PLAIN itself where nothing was asked for, so that `is` tells."""
        return PLAIN if self == PLAIN else self


PLAIN: Final = QueueSettings()
"""The settings of a queue without special arguments."""
