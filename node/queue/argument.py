"""Declares a queue argument of a feature, and the key of policies that sets the same value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Generic, TypeVar

from node.queue.settings import QueueSettings

T = TypeVar("T")


class PolicyUse(Enum):
    """Which policies may set the argument's value, under its name without `x-`."""

    NONE = 0
    """No policies."""

    USER = 1
    """Policies; an argument has precedence."""

    OPERATOR = 2
    """Policies and operator policies. An argument has precedence over both, an operator policy over a
    policy.
    """

    LIMIT = 3
    """Policies and operator policies; the lowest of all values counts."""


def beside_none_of(argument: str, others: Sequence[str]) -> Callable[[object, Mapping[str, object]], str]:
    """The `misfit` of an argument that no queue has beside any of the others."""

    def misfit(_: object, arguments: Mapping[str, object]) -> str:
        clash = next((name for name in others if name in arguments), "")
        return f"no queue has both {argument} and {clash}" if clash else ""

    return misfit


class Argument(Generic[T]):
    """A queue argument: its name, the function that reads its value, and its field in QueueSettings.

    `read` raises UnacceptableError. Where it returns None or `default`, the settings have no value. An
    argument without a field is checked, and has no effect. `needs` is (name, reason): this argument is
    refused, for the reason, without the argument of that name. `misfit` gives the reason for which a value
    is refused beside the others of a declaration, which it gets by name; empty for none.
    """

    __slots__ = ("default", "field", "misfit", "name", "needs", "policy", "read")

    def __init__(
        self,
        name: str,
        read: Callable[[object], T | None],
        field: str = "",
        *,
        policy: PolicyUse = PolicyUse.NONE,
        default: T | None = None,
        needs: tuple[str, str] | None = None,
        misfit: Callable[[T, Mapping[str, object]], str] | None = None,
    ) -> None:
        self.name = name
        self.read = read
        self.field = field
        self.policy = policy
        self.default = default
        self.needs = needs
        self.misfit = misfit

    def of(self, settings: QueueSettings) -> T | None:
        """The argument's value in a queue's settings, or the default."""
        found: T | None = settings.asked.get(self.field, self.default)
        return found
