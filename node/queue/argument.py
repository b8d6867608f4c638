"""How a feature of queues declares what it is asked for with: a queue argument, and the key of policies."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

from node.queue.settings import QueueSettings

T = TypeVar("T")


class PolicyUse(Enum):
    """Whether policies may say what the argument says, under its name without `x-`."""

    NONE = 0
    """They may not."""

    USER = 1
    """They may; an argument counts more."""

    OPERATOR = 2
    """Operator policies may as well, and count more than both."""

    LIMIT = 3
    """So may operator policies; where several say something, the lowest value counts."""


class Argument(Generic[T]):
    """A queue argument: its name, how its value is read, and the field of QueueSettings that it fills.

    `read` raises UnacceptableError; None from it stands for nothing asked for, and so does `default`. Without
    a field the argument is checked, and has no effect. `needs` names an argument without which this one is
    refused, for the reason behind it.
    """

    __slots__ = ("default", "field", "name", "needs", "policy", "read")

    def __init__(
        self,
        name: str,
        read: Callable[[object], T | None],
        field: str = "",
        *,
        policy: PolicyUse = PolicyUse.NONE,
        default: T | None = None,
        needs: tuple[str, str] | None = None,
    ) -> None:
        self.name = name
        self.read = read
        self.field = field
        self.policy = policy
        self.default = default
        self.needs = needs

    def of(self, settings: QueueSettings) -> T | None:
        """What is asked of a queue, else the default."""
        found: T | None = settings.asked.get(self.field, self.default)
        return found
