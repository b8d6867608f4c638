"""Consistent cuts through the logs of all partitions that the catalog keeps under names, as barriers
(requirement X9), for readers that begin or end there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from node.refusal import NotFoundError, PreconditionFailedError

MOST_KEPT_CUTS: Final = 256
"""The most barriers that the catalog keeps."""


@dataclass(frozen=True, slots=True)
class KeptCut:
    """numbers: of each partition, the latest number of a message in front of the cut."""

    name: str
    numbers: Mapping[int, int]

    def position(self, partition: int) -> int:
        """The position behind all messages in front of the cut. Partitions that were made later have none."""
        return self.numbers.get(partition, 0) + 1

    def to_plain(self) -> list[Any]:
        return [self.name, sorted(self.numbers.items())]


class KeptCuts:
    """The barriers by name, a part of the catalog's state. Pure and deterministic."""

    def __init__(self) -> None:
        self.by_name: dict[str, KeptCut] = {}
        self.commands: dict[str, Callable[..., Any]] = {
            "keep_barrier": self._keep,
            "forget_barrier": self._forget,
        }

    def check_free(self, name: str) -> None:
        """Raises PreconditionFailedError where a barrier cannot be kept under a name."""
        if name in self.by_name:
            raise PreconditionFailedError(f"there is a barrier '{name}': a barrier never changes")
        if len(self.by_name) >= MOST_KEPT_CUTS:
            raise PreconditionFailedError(f"there are {MOST_KEPT_CUTS} barriers: delete one first")

    def _keep(self, name: str, numbers: Iterable[tuple[int, int]]) -> None:
        self.check_free(name)
        self.by_name[name] = KeptCut(name, dict(numbers))

    def _forget(self, name: str) -> None:
        if self.by_name.pop(name, None) is None:
            raise NotFoundError(f"no barrier '{name}'")

    def to_plain(self) -> dict[str, Any]:
        """The field of the catalog's snapshot; none without barriers."""
        found = [one.to_plain() for _, one in sorted(self.by_name.items())]
        return {"barriers": found} if found else {}

    def restore(self, plain: Iterable[Any]) -> None:
        """Replace all barriers by those of a snapshot."""
        self.by_name.clear()
        for name, numbers in plain:
            self._keep(name, numbers)
